//! Commits whose outcome was given up as unknown, and that may still become visible: all who wait here look
//! again once one is.
//!
//! Nothing else that is committed says when that is. The database server makes commits visible in any order,
//! also those that a standby has confirmed at once, and one may reach it late. But each moves its slot: from
//! when that is seen to have moved, every new snapshot has all that was committed with it.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::slot::{SeenSlot, Slot, sequence_in};

/// How long one is looked for after a heartbeat was committed: commits are finished again, and what the
/// database server did not hear of is ended after eight seconds.
const LOOK_TIME: Duration = Duration::from_secs(60);

/// The commits that may still become visible.
#[derive(Default)]
pub struct UnknownOutcomes(Mutex<Vec<UnknownOutcome>>);

struct UnknownOutcome {
    slot: Slot,
    /// Until when it is looked for; none before a heartbeat was committed.
    until: Option<Instant>,
}

impl UnknownOutcomes {
    fn lock(&self) -> MutexGuard<'_, Vec<UnknownOutcome>> {
        self.0.lock().expect("no thread panics while holding it")
    }

    /// Adds a commit that was to move this slot, which has the value from before.
    pub fn add(&self, slot: Slot) {
        self.lock().push(UnknownOutcome { slot, until: None });
    }

    /// Notes that a heartbeat was committed.
    pub fn note_heartbeat(&self, now: Instant) {
        for one in &mut *self.lock() {
            one.until.get_or_insert(now + LOOK_TIME);
        }
    }

    /// Returns whether one became visible since the last time: all slots are as they were just read.
    pub fn check(&self, slots: &[SeenSlot], now: Instant) -> bool {
        let mut has_appeared = false;
        self.lock().retain(|UnknownOutcome { slot, until }| {
            let seen = slots.iter().find(|(id, _)| id == slot.id.as_slice());
            // Who removed this process has removed it.
            let Some((_, number)) = seen else { return false };
            let has_moved = *number != sequence_in(&slot.value);
            has_appeared |= has_moved;
            !has_moved && until.is_none_or(|until| now < until)
        });
        has_appeared
    }
}

#[cfg(test)]
mod tests {
    use super::super::slot::Slots;
    use super::*;

    /// A slot, how it is seen until its commit is visible, and then.
    fn moving() -> (Slot, [Vec<SeenSlot>; 2]) {
        let slot = Slots::default().create([7; 16]);
        let seen = [0, 5].map(|number| vec![(vec![1; 20], 9), (slot.id.to_vec(), number)]);
        (slot, seen)
    }

    #[test]
    fn a_heartbeat_does_not_say_that_a_commit_is_visible_and_its_slot_does() {
        let (outcomes, (slot, [before, after])) = (UnknownOutcomes::default(), moving());
        let now = Instant::now();
        outcomes.add(slot);
        assert!(!outcomes.check(&before, now));
        outcomes.note_heartbeat(now);
        assert!(!outcomes.check(&before, now));
        assert!(outcomes.check(&after, now));
        assert!(!outcomes.check(&after, now), "everybody has been woken");
    }

    #[test]
    fn one_that_never_appears_is_looked_for_until_a_minute_after_a_heartbeat() {
        let (outcomes, (slot, [before, after])) = (UnknownOutcomes::default(), moving());
        let begun = Instant::now();
        outcomes.add(slot.clone());
        // A standby may be away for hours.
        let later = begun + 100 * LOOK_TIME;
        assert!(!outcomes.check(&before, later));
        outcomes.note_heartbeat(later);
        outcomes.note_heartbeat(later + LOOK_TIME);
        assert!(!outcomes.check(&before, later + LOOK_TIME));
        assert!(!outcomes.check(&after, later + LOOK_TIME), "it was given up");
        outcomes.add(slot);
        assert!(!outcomes.check(&[], begun), "it was removed with the process");
        assert!(!outcomes.check(&after, begun));
    }
}
