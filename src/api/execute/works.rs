//! Costly work of operations, such as reading an uploaded file or finding the stems of a long text: few
//! pieces at a time, never in a transaction and never on a thread that serves requests.

use std::sync::Arc;
use std::time::Duration;

use crate::base::{Error, Result};
use crate::store::{Admission, AdmissionLimits, Lane, Permit};

/// A slot of work that takes long: a person and an organization have a share of them, which leaves some to the
/// others.
pub type Slot = Permit<Lane>;

/// Reading files: two requests at a time, and one of a user. Each may hold the largest upload, what was
/// made of it, and a child process: some 300 MiB at worst. The longest piece of work takes less than the
/// wait.
pub const FILES: AdmissionLimits = AdmissionLimits {
    admitted_of_one: [1, 2],
    refusal: || Error::busy("overloaded", "too many files are being read; try again", 5),
    ..COMPUTATIONS
};

/// Computations, a second long at most: two requests at a time, and one of a user and of an organization.
/// They have slots of their own, since a file that is read, or a pattern that is looked for, takes ten
/// times as long.
pub const COMPUTATIONS: AdmissionLimits = AdmissionLimits {
    admitted: 2,
    admitted_of_one: [1, 1],
    waiting: MAX_WAITING,
    waiting_of_one: [MAX_WAITING / 4; 2],
    wait: Duration::from_secs(20),
    refusal: || Error::busy("overloaded", "too many documents are being indexed; try again", 5),
};

/// Requests that wait for a slot. None gets one in time behind so many others: it ends their search for the
/// next, not their wait.
pub const MAX_WAITING: usize = 4096;

/// Does costly work of a kind.
pub struct Works(pub(super) Admission<Lane>);

impl Works {
    /// Work for which there are so many slots.
    pub fn new(limits: AdmissionLimits) -> Self {
        Works(Admission::new(limits))
    }

    /// Waits for a slot, to be held until the request is answered: the results are in memory until
    /// then.
    ///
    /// # Errors
    /// 503 if none became free in time.
    pub async fn slot(&self, user: Lane, lane: Lane) -> Result<Slot> {
        self.0.enter([user, lane], 0).await
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
