//! Slow searches, which run on blocking threads and never in a transaction.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::api::calls::Search;
use crate::base::{Error, Result};

/// Concurrent requests with searches: on a small machine more would starve other requests.
const MAX_CONCURRENT_SEARCHES: usize = 2;

/// Maximum wait for a slot; then 503.
const SEARCH_WAIT: Duration = Duration::from_secs(5);

/// Time limit of all searches of one request. A running search is not cancelled; the next one is
/// not started.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// Runs searches.
pub struct Searches(Arc<Semaphore>);

impl Default for Searches {
    fn default() -> Self {
        Searches(Arc::new(Semaphore::new(MAX_CONCURRENT_SEARCHES)))
    }
}

impl Searches {
    /// Returns the results of these searches, in their order.
    ///
    /// # Errors
    /// 503 if no slot became free in time, or if they take too long.
    pub async fn make(&self, searches: Vec<Search>) -> Result<Vec<bool>> {
        let Ok(Ok(slot)) = timeout(SEARCH_WAIT, self.0.clone().acquire_owned()).await else {
            return Err(Error::busy(
                "overloaded",
                "too many texts are being examined; try again",
                5,
            ));
        };
        let found = tokio::task::spawn_blocking(move || {
            // A dropped request holds its slot until its search ends.
            let _slot = slot;
            let begin = Instant::now();
            let in_time = |search: Search| {
                if begin.elapsed() < SEARCH_TIME { search() } else { Err(too_slow()) }
            };
            searches.into_iter().map(in_time).collect()
        });
        found.await.map_err(|e| Error::internal(format!("searching failed: {e}")))?
    }
}

fn too_slow() -> Error {
    Error::busy(
        "too_slow",
        "the patterns of the policies take more than 10 s for this text; shorten either, or try \
         again when the server has less to do",
        10,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_request_holds_its_slot_until_its_search_ends() {
        let searches = Searches::default();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let search: Search = Box::new(move || Ok(ended.recv().is_err()));
        let made = Box::pin(searches.make(vec![search]));
        assert!(timeout(Duration::ZERO, made).await.is_err());
        assert_eq!(searches.0.available_permits(), MAX_CONCURRENT_SEARCHES - 1);
        drop(end);
        assert!(searches.0.acquire_many(MAX_CONCURRENT_SEARCHES as u32).await.is_ok());
    }
}
