//! Slots: what settles the outcome of a commit that was not answered.
//!
//! Every connection that writes owns a row, its slot. Each of its commits also changes the slot
//! from the value that is known to a fresh one, and is refused unless that changes exactly one row.
//! When a commit is not answered, the slot is changed once more, from the same known value: success
//! proves that the commit has not happened and cannot happen any more; otherwise the slot's value
//! says whether it did.
//!
//! Slots also fence: the slots of a process begin with its token. Who removes it from the store
//! removes all of them in the same transaction, and they are only created by members. So no
//! commit of one that was removed can succeed afterwards, however long it was paused.
//!
//! And the numbers in their values increase, so that a node that reads them finds out whether it was
//! notified of the last commit of each (see [`super::missed_notifications`]).

use std::collections::VecDeque;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::store::Clock;

/// Pause between attempts to reach the server.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// How long a slot rests whose connection was closed: a transaction that the server did not see ended
/// may hold its row for eight seconds.
const REST: Duration = Duration::from_secs(60);

/// What the slots of a process begin with.
pub type Token = [u8; 16];

/// A value of a slot: a number that increases, and random bytes.
pub type SlotValue = [u8; 16];

/// A slot with the value that it is known to have.
#[derive(Clone, Debug)]
pub struct Slot {
    /// The token of its process, and a number there.
    pub id: [u8; 20],
    pub value: SlotValue,
}

impl Slot {
    /// Its number in its process.
    pub fn number(&self) -> u32 {
        let number = self.id[16..].try_into();
        number.map_or(0, u32::from_be_bytes)
    }
}

/// Returns the number in a value.
pub fn sequence_in(value: &[u8]) -> u64 {
    value.get(..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Creates the slots of a process, and their values.
#[derive(Default)]
pub struct Slots {
    last_number: AtomicU32,
    last_sequence: AtomicU64,
    /// Those of connections that were closed, and when. So there are no more than there were
    /// connections within a minute, however many break.
    resting: Mutex<VecDeque<(Instant, Slot)>>,
}

impl Slots {
    /// Returns a new slot of the process with this token.
    pub fn create(&self, token: Token) -> Slot {
        let number = self.last_number.fetch_add(1, Ordering::Relaxed).to_be_bytes();
        let mut id = [0; 20];
        for (byte, from) in id.iter_mut().zip(token.into_iter().chain(number)) {
            *byte = from;
        }
        Slot { id, value: value_of(0) }
    }

    /// Takes back a slot that nobody uses any more, with the value that it has.
    pub fn give_back(&self, slot: Slot) {
        self.resting
            .lock()
            .expect("no thread panics while holding it")
            .push_back((Instant::now(), slot));
    }

    /// Returns a slot that was given back more than a minute before `now`.
    pub fn reuse(&self, now: Instant) -> Option<Slot> {
        let mut resting = self.resting.lock().expect("no thread panics while holding it");
        let (since, _) = resting.front()?;
        if now.saturating_duration_since(*since) < REST {
            return None;
        }
        resting.pop_front().map(|(_, slot)| slot)
    }

    /// Returns a value that no slot has had, with a larger number than those before.
    pub fn next_value(&self) -> SlotValue {
        value_of(self.last_sequence.fetch_add(1, Ordering::Relaxed) + 1)
    }
}

fn value_of(sequence: u64) -> SlotValue {
    let mut value = fresh();
    for (byte, from) in value.iter_mut().zip(sequence.to_be_bytes()) {
        *byte = from;
    }
    value
}

/// A slot as others see it: its id, and the number in its value.
pub type SeenSlot = (Vec<u8>, u64);

/// What became of a commit that was not answered.
#[derive(Debug, PartialEq)]
pub enum Resolved {
    Committed,
    /// It is not stored, and never will be.
    NotCommitted,
    /// That could not be found out in time.
    Unknown,
}

/// Returns 16 random bytes.
pub fn fresh() -> [u8; 16] {
    Clock::system().random()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_again_a_minute_after_it_was_given_back() {
        let slots = Slots::default();
        let mut slot = slots.create([7; 16]);
        slot.value = slots.next_value();
        slots.give_back(slot.clone());
        assert!(slots.reuse(Instant::now()).is_none());
        let later = Instant::now() + REST;
        let reused = slots.reuse(later).unwrap();
        assert_eq!((reused.id, reused.value), (slot.id, slot.value));
        assert!(slots.reuse(later).is_none());
    }

    #[test]
    fn values_of_slots_are_never_the_same_and_their_numbers_increase() {
        let slots = Slots::default();
        let (one, two) = (slots.create([7; 16]), slots.create([7; 16]));
        assert_eq!((one.number(), two.number(), sequence_in(&one.value)), (0, 1, 0));
        assert!(one.id.starts_with(&[7; 16]) && one.id != two.id && one.value != two.value);
        let values = [slots.next_value(), slots.next_value()];
        assert_eq!(values.map(|value| sequence_in(&value)), [1, 2]);
    }
}
