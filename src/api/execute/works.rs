//! Costly work of operations, such as reading an uploaded file or finding the stems of a long text: few
//! pieces at a time, never in a transaction and never on a thread that serves requests.

use std::sync::Arc;
use std::time::Duration;

use super::slots::{Slot, SlotLimits, Slots};
use crate::base::{Error, Result};
use crate::store::Lane;

/// Reading files: two requests at a time, and one of a user. Each may hold the largest upload, what was
/// made of it, and a child process: some 300 MiB at worst. The longest piece of work takes less than the
/// wait.
pub const FILES: SlotLimits = SlotLimits {
    all: 2,
    of_user: 1,
    of_lane: 2,
    wait: Duration::from_secs(20),
    refusal: || Error::busy("overloaded", "too many files are being read; try again", 5),
};

/// Computations, a second long at most: two requests at a time, and one of a user and of an organization.
/// They have slots of their own, since a file that is read, or a pattern that is looked for, takes ten
/// times as long.
pub const COMPUTATIONS: SlotLimits = SlotLimits {
    all: 2,
    of_user: 1,
    of_lane: 1,
    wait: Duration::from_secs(20),
    refusal: || Error::busy("overloaded", "too many documents are being indexed; try again", 5),
};

/// Does costly work of a kind.
pub struct Works(Slots);

impl Works {
    /// Work for which there are so many slots.
    pub fn new(limits: SlotLimits) -> Self {
        Works(Slots::new(limits))
    }

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
    pub async fn run<T: Send + 'static>(
        &self,
        slot: Arc<Slot>,
        works: Vec<Box<dyn FnOnce() -> T + Send>>,
    ) -> Result<Vec<T>> {
        let done = tokio::task::spawn_blocking(move || {
            let _slot = slot;
            works.into_iter().map(|work| work()).collect()
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
        let works = Works::new(FILES);
        let slot = Arc::new(works.slot([1; 16], [9; 16]).await.unwrap());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let run = Box::pin(works.run(slot, vec![Box::new(move || ended.recv().is_err())]));
        assert!(soon(run).await.is_none());
        assert!(soon(works.slot([1; 16], [9; 16])).await.is_none(), "its work goes on");
        drop(end);
        assert!(works.slot([1; 16], [9; 16]).await.is_ok());
    }

    #[tokio::test]
    async fn an_organization_computes_one_at_a_time_and_others_beside_it() {
        let works = Works::new(COMPUTATIONS);
        let slot = Arc::new(works.slot([1; 16], [9; 16]).await.unwrap());
        assert!(soon(works.slot([2; 16], [9; 16])).await.is_none(), "of the same organization");
        let other = Arc::new(works.slot([2; 16], [8; 16]).await.unwrap());
        let made = works.run(other.clone(), vec![Box::new(|| 7)]).await.unwrap();
        assert_eq!(made, [7]);
        assert!(soon(works.slot([2; 16], [8; 16])).await.is_none(), "its result is held");
        drop((slot, other));
        assert!(works.slot([2; 16], [9; 16]).await.is_ok());
    }
}
