//! Slots of work that takes long: few at a time, with turns between users and organizations, and a
//! share for each of them that leaves some to the others.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use crate::base::{Error, Result};
use crate::store::{FairSemaphore, Lane, Permit, WorkHints};

/// Users, organizations or networks that are remembered before those without a share are dropped.
const MAX_IDLE: usize = 256;

/// How many slots there are, and how long one is waited for.
pub struct SlotLimits {
    /// All of them.
    pub all: usize,
    /// Those that a user may have.
    pub of_user: usize,
    /// Those that an organization may have.
    pub of_lane: usize,
    /// Maximum wait for a slot; then 503.
    pub wait: Duration,
    /// What a request is told that got none in time.
    pub refusal: fn() -> Error,
}

/// Hands out slots.
pub struct Slots {
    limits: SlotLimits,
    /// Users and lanes take turns, so that nobody's many requests hold up another's single one.
    all: Arc<FairSemaphore>,
    users: Shares<Lane, Semaphore>,
    lanes: Shares<Lane, Semaphore>,
}

/// A slot, until it is dropped.
pub struct Slot {
    _of_user: OwnedSemaphorePermit,
    _of_lane: OwnedSemaphorePermit,
    _of_all: Permit,
}

impl Slots {
    /// All slots are free.
    pub fn new(limits: SlotLimits) -> Self {
        Slots {
            all: Arc::new(FairSemaphore::new(limits.all)),
            users: Shares::new(move || Semaphore::new(limits.of_user)),
            lanes: Shares::new(move || Semaphore::new(limits.of_lane)),
            limits,
        }
    }

    /// Waits for a slot for a request of this user in this lane.
    ///
    /// # Errors
    /// 503 if none became free in time.
    pub async fn take(&self, user: Lane, lane: Lane) -> Result<Slot> {
        let (of_user, of_lane) = (self.users.of_one(user), self.lanes.of_one(lane));
        let all = async {
            let _of_user = of_user.acquire_owned().await.ok()?;
            let _of_lane = of_lane.acquire_owned().await.ok()?;
            let _of_all = self.all.acquire(WorkHints { lane, user, bytes: 0 }).await.ok()?;
            Some(Slot { _of_user, _of_lane, _of_all })
        };
        let slot = timeout(self.limits.wait, all).await.ok().flatten();
        slot.ok_or_else(self.limits.refusal)
    }
}

/// What each of many may have of something: a share is made when it is first asked for. Of many, those are
/// forgotten that nobody holds.
pub struct Shares<K, S> {
    new: Box<dyn Fn() -> S + Send + Sync>,
    of: Mutex<HashMap<K, Arc<S>>>,
}

impl<K: Eq + Hash, S> Shares<K, S> {
    /// Shares that are made so.
    pub fn new(new: impl Fn() -> S + Send + Sync + 'static) -> Self {
        Shares { new: Box::new(new), of: Mutex::default() }
    }

    /// The share of one of them.
    pub fn of_one(&self, one: K) -> Arc<S> {
        let mut of = self.of.lock().unwrap_or_else(PoisonError::into_inner);
        if of.len() > MAX_IDLE {
            of.retain(|_, share| Arc::strong_count(share) > 1);
        }
        of.entry(one).or_insert_with(|| Arc::new((self.new)())).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn soon<T>(future: impl Future<Output = T>) -> Option<T> {
        timeout(Duration::ZERO, future).await.ok()
    }

    fn slots(all: usize, of_user: usize, of_lane: usize) -> Slots {
        let wait = Duration::from_millis(50);
        Slots::new(SlotLimits {
            all,
            of_user,
            of_lane,
            wait,
            refusal: || Error::busy("overloaded", "too many; try again", 5),
        })
    }

    #[tokio::test]
    async fn a_user_never_takes_the_slots_of_others() {
        let slots = slots(2, 1, 2);
        let first = slots.take([1; 16], [9; 16]).await.unwrap();
        assert!(soon(slots.take([1; 16], [8; 16])).await.is_none());
        let other = soon(slots.take([2; 16], [9; 16])).await.unwrap().unwrap();
        let mut third = Box::pin(slots.take([3; 16], [9; 16]));
        assert!(soon(&mut third).await.is_none(), "all slots are taken");
        drop(first);
        assert!(soon(&mut third).await.is_some());
        drop(other);
    }

    #[tokio::test]
    async fn an_organization_never_takes_the_slots_of_others() {
        let slots = slots(2, 1, 1);
        let _first = slots.take([1; 16], [9; 16]).await.unwrap();
        assert!(soon(slots.take([2; 16], [9; 16])).await.is_none());
        assert!(soon(slots.take([3; 16], [8; 16])).await.is_some());
    }

    #[tokio::test]
    async fn a_request_without_a_slot_is_refused_after_a_while() {
        let slots = slots(1, 1, 1);
        let _first = slots.take([1; 16], [9; 16]).await.unwrap();
        let Err(refused) = slots.take([1; 16], [9; 16]).await else { panic!("it got a slot") };
        assert_eq!((refused.code(), refused.retry_after_secs()), ("overloaded", Some(5)));
        assert_eq!(refused.message(), "too many; try again");
    }

    #[tokio::test]
    async fn lanes_take_turns() {
        let slots = slots(2, 1, 2);
        let held = [slots.take([1; 16], [1; 16]).await, slots.take([2; 16], [1; 16]).await];
        let mut third = Box::pin(slots.take([3; 16], [2; 16]));
        let mut fourth = Box::pin(slots.take([4; 16], [2; 16]));
        let mut other = Box::pin(slots.take([5; 16], [3; 16]));
        for waiting in [&mut third, &mut fourth, &mut other] {
            assert!(soon(waiting).await.is_none());
        }
        drop(held);
        assert!(soon(&mut third).await.is_some() && soon(&mut other).await.is_some());
        drop(fourth);
    }

    #[tokio::test]
    async fn the_shares_of_those_who_have_none_are_forgotten() {
        let slots = slots(2, 1, 2);
        let held = slots.take([0; 16], [9; 16]).await.unwrap();
        for user in 1..=2 * MAX_IDLE as u128 {
            drop(slots.take(user.to_be_bytes(), [9; 16]).await.unwrap());
        }
        let users = slots.users.of.lock().unwrap();
        assert!(users.len() <= MAX_IDLE + 1 && users.contains_key(&[0; 16]));
        drop(held);
    }
}
