//! Waiting for a future on a thread that may block, for a limited time, without a runtime: the
//! futures of the driver need none, and those of a runtime may not be waited for on its threads.

use std::future::poll_fn;
use std::pin::{Pin, pin};
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

/// A future that begins behind another (see [`wait_before`]).
pub struct Next<F: Future> {
    future: Pin<Box<F>>,
    is_begun: bool,
    output: Option<F::Output>,
}

impl<F: Future> Next<F> {
    /// One that has not begun.
    pub fn new(future: F) -> Self {
        Next { future: Box::pin(future), is_begun: false, output: None }
    }

    /// Whether it has sent anything.
    pub fn is_begun(&self) -> bool {
        self.is_begun
    }

    fn begin(&mut self, context: &mut Context) {
        self.is_begun = true;
        if let Poll::Ready(output) = self.future.as_mut().poll(context) {
            self.output = Some(output);
        }
    }

    /// Returns its output, or `None` if it is not ready by `deadline`.
    pub fn wait(self, deadline: Instant) -> Option<F::Output> {
        self.output.or_else(|| wait(self.future, deadline))
    }
}

/// Returns the output of a future, or `None` if it is not ready by `deadline`. What it sends at once is sent, and
/// then, if `may_begin`, what `next` does.
pub fn wait_before<T, F: Future>(
    first: impl Future<Output = T>,
    (next, may_begin): (&mut Next<F>, impl Fn() -> bool),
    deadline: Instant,
) -> Option<T> {
    let (mut first, mut is_sent) = (pin!(first), false);
    let both = poll_fn(|context| {
        let output = first.as_mut().poll(context);
        if !is_sent && may_begin() {
            next.begin(context);
        }
        is_sent = true;
        output
    });
    wait(both, deadline)
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

    #[test]
    fn what_comes_next_begins_at_once_if_it_may_then() {
        let long = Instant::now() + Duration::from_secs(60);
        let soon = || Instant::now() + Duration::from_millis(20);
        // That it may later is not asked.
        let is_sent = std::cell::Cell::new(false);
        let first = async {
            tokio::task::yield_now().await;
            is_sent.set(true);
        };
        let mut next = Next::new(std::future::ready(7));
        assert_eq!(wait_before(first, (&mut next, || is_sent.get()), long), Some(()));
        assert!(!next.is_begun());
        // It begins before the first has an answer, which it does not wait for any longer.
        let (sender, receiver) = oneshot::channel();
        let mut next = Next::new(async { sender.send(()) });
        assert_eq!(wait_before(receiver, (&mut next, || true), long), Some(Ok(())));
        assert_eq!((next.is_begun(), next.wait(long)), (true, Some(Ok(()))));
        let (_sender, receiver) = oneshot::channel::<()>();
        let mut next = Next::new(std::future::pending::<()>());
        assert_eq!(wait_before(receiver, (&mut next, || true), soon()), None);
        assert_eq!((next.is_begun(), next.wait(soon())), (true, None));
    }
}
