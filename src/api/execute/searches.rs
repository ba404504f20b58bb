//! Slow searches, which run on blocking threads and never in a transaction.

use std::time::Duration;

use tokio::time::Instant;

use super::works::COMPUTATIONS;
use crate::api::calls::Search;
use crate::base::{Error, Result};
use crate::store::{Admission, AdmissionLimits, Lane};

/// Two requests with searches at a time, since on a small machine more would starve others, and one of a
/// user and of an organization: patterns and texts can be made to take all of [`SEARCH_TIME`] and a last
/// search more. The wait is longer than that, so that who waits gets a turn.
const LIMITS: AdmissionLimits = AdmissionLimits {
    refusal: || Error::busy("overloaded", "too many texts are being examined; try again", 5),
    ..COMPUTATIONS
};

/// Time limit of all searches of one request. A running search is not cancelled; the next one is
/// not started.
const SEARCH_TIME: Duration = Duration::from_secs(10);

/// Runs searches.
pub struct Searches(pub(super) Admission<Lane>);

impl Default for Searches {
    fn default() -> Self {
        Searches(Admission::new(LIMITS))
    }
}

impl Searches {
    /// Returns the results of these searches of this user in this lane, in their order.
    ///
    /// # Errors
    /// 503 if no slot became free in time, or if they take too long.
    pub async fn make(
        &self,
        searches: Vec<Search>,
        (user, lane): (Lane, Lane),
    ) -> Result<Vec<bool>> {
        let slot = self.0.enter([user, lane], 0).await?;
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
    use tokio::time::timeout;

    use super::*;

    #[tokio::test]
    async fn a_dropped_request_holds_its_slot_until_its_search_ends() {
        let searches = Searches::default();
        let from = ([1; 16], [9; 16]);
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let search: Search = Box::new(move || Ok(ended.recv().is_err()));
        let made = Box::pin(searches.make(vec![search], from));
        assert!(timeout(Duration::ZERO, made).await.is_err());
        let next = || Box::new(|| Ok(true)) as Search;
        assert!(timeout(Duration::ZERO, searches.make(vec![next()], from)).await.is_err());
        let others = searches.make(vec![next()], ([2; 16], [8; 16])).await;
        assert_eq!(others.unwrap(), [true], "other organizations have a slot left");
        drop(end);
        assert_eq!(searches.make(vec![next()], from).await.unwrap(), [true]);
    }
}
