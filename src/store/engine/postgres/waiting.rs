//! Waiting for a future on a thread that may block, for a limited time, without a runtime: the
//! futures of the driver need none, and those of a runtime may not be waited for on its threads.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use std::time::Instant;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Returns the output of a future, or `None` if it is not ready by `deadline`.
pub fn wait<F: Future>(future: F, deadline: Instant) -> Option<F::Output> {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut context = Context::from_waker(&waker);
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
            return Some(output);
        }
        let left = deadline.checked_duration_since(Instant::now())?;
        thread::park_timeout(left);
    }
}

/// Starts a future and does not wait for it: what it sends at once is sent.
pub fn begin<F: Future>(future: F) {
    let mut future = pin!(future);
    let _ = future.as_mut().poll(&mut Context::from_waker(Waker::noop()));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::sync::oneshot;

    use super::*;

    #[test]
    fn a_future_is_awaited_until_the_deadline() {
        let soon = || Instant::now() + Duration::from_millis(20);
        let (sender, receiver) = oneshot::channel();
        let long = Instant::now() + Duration::from_secs(60);
        thread::spawn(move || sender.send(7));
        assert_eq!(wait(receiver, long), Some(Ok(7)));
        assert_eq!(wait(std::future::pending::<()>(), soon()), None);
    }
}
