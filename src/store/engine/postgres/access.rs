//! The version of what access depends on, for all servers of a store.
//!
//! A row has a random value. Each commit that changes access gives it a new one; who concludes something
//! about access reads it in the same transaction. Two such commits come one after the other: the second
//! conflicts and begins anew, so that it sees what the first has done. Equal values mean therefore that
//! the same commits of this kind are seen, on every server, and after a standby was promoted that lacks
//! some. Whoever joins the store replaces it, too: so there is one from the beginning.

use std::sync::{Mutex, PoisonError};

/// The number of the table of this row.
pub const TABLE: i16 = 4;

/// Its key.
pub const KEY: &[u8] = b"access";

/// Gives the row of table `$1` and key `$2` the value `$3`.
pub const REPLACE: &str = "INSERT INTO kv (tbl, key, value) VALUES ($1, $2, $3) \
     ON CONFLICT (tbl, key) DO UPDATE SET value = excluded.value";

/// The number by which this process knows the value that it has seen last: a larger one whenever it sees
/// another than before.
#[derive(Default)]
pub struct AccessVersions(Mutex<(Option<Vec<u8>>, u64)>);

impl AccessVersions {
    /// Returns the number of a value, of which there is none before the first change.
    pub fn number(&self, value: Option<Vec<u8>>) -> u64 {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.0 != value {
            *seen = (value, seen.1 + 1);
        }
        seen.1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_has_another_number_than_all_before_it() {
        let versions = AccessVersions::default();
        let one = || Some(vec![1]);
        let values = [None, None, one(), one(), Some(vec![2]), one(), None];
        assert_eq!(values.map(|value| versions.number(value)), [0, 0, 1, 1, 2, 3, 4]);
    }
}
