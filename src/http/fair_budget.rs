//! A budget that clients share: of bytes, or of connections.

use std::collections::HashMap;
use std::hash::Hash;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// A client may hold at most this many times what is free after that. So one client alone gets three
/// quarters, two get three sevenths each, and something is always free for one more.
const SHARE_OF_FREE: usize = 3;

/// Limit of waiting takers; more would cost more time at each release than they are worth.
const MAX_WAITING: usize = 1024;

/// A budget of which each client, by its key, can take a share that depends on what is free.
pub struct FairBudget<K>(Arc<Shared<K>>);

struct Shared<K> {
    state: Mutex<State<K>>,
    freed: Notify,
}

struct State<K> {
    free: usize,
    held: HashMap<K, usize>,
    waiting: usize,
}

/// A part of a budget, given back when dropped.
pub struct Share<K: Hash + Eq + Clone> {
    budget: Arc<Shared<K>>,
    key: Option<K>,
    amount: usize,
}

impl<K: Hash + Eq + Clone> FairBudget<K> {
    /// A budget of this size.
    pub fn new(size: usize) -> Self {
        let state = State { free: size, held: HashMap::new(), waiting: 0 };
        FairBudget(Arc::new(Shared { state: Mutex::new(state), freed: Notify::new() }))
    }

    /// Takes a part, if the client may hold as much. Without a key only the size of the budget
    /// counts.
    pub fn try_take(&self, key: Option<K>, amount: usize) -> Option<Share<K>> {
        let mut share = Share { budget: self.0.clone(), key, amount: 0 };
        share.try_grow(amount).then_some(share)
    }

    /// Takes a part, waiting until the client may hold as much; `None` after `max_wait`.
    pub async fn take(
        &self,
        key: Option<K>,
        amount: usize,
        max_wait: Duration,
    ) -> Option<Share<K>> {
        let mut share = Share { budget: self.0.clone(), key, amount: 0 };
        share.grow(amount, max_wait).await.then_some(share)
    }
}

impl<K: Hash + Eq + Clone> Share<K> {
    /// Holds this much from now on; returns false, and changes nothing, if the client may not hold as
    /// much.
    pub fn resize(&mut self, amount: usize) -> bool {
        match amount.checked_sub(self.amount) {
            Some(0) => true,
            Some(more) => self.try_grow(more),
            None => {
                self.shrink(self.amount - amount);
                true
            }
        }
    }

    fn shrink(&mut self, less: usize) {
        let mut state = self.budget.state();
        state.free += less;
        if let Some(key) = &self.key
            && let Some(held) = state.held.get_mut(key)
        {
            *held -= less;
            if *held == 0 {
                state.held.remove(key);
            }
        }
        let is_awaited = state.waiting > 0;
        drop(state);
        self.amount -= less;
        if is_awaited {
            self.budget.freed.notify_waiters();
        }
    }

    fn try_grow(&mut self, more: usize) -> bool {
        let mut state = self.budget.state();
        let Some(free) = state.free.checked_sub(more) else { return false };
        if let Some(key) = &self.key {
            let held = state.held.get(key).copied().unwrap_or_default() + more;
            if held > free.saturating_mul(SHARE_OF_FREE) {
                return false;
            }
            state.held.insert(key.clone(), held);
        }
        state.free = free;
        drop(state);
        self.amount += more;
        true
    }

    /// Takes `more`, waiting until the client may hold as much; returns false after `max_wait`.
    pub async fn grow(&mut self, more: usize, max_wait: Duration) -> bool {
        if self.try_grow(more) {
            return true;
        }
        let budget = self.budget.clone();
        let Some(_waiting) = Waiter::begin(&budget) else { return false };
        let deadline = Instant::now() + max_wait;
        loop {
            let mut freed = pin!(budget.freed.notified());
            freed.as_mut().enable(); // What is freed from now on is noticed.
            if self.try_grow(more) {
                return true;
            }
            if timeout_at(deadline, freed).await.is_err() {
                return false;
            }
        }
    }
}

impl<K: Hash + Eq + Clone> Drop for Share<K> {
    fn drop(&mut self) {
        self.shrink(self.amount);
    }
}

impl<K> Shared<K> {
    fn state(&self) -> MutexGuard<'_, State<K>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts a waiting taker until it is dropped.
struct Waiter<'a, K>(&'a Shared<K>);

impl<'a, K> Waiter<'a, K> {
    fn begin(shared: &'a Shared<K>) -> Option<Self> {
        let mut state = shared.state();
        if state.waiting == MAX_WAITING {
            return None;
        }
        state.waiting += 1;
        Some(Waiter(shared))
    }
}

impl<K> Drop for Waiter<'_, K> {
    fn drop(&mut self) {
        self.0.state().waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn no_client_gets_more_than_three_quarters_and_something_is_left_for_others() {
        let budget = FairBudget::new(96);
        let take = |key| std::iter::from_fn(|| budget.try_take(Some(key), 1)).collect::<Vec<_>>();
        let first = take("first");
        assert_eq!(first.len(), 72);
        let second = take("second");
        assert_eq!(second.len(), 18);
        assert_eq!(take("third").len(), 4);
        drop(second);
        assert_eq!(take("third").len(), 18);
        drop(first);
        assert_eq!(take("third").len(), 72);
    }

    #[test]
    fn without_a_key_only_the_size_counts() {
        let budget: FairBudget<&str> = FairBudget::new(8);
        let all: Vec<_> = std::iter::from_fn(|| budget.try_take(None, 2)).collect();
        assert_eq!(all.len(), 4);
        assert!(budget.try_take(Some("other"), 1).is_none());
        drop(all);
        assert!(budget.try_take(Some("other"), 6).is_some());
        assert!(budget.try_take(Some("other"), 7).is_none());
    }

    #[test]
    fn a_share_grows_as_far_as_its_client_may_and_gives_back_what_it_no_longer_holds() {
        let budget = FairBudget::new(96);
        let mut share = budget.try_take(Some("first"), 1).unwrap();
        assert!(share.resize(72) && !share.resize(73));
        assert!(budget.try_take(Some("first"), 1).is_none());
        assert!(share.resize(4));
        let other = budget.try_take(Some("first"), 68).unwrap();
        assert!(!share.resize(5), "its client holds the rest");
        drop((share, other));
        assert!(budget.0.state().held.is_empty() && budget.0.state().free == 96);
    }

    #[tokio::test]
    async fn what_does_not_fit_waits_until_it_does_or_its_time_is_over() {
        let budget = FairBudget::new(100);
        let held = budget.try_take(Some("first"), 75).unwrap();
        assert!(budget.take(Some("first"), 1, Duration::ZERO).await.is_none());
        let mut waiting = Box::pin(budget.take(Some("first"), 50, LONG));
        tokio::select! {
            biased;
            _ = &mut waiting => panic!("there is no room yet"),
            () = std::future::ready(()) => {}
        }
        let other = budget.try_take(Some("second"), 10);
        assert!(other.is_some(), "others are not held up");
        drop(held);
        let mut share = waiting.await.unwrap();
        assert!(!share.grow(50, Duration::ZERO).await);
        drop(other);
        assert!(share.grow(25, Duration::ZERO).await);
    }

    #[test]
    fn clients_that_hold_nothing_are_forgotten() {
        let budget = FairBudget::new(100);
        (0..1000).for_each(|n| drop(budget.try_take(Some(n), 1)));
        assert!(budget.0.state().held.is_empty());
    }
}
