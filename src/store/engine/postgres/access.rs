//! The version of what access depends on, for all servers of a store.
//!
//! A few rows have random values. Each commit that changes access gives one of them a new value; who
//! concludes something about access reads all of them in the same transaction. A row has one writer at a
//! time: a second one conflicts and begins anew, so that it sees what the first has done. Equal values
//! mean therefore that the same commits of this kind are seen, on every server, and after a standby was
//! promoted that lacks some. There are several rows so that such commits rarely conflict.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use super::slot::fresh;

/// The number of the table of these rows.
pub const TABLE: i16 = 4;

/// How many rows there are. All are read at once.
const ROWS: u8 = 8;

/// States that are known by number. Snapshots that began before the last few changes are rare.
const MAX_KNOWN: usize = 16;

/// Returns the key and the new value of the row that a commit changes.
pub fn change() -> ([u8; 1], [u8; 16]) {
    let value = fresh();
    ([value[15] % ROWS], value)
}

/// The numbers by which this process knows states of the rows: a larger one for each that it sees for
/// the first time.
#[derive(Default)]
pub struct AccessVersions(Mutex<Known>);

#[derive(Default)]
struct Known {
    last: u64,
    states: VecDeque<(Vec<u8>, u64)>,
}

impl AccessVersions {
    /// Returns the number of a state: the keys and values of all rows, in order.
    pub fn number(&self, state: Vec<u8>) -> u64 {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, number)) = known.states.iter().rev().find(|(seen, _)| *seen == state) {
            return *number;
        }
        // One that was forgotten gets another number, and nothing is known for that.
        known.last += 1;
        let number = known.last;
        if known.states.len() == MAX_KNOWN {
            known.states.pop_front();
        }
        known.states.push_back((state, number));
        number
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_keeps_its_number_while_it_is_known_and_no_other_gets_it() {
        let versions = AccessVersions::default();
        let state = |number: u8| vec![number];
        assert_eq!([0, 1, 0, 1].map(|seen| versions.number(state(seen))), [1, 2, 1, 2]);
        let more: Vec<_> = (2..=MAX_KNOWN as u8).map(|seen| versions.number(state(seen))).collect();
        assert_eq!(more, (3..=MAX_KNOWN as u64 + 1).collect::<Vec<_>>());
        let again = versions.number(state(0));
        assert_eq!(again, MAX_KNOWN as u64 + 2, "a forgotten one is a new one");
    }

    #[test]
    fn changes_are_spread_over_the_rows() {
        let rows: std::collections::BTreeSet<_> = (0..1000).map(|_| change().0[0]).collect();
        assert_eq!(rows, (0..ROWS).collect());
    }
}
