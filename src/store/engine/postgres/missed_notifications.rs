//! Missed notifications: commits of other nodes that this one was not notified of.
//!
//! A notification is a hint that may be lost, so nodes read all slots every second. A slot whose value was
//! there at one check, and in no notification until the next, was moved by a commit that nobody here
//! knows of.
//!
//! A node that is gone may have committed since the last check, and have stopped before it could notify of
//! that, or before it knew the outcome. Nodes are compared, and not their slots: a slot is created by a
//! connection's first write, and may come and go between two checks. Whoever removes a node removes its slots
//! in the same transaction, which waits for the commits that move them, and none of the node succeeds after
//! that: a snapshot in which a node is gone, and each later one, has all of its commits. Of a node that has
//! itself come and left between two checks, the notifications alone tell.

use std::collections::{HashMap, HashSet};
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
    /// The nodes that were there at the last check.
    nodes: HashSet<Token>,
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

    /// Notes which nodes and slots are there now; `own` is the token of this node. Returns whether there was
    /// a commit whose notification was missed, or may have been.
    pub fn check(&self, nodes: HashSet<Token>, mut slots: Vec<SeenSlot>, own: Token) -> bool {
        slots.retain(|(slot, _)| !slot.starts_with(&own));
        let mut state = self.state();
        let State { is_listening, received, seen, nodes: before, unreceived } = &mut *state;
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
        // Who waits since before the first check may wait for what it finds.
        has_missed |= seen.is_none() || !before.is_subset(&nodes);
        *before = nodes;
        let there: HashMap<_, _> = slots.into_iter().collect();
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
    const OTHER: Token = [2; 16];

    fn slots(other: u64) -> Vec<SeenSlot> {
        vec![(vec![1; 20], other * 7), (vec![2; 20], other)]
    }

    /// A check by a node beside another.
    fn check(missed: &MissedNotifications, slots: Vec<SeenSlot>) -> bool {
        missed.check([OWN, OTHER].into(), slots, OWN)
    }

    #[test]
    fn a_notification_is_missed_if_it_is_not_received_until_the_next_check() {
        let missed = MissedNotifications::default();
        missed.set_listening(true);
        assert!(check(&missed, slots(5)), "somebody may wait since before it");
        assert!(!check(&missed, slots(5)), "what was there before is not new");
        assert!(!check(&missed, slots(6)), "its notification may still come");
        assert!(check(&missed, slots(6)));
        assert!(!check(&missed, slots(6)), "everybody has been woken");
        assert!(!check(&missed, slots(7)));
        missed.receive([(vec![2; 20], 8)]);
        assert!(!check(&missed, slots(9)), "that of a later one has come");
        assert!(check(&missed, slots(10)), "not of the one it saw, though the slot moved on");
    }

    #[test]
    fn a_node_that_has_left_may_have_committed_before_without_a_notification() {
        let missed = MissedNotifications::default();
        missed.set_listening(true);
        check(&missed, slots(5));
        missed.receive([(vec![2; 20], 6)]);
        assert!(missed.check([OWN].into(), Vec::new(), OWN), "there may have been later ones");
        assert!(!missed.check([OWN].into(), Vec::new(), OWN), "everybody has been woken");
    }

    #[test]
    fn a_node_that_has_left_may_have_committed_though_it_had_no_slot_before() {
        let missed = MissedNotifications::default();
        missed.set_listening(true);
        check(&missed, Vec::new());
        assert!(!check(&missed, Vec::new()), "it reads");
        assert!(missed.check([OWN].into(), Vec::new(), OWN), "it may have written since");
        assert!(!check(&missed, Vec::new()), "another has come");
    }

    #[test]
    fn without_notifications_every_check_finds_what_is_new() {
        let missed = MissedNotifications::default();
        check(&missed, slots(5));
        for number in 6..9 {
            assert!(check(&missed, slots(number)), "{number}");
        }
        assert!(!check(&missed, slots(8)));
        missed.set_listening(true);
        assert!(!check(&missed, slots(9)));
    }
}
