//! Missed notifications: commits of other nodes that this one was not notified of.
//!
//! A notification is a hint that may be lost, so nodes read all slots every second. A slot whose value was
//! there at one check, and in no notification until the next, was moved by a commit that nobody here
//! knows of.
//!
//! A slot that is gone was removed with its node, which may have committed since the last check, and have
//! stopped before it could notify of that, or before it knew the outcome. Whoever removes a slot waits for
//! the commits that move it, and none succeeds after that: a snapshot in which a slot is gone, and each
//! later one, has all of them. Of a node of which no slot was there at any check, which has come and left
//! between two, the notifications alone tell.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use super::slot::{SeenSlot, Token};

/// Numbers of so many slots more than there are may be kept.
const SPARE: usize = 1000;

/// What was received and read of the slots of other nodes.
#[derive(Default)]
pub struct MissedNotifications(Mutex<State>);

#[derive(Default)]
struct State {
    is_listening: bool,
    /// The largest number received for each slot.
    received: HashMap<Vec<u8>, u64>,
    /// What was there at the last check; none before the first.
    seen: Option<HashMap<Vec<u8>, u64>>,
    /// What was new then, and not received yet.
    unreceived: Vec<SeenSlot>,
}

impl MissedNotifications {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding it")
    }

    /// Notes whether notifications are received.
    pub fn set_listening(&self, is_listening: bool) {
        self.state().is_listening = is_listening;
    }

    /// Notes that a node has notified of the commits that moved these slots.
    pub fn receive(&self, slots: impl IntoIterator<Item = SeenSlot>) {
        let mut state = self.state();
        for (slot, number) in slots {
            let received = state.received.entry(slot).or_default();
            *received = number.max(*received);
        }
    }

    /// Notes what is there now; `own` is the token of this node. Returns whether there was a commit
    /// whose notification was missed, or may have been.
    pub fn check(&self, mut slots: Vec<SeenSlot>, own: Token) -> bool {
        slots.retain(|(slot, _)| !slot.starts_with(&own));
        let mut state = self.state();
        let State { is_listening, received, seen, unreceived } = &mut *state;
        let is_received =
            |slot: &Vec<u8>, number| received.get(slot).is_some_and(|last| *last >= number);
        let mut has_missed = unreceived.iter().any(|(slot, number)| !is_received(slot, *number));
        let is_new = |slot: &Vec<u8>, number| {
            seen.as_ref().is_some_and(|seen| seen.get(slot).copied().unwrap_or_default() != number)
        };
        let mut new: Vec<_> = slots
            .iter()
            .filter(|(slot, number)| is_new(slot, *number) && !is_received(slot, *number))
            .cloned()
            .collect();
        if !*is_listening {
            has_missed |= !new.is_empty();
            new.clear();
        }
        *unreceived = new;
        let there: HashMap<_, _> = slots.into_iter().collect();
        has_missed |= seen.iter().flatten().any(|(slot, _)| !there.contains_key(slot));
        if received.len() > there.len() + SPARE {
            received.retain(|slot, _| there.contains_key(slot));
        }
        *seen = Some(there);
        has_missed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: Token = [1; 16];

    fn slots(other: u64) -> Vec<SeenSlot> {
        vec![(vec![1; 20], other * 7), (vec![2; 20], other)]
    }

    #[test]
    fn a_notification_is_missed_if_it_is_not_received_until_the_next_check() {
        let missed = MissedNotifications::default();
        missed.set_listening(true);
        assert!(!missed.check(slots(5), OWN), "what was there before is not new");
        assert!(!missed.check(slots(6), OWN), "its notification may still come");
        assert!(missed.check(slots(6), OWN));
        assert!(!missed.check(slots(6), OWN), "everybody has been woken");
        assert!(!missed.check(slots(7), OWN));
        missed.receive([(vec![2; 20], 8)]);
        assert!(!missed.check(slots(9), OWN), "that of a later one has come");
        assert!(missed.check(slots(10), OWN), "not of the one it saw, though the slot moved on");
    }

    #[test]
    fn a_node_that_has_left_may_have_committed_before_without_a_notification() {
        let missed = MissedNotifications::default();
        missed.set_listening(true);
        assert!(!missed.check(slots(5), OWN));
        missed.receive([(vec![2; 20], 6)]);
        assert!(missed.check(Vec::new(), OWN), "there may have been later ones");
        assert!(!missed.check(Vec::new(), OWN), "everybody has been woken");
    }

    #[test]
    fn without_notifications_every_check_finds_what_is_new() {
        let missed = MissedNotifications::default();
        assert!(!missed.check(slots(5), OWN));
        for number in 6..9 {
            assert!(missed.check(slots(number), OWN), "{number}");
        }
        assert!(!missed.check(slots(8), OWN));
        missed.set_listening(true);
        assert!(!missed.check(slots(9), OWN));
    }
}
