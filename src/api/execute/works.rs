//! Costly work of operations, such as reading an uploaded file: few pieces at a time, never in a
//! transaction and never on a thread that serves requests.

use std::sync::Arc;
use std::time::Duration;

use super::slots::{Slot, SlotLimits, Slots};
use crate::api::calls::{Work, WorkResult};
use crate::base::{Error, Result};
use crate::outside::Children;
use crate::store::Lane;

/// Two requests with work at a time, and one of a user. Each may hold the largest upload, what was made
/// of it, and a child process: some 300 MiB at worst. The longest piece of work takes less than the
/// wait.
const LIMITS: SlotLimits = SlotLimits {
    all: 2,
    of_user: 1,
    of_lane: 2,
    wait: Duration::from_secs(20),
    refusal: || Error::busy("overloaded", "too many files are being read; try again", 5),
};

/// Runs costly work.
pub struct Works(Slots);

impl Default for Works {
    fn default() -> Self {
        Works(Slots::new(LIMITS))
    }
}

impl Works {
    /// Waits for a slot, to be held until the request is answered: the results are in memory until
    /// then.
    ///
    /// # Errors
    /// 503 if none became free in time.
    pub async fn slot(&self, user: Lane, lane: Lane) -> Result<Slot> {
        self.0.take(user, lane).await
    }

    /// Does the work, in its order; returns the results. A dropped request holds its slot until its
    /// work ends.
    ///
    /// # Errors
    /// 500 if it panics.
    pub async fn run(
        &self,
        slot: Arc<Slot>,
        children: Children,
        works: Vec<Work>,
    ) -> Result<Vec<Result<WorkResult>>> {
        let done = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            works.into_iter().map(|work| work(&children)).collect()
        });
        done.await.map_err(|e| Error::internal(format!("costly work failed: {e}")))
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn a_dropped_request_holds_its_slot_until_its_work_ends() {
        let works = Works::default();
        let slot = Arc::new(works.slot([1; 16], [9; 16]).await.unwrap());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work: Work = Box::new(move |_| Ok(Arc::new(ended.recv().is_err())));
        let run = Box::pin(works.run(slot, Children::default(), vec![work]));
        assert!(soon(run).await.is_none());
        assert!(soon(works.slot([1; 16], [9; 16])).await.is_none(), "its work goes on");
        drop(end);
        assert!(works.slot([1; 16], [9; 16]).await.is_ok());
    }
}
