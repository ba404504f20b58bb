//! The delay of refusals, which slows down clients that send again as soon as they are answered.
//!
//! Refusing a request costs about as much as receiving it. Without a delay, a client that ignores
//! `Retry-After` would take all the processor time there is for being refused.

use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::sleep;

/// The shortest delay: `Retry-After` is never less, so that it costs other clients nothing.
const MIN_DELAY: Duration = Duration::from_secs(1);

/// What is added at most. It differs, so that clients that were refused together do not come back
/// together.
const JITTER: Duration = Duration::from_secs(1);

/// Requests that are delayed at a time: each holds a connection with its buffers, some 20 KiB, so
/// 40 MiB together. Further ones are refused without a delay.
const MAX_DELAYED: usize = 2048;

/// Delays refusals.
pub struct RefusalDelay(Semaphore);

impl Default for RefusalDelay {
    fn default() -> Self {
        RefusalDelay(Semaphore::new(MAX_DELAYED))
    }
}

impl RefusalDelay {
    /// Returns after a delay of 1 to 2 s, given by a random number, or when `stopped` returns; at
    /// once if too many requests are delayed already.
    pub async fn wait(&self, random: u8, stopped: impl Future<Output = ()>) {
        let Ok(_slot) = self.0.try_acquire() else { return };
        tokio::select! {
            () = sleep(MIN_DELAY + JITTER * u32::from(random) / u32::from(u8::MAX)) => {}
            () = stopped => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
    use std::pin::pin;

    use tokio::time::{Instant, timeout};

    use super::*;

    #[tokio::test]
    async fn a_refusal_is_delayed_for_a_second_unless_the_server_stops() {
        let delay = RefusalDelay::default();
        let begun = Instant::now();
        delay.wait(0, pending()).await;
        assert!(begun.elapsed() >= MIN_DELAY);
        let begun = Instant::now();
        delay.wait(255, ready(())).await;
        assert!(begun.elapsed() < MIN_DELAY);
    }

    #[tokio::test]
    async fn refusals_beyond_the_limit_are_not_delayed() {
        let delay = RefusalDelay(Semaphore::new(1));
        let mut first = pin!(delay.wait(0, pending()));
        assert!(timeout(Duration::ZERO, &mut first).await.is_err());
        assert!(timeout(Duration::ZERO, delay.wait(0, pending())).await.is_ok());
        first.await;
        assert!(timeout(Duration::ZERO, delay.wait(0, pending())).await.is_err());
    }
}
