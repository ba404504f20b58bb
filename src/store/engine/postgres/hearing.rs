//! What this node has heard of the commits of others, and what it must have missed.
//!
//! A notification is a hint that may be lost, so nodes look at all slots every second. A slot whose
//! value was there at one look, and was not heard of until the next, was moved by a commit that
//! nobody here knows of.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use super::slot::{SeenSlot, Token};

/// Numbers of so many slots more than there are may be kept.
const SPARE: usize = 1000;

/// What was heard and seen of the slots of other nodes.
#[derive(Default)]
pub struct Hearing(Mutex<State>);

#[derive(Default)]
struct State {
    is_listening: bool,
    /// The largest number heard for each slot.
    heard: HashMap<Vec<u8>, u64>,
    /// What was there at the last look; none before the first.
    seen: Option<HashMap<Vec<u8>, u64>>,
    /// What was new then, and not heard of yet.
    unheard: Vec<SeenSlot>,
}

impl Hearing {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("no thread panics while holding it")
    }

    /// Notes whether notifications are received.
    pub fn set_listening(&self, is_listening: bool) {
        self.state().is_listening = is_listening;
    }

    /// Notes that a node has told of the commits that moved these slots.
    pub fn hear(&self, slots: impl IntoIterator<Item = SeenSlot>) {
        let mut state = self.state();
        for (slot, number) in slots {
            let heard = state.heard.entry(slot).or_default();
            *heard = number.max(*heard);
        }
    }

    /// Notes what is there now; `own` is the token of this node. Returns whether there was a commit
    /// that was not heard of.
    pub fn look(&self, mut slots: Vec<SeenSlot>, own: Token) -> bool {
        slots.retain(|(slot, _)| !slot.starts_with(&own));
        let mut state = self.state();
        let State { is_listening, heard, seen, unheard } = &mut *state;
        let is_heard = |slot: &Vec<u8>, number| heard.get(slot).is_some_and(|last| *last >= number);
        let mut has_missed = unheard.iter().any(|(slot, number)| !is_heard(slot, *number));
        let is_new = |slot: &Vec<u8>, number| {
            seen.as_ref().is_some_and(|seen| seen.get(slot).copied().unwrap_or_default() != number)
        };
        let mut new: Vec<_> = slots
            .iter()
            .filter(|(slot, number)| is_new(slot, *number) && !is_heard(slot, *number))
            .cloned()
            .collect();
        if !*is_listening {
            has_missed |= !new.is_empty();
            new.clear();
        }
        *unheard = new;
        let there: HashMap<_, _> = slots.into_iter().collect();
        if heard.len() > there.len() + SPARE {
            heard.retain(|slot, _| there.contains_key(slot));
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
    fn a_commit_is_missed_if_it_is_not_heard_of_until_the_next_look() {
        let hearing = Hearing::default();
        hearing.set_listening(true);
        assert!(!hearing.look(slots(5), OWN), "what was there before is not new");
        assert!(!hearing.look(slots(6), OWN), "it may still be heard of");
        assert!(hearing.look(slots(6), OWN));
        assert!(!hearing.look(slots(6), OWN), "everybody has been woken");
        assert!(!hearing.look(slots(7), OWN));
        hearing.hear([(vec![2; 20], 8)]);
        assert!(!hearing.look(slots(9), OWN), "it has heard of a later one");
        assert!(hearing.look(slots(10), OWN), "not of the one it saw, though the slot moved on");
    }

    #[test]
    fn without_notifications_every_look_finds_what_is_new() {
        let hearing = Hearing::default();
        assert!(!hearing.look(slots(5), OWN));
        for number in 6..9 {
            assert!(hearing.look(slots(number), OWN), "{number}");
        }
        assert!(!hearing.look(slots(8), OWN));
        hearing.set_listening(true);
        assert!(!hearing.look(slots(9), OWN));
    }
}
