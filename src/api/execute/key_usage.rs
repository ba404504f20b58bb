//! When API keys were used: noted in memory at each request, written down now and then, so that
//! reading does not write
//! (reference: identity-and-rights, "API keys"; `lastUsedAt` is set within 5 s of the first use and
//! is then at most a minute old).

use std::collections::HashMap;
use std::sync::Mutex;

use crate::auth::ApiKey;
use crate::base::{Id, Time};

/// How old what was written may get. With [`FLUSH_EVERY_SECS`] it stays below a minute.
const WRITE_AFTER_SECS: i64 = 50;
/// How often to write: within 5 s of the first use.
pub const FLUSH_EVERY_SECS: u64 = 2;

/// Longer than [`WRITE_AFTER_SECS`], so that forgetting a key writes nothing twice.
const FORGET_AFTER_SECS: i64 = 600;

/// The last use of each key.
#[derive(Default)]
pub struct KeyUsage(Mutex<HashMap<Id<ApiKey>, Use>>);

struct Use {
    last: Time,
    written: Option<Time>,
}

impl KeyUsage {
    /// Notes a use.
    pub fn note(&self, key: Id<ApiKey>, now: Time) {
        let mut uses = self.0.lock().expect("nobody panics holding it");
        uses.entry(key).or_insert(Use { last: now, written: None }).last = now;
    }

    /// Forgets that these were written down: they could not be.
    pub fn restore(&self, due: &[(Id<ApiKey>, Time)]) {
        let mut uses = self.0.lock().expect("nobody panics holding it");
        for (key, _) in due {
            uses.entry(*key).and_modify(|used| used.written = None);
        }
    }

    /// What is to be written down now. Keys that nobody uses any more are forgotten.
    pub fn due(&self) -> Vec<(Id<ApiKey>, Time)> {
        let mut due = Vec::new();
        let mut uses = self.0.lock().expect("nobody panics holding it");
        let latest = uses.values().map(|used| used.last).max();
        uses.retain(|_, used| {
            used.written != Some(used.last) || latest < Some(used.last.plus_secs(FORGET_AFTER_SECS))
        });
        for (key, used) in uses.iter_mut() {
            let stale = match used.written {
                None => true,
                Some(written) => used.last >= written.plus_secs(WRITE_AFTER_SECS),
            };
            if stale {
                used.written = Some(used.last);
                due.push((*key, used.last));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_use_is_written_at_once_and_later_ones_within_the_minute() {
        let (uses, key) = (KeyUsage::default(), Id::parse("01890a5d-ac96-774b-bcce-b302099a8057"));
        let start = Time::from_millis(0);
        uses.note(key, start);
        assert_eq!(uses.due(), [(key, start)]);
        uses.note(key, start.plus_secs(49));
        assert_eq!(uses.due(), []);
        uses.note(key, start.plus_secs(55));
        assert_eq!(uses.due(), [(key, start.plus_secs(55))]);
    }

    #[test]
    fn a_use_that_could_not_be_written_is_due_again_and_idle_keys_are_forgotten() {
        let (uses, key) = (KeyUsage::default(), Id::parse("01890a5d-ac96-774b-bcce-b302099a8057"));
        let start = Time::from_millis(0);
        uses.note(key, start);
        uses.restore(&uses.due());
        assert_eq!(uses.due(), [(key, start)]);
        uses.note(Id::NIL, start.plus_secs(601));
        assert_eq!(uses.due().len(), 1);
        assert_eq!(uses.0.lock().unwrap().len(), 1);
    }
}
