//! Searches that the processor is long about: on threads of their own, never in a transaction.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};

use crate::api::calls::Search;
use crate::base::{Error, Result};

/// Requests that search at a time: on a small machine more would starve everybody else.
const MAX_CONCURRENT_SEARCHES: usize = 2;

/// Who waits longer for a place to search gets 503.
const SEARCH_WAIT: Duration = Duration::from_secs(5);

/// One request may search so long. A search is not broken off; the next is not begun.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// Where searches are made.
pub struct Searches(Arc<Semaphore>);

impl Default for Searches {
    fn default() -> Self {
        Searches(Arc::new(Semaphore::new(MAX_CONCURRENT_SEARCHES)))
    }
}

impl Searches {
    /// What came of each of these searches, in their order.
    ///
    /// # Errors
    /// 503 when there was no place to make them, or no time to make them all.
    pub async fn make(&self, searches: Vec<Search>) -> Result<Vec<bool>> {
        let Ok(Ok(place)) = timeout(SEARCH_WAIT, self.0.clone().acquire_owned()).await else {
            return Err(Error::busy("overloaded", "too many texts are examined; try again", 5));
        };
        let found = tokio::task::spawn_blocking(move || {
            // Who hangs up meanwhile makes no room for another.
            let _place = place;
            let begin = Instant::now();
            let in_time = |search: Search| match begin.elapsed() < SEARCH_TIME {
                true => search(),
                false => Err(Error::busy(
                    "too_slow",
                    "the patterns of the policies take more than 10 s for this text; shorten \
                     either, or try again when the server has less to do",
                    10,
                )),
            };
            searches.into_iter().map(in_time).collect()
        });
        found.await.map_err(|e| Error::internal(format!("searching failed: {e}")))?
    }
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
