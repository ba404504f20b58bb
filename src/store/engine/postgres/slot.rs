//! Slots: what settles the outcome of a commit that was not answered.
//!
//! Every connection that writes owns a row, its slot. Each of its commits also changes the slot
//! from the value that is known to a fresh one, and is refused unless that changes exactly one row.
//! When a commit is not answered, the slot is changed once more, from the same known value: success
//! proves that the commit has not happened and cannot happen any more; otherwise the slot's value
//! says whether it did.
//!
//! Slots also fence: who takes the store over removes all slots of others, in the transaction that
//! changes the owner, and a slot is only created by the present owner. So no commit of an earlier
//! owner can succeed afterwards, however long it was paused.

use std::time::Duration;

use crate::store::Clock;

/// Pause between attempts to reach the server.
pub const RECONNECT_PAUSE: Duration = Duration::from_millis(100);

/// A slot with the value that it is known to have.
#[derive(Clone, Debug)]
pub struct Slot {
    pub id: [u8; 16],
    pub value: [u8; 16],
}

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
