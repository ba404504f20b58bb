//! Costly work of operations, such as reading an uploaded file: few pieces at a time, never in a
//! transaction and never on a thread that serves requests.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::api::calls::{Work, WorkResult};
use crate::base::{Error, Result};
use crate::outside::Children;
use crate::store::Lane;

/// Requests with work at a time. Each may hold the largest upload, what was made of it, and a child
/// process: some 300 MiB at worst.
const MAX_CONCURRENT_WORKS: usize = 2;

/// Maximum wait for a slot; then 503. The longest piece of work takes less.
const WORK_WAIT: Duration = Duration::from_secs(20);

/// Lanes that are remembered before those without a request are dropped.
const MAX_IDLE_LANES: usize = 256;

/// Runs costly work.
pub struct Works {
    slots: Arc<Semaphore>,
    /// The single slot of each lane: what one client sends never takes all slots.
    lanes: Mutex<HashMap<Lane, Arc<Semaphore>>>,
}

/// A slot, held until its request is answered: the results are in memory until then.
pub struct WorkSlot {
    _lane: OwnedSemaphorePermit,
    _slot: OwnedSemaphorePermit,
}

impl Default for Works {
    fn default() -> Self {
        let slots = Arc::new(Semaphore::new(MAX_CONCURRENT_WORKS));
        Works { slots, lanes: Mutex::default() }
    }
}

impl Works {
    /// Waits for a slot for a request of this lane. Each lane has one at a time, and lanes get theirs
    /// in the order in which they asked.
    ///
    /// # Errors
    /// 503 if none became free in time.
    pub async fn slot(&self, lane: Lane) -> Result<WorkSlot> {
        self.slot_within(lane, WORK_WAIT).await
    }

    async fn slot_within(&self, lane: Lane, wait: Duration) -> Result<WorkSlot> {
        let own = self.lane(lane);
        let both = async {
            let lane = own.acquire_owned().await.ok()?;
            let slot = self.slots.clone().acquire_owned().await.ok()?;
            Some(WorkSlot { _lane: lane, _slot: slot })
        };
        timeout(wait, both)
            .await
            .ok()
            .flatten()
            .ok_or_else(|| Error::busy("overloaded", "too many files are being read; try again", 5))
    }

    fn lane(&self, lane: Lane) -> Arc<Semaphore> {
        let mut lanes = self.lanes.lock().unwrap_or_else(PoisonError::into_inner);
        if lanes.len() > MAX_IDLE_LANES {
            lanes.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        lanes.entry(lane).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
    }

    /// Does the work, in its order; returns the results. A dropped request holds its slot until its
    /// work ends.
    ///
    /// # Errors
    /// 500 if it panics.
    pub async fn run(
        &self,
        slot: Arc<WorkSlot>,
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
    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::ZERO, future).await.ok()
    }

    #[tokio::test]
    async fn a_lane_has_one_slot_and_never_takes_those_of_others() {
        let works = Works::default();
        let first = works.slot([1; 16]).await.unwrap();
        assert!(soon(works.slot([1; 16])).await.is_none());
        let other = soon(works.slot([2; 16])).await.unwrap().unwrap();
        let mut third = Box::pin(works.slot([3; 16]));
        assert!(soon(&mut third).await.is_none(), "all slots are taken");
        drop(first);
        assert!(soon(&mut third).await.is_some());
        drop(other);
    }

    #[tokio::test]
    async fn a_request_without_a_slot_is_refused_after_a_while() {
        let works = Works::default();
        let _first = works.slot([1; 16]).await.unwrap();
        let late = works.slot_within([1; 16], Duration::from_millis(1)).await;
        let Err(refused) = late else { panic!("it got a slot") };
        assert_eq!((refused.code(), refused.retry_after_secs()), ("overloaded", Some(5)));
    }

    #[tokio::test]
    async fn a_dropped_request_holds_its_slot_until_its_work_ends() {
        let works = Works::default();
        let slot = Arc::new(works.slot([1; 16]).await.unwrap());
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let work: Work = Box::new(move |_| Ok(Arc::new(ended.recv().is_err())));
        let run = Box::pin(works.run(slot, Children::default(), vec![work]));
        assert!(soon(run).await.is_none());
        assert_eq!(works.slots.available_permits(), MAX_CONCURRENT_WORKS - 1);
        drop(end);
        assert!(works.slot([1; 16]).await.is_ok());
    }

    #[tokio::test]
    async fn idle_lanes_are_forgotten() {
        let works = Works::default();
        let held = works.slot([0; 16]).await.unwrap();
        for lane in 1..=2 * MAX_IDLE_LANES as u128 {
            drop(works.slot(lane.to_be_bytes()).await.unwrap());
        }
        let lanes = works.lanes.lock().unwrap();
        assert!(lanes.len() <= MAX_IDLE_LANES + 1 && lanes.contains_key(&[0; 16]));
        drop(held);
    }
}
