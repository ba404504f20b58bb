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
use crate::store::{FairSemaphore, Lane, Permit, WorkHints};

/// Requests with work at a time. Each may hold the largest upload, what was made of it, and a child
/// process: some 300 MiB at worst.
const MAX_CONCURRENT_WORKS: usize = 2;

/// Maximum wait for a slot; then 503. The longest piece of work takes less.
const WORK_WAIT: Duration = Duration::from_secs(20);

/// Users that are remembered before those without a request are dropped.
const MAX_IDLE_USERS: usize = 256;

/// Runs costly work.
pub struct Works {
    /// Lanes take turns, so that the users of one organization do not hold up another.
    slots: Arc<FairSemaphore>,
    /// The single slot of each user: what one sends never takes all slots.
    users: Mutex<HashMap<Lane, Arc<Semaphore>>>,
}

/// A slot, held until its request is answered: the results are in memory until then.
pub struct WorkSlot {
    _user: OwnedSemaphorePermit,
    _slot: Permit,
}

impl Default for Works {
    fn default() -> Self {
        let slots = Arc::new(FairSemaphore::new(MAX_CONCURRENT_WORKS));
        Works { slots, users: Mutex::default() }
    }
}

impl Works {
    /// Waits for a slot for a request of this user in this lane. Each user has one at a time, and lanes
    /// take turns.
    ///
    /// # Errors
    /// 503 if none became free in time.
    pub async fn slot(&self, user: Lane, lane: Lane) -> Result<WorkSlot> {
        self.slot_within(user, lane, WORK_WAIT).await
    }

    async fn slot_within(&self, user: Lane, lane: Lane, wait: Duration) -> Result<WorkSlot> {
        let own = self.user(user);
        let both = async {
            let user = own.acquire_owned().await.ok()?;
            let slot = self.slots.acquire(WorkHints { lane, bytes: 0 }).await.ok()?;
            Some(WorkSlot { _user: user, _slot: slot })
        };
        timeout(wait, both)
            .await
            .ok()
            .flatten()
            .ok_or_else(|| Error::busy("overloaded", "too many files are being read; try again", 5))
    }

    fn user(&self, user: Lane) -> Arc<Semaphore> {
        let mut users = self.users.lock().unwrap_or_else(PoisonError::into_inner);
        if users.len() > MAX_IDLE_USERS {
            users.retain(|_, slot| Arc::strong_count(slot) > 1);
        }
        users.entry(user).or_insert_with(|| Arc::new(Semaphore::new(1))).clone()
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
    async fn a_user_has_one_slot_and_never_takes_those_of_others() {
        let works = Works::default();
        let first = works.slot([1; 16], [9; 16]).await.unwrap();
        assert!(soon(works.slot([1; 16], [9; 16])).await.is_none());
        let other = soon(works.slot([2; 16], [9; 16])).await.unwrap().unwrap();
        let mut third = Box::pin(works.slot([3; 16], [9; 16]));
        assert!(soon(&mut third).await.is_none(), "all slots are taken");
        drop(first);
        assert!(soon(&mut third).await.is_some());
        drop(other);
    }

    #[tokio::test]
    async fn a_request_without_a_slot_is_refused_after_a_while() {
        let works = Works::default();
        let _first = works.slot([1; 16], [9; 16]).await.unwrap();
        let late = works.slot_within([1; 16], [9; 16], Duration::from_millis(1)).await;
        let Err(refused) = late else { panic!("it got a slot") };
        assert_eq!((refused.code(), refused.retry_after_secs()), ("overloaded", Some(5)));
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

    #[tokio::test]
    async fn lanes_take_turns() {
        let works = Works::default();
        let held = [works.slot([1; 16], [1; 16]).await, works.slot([2; 16], [1; 16]).await];
        let mut third = Box::pin(works.slot([3; 16], [1; 16]));
        let mut fourth = Box::pin(works.slot([4; 16], [1; 16]));
        let mut other = Box::pin(works.slot([5; 16], [2; 16]));
        for waiting in [&mut third, &mut fourth, &mut other] {
            assert!(soon(waiting).await.is_none());
        }
        drop(held);
        assert!(soon(&mut third).await.is_some() && soon(&mut other).await.is_some());
        drop(fourth);
    }

    #[tokio::test]
    async fn idle_users_are_forgotten() {
        let works = Works::default();
        let held = works.slot([0; 16], [9; 16]).await.unwrap();
        for lane in 1..=2 * MAX_IDLE_USERS as u128 {
            drop(works.slot(lane.to_be_bytes(), [9; 16]).await.unwrap());
        }
        let users = works.users.lock().unwrap();
        assert!(users.len() <= MAX_IDLE_USERS + 1 && users.contains_key(&[0; 16]));
        drop(held);
    }
}
