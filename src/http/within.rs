//! Work of which a caller waits for so long and no longer.

use std::time::Duration;

use crate::base::{Error, Result};

/// Runs work on a task of its own, and waits for it at most so long: a read of a remote store blocks the
/// task it runs on, whose own timers stand still meanwhile. What is not waited for any more goes on
/// until it ends by itself.
///
/// # Errors
/// Those of the work; 503 if it takes longer.
pub(super) async fn within<T: Send + 'static>(
    time: Duration,
    work: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    match tokio::time::timeout(time, tokio::spawn(work)).await {
        Ok(Ok(done)) => done,
        Ok(Err(error)) => Err(Error::internal(error)),
        Err(_) => Err(Error::busy("store_unavailable", "the store does not answer", 2)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(flavor = "multi_thread")]
    async fn work_that_blocks_its_thread_is_not_waited_for() {
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let blocking =
            async move { tokio::task::block_in_place(|| ended.recv().map_err(Error::internal)) };
        let error = within(Duration::from_millis(10), blocking).await.unwrap_err();
        assert_eq!(error.code(), "store_unavailable");
        end.send(()).unwrap();
        assert_eq!(within(Duration::from_secs(60), async { Ok(7) }).await.unwrap(), 7);
    }
}
