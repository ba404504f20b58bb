//! The last uses of API keys: recorded in memory at each request and written periodically, so that
//! reads do not write (reference: identity-and-rights, "API keys"; `lastUsedAt` is set within 5 s
//! of the first use and is then at most a minute old).

use std::collections::HashMap;
use std::sync::Mutex;

use crate::auth::ApiKey;
use crate::base::{Id, Time};

/// Maximum age of the stored time before it is written again. With [`FLUSH_EVERY_SECS`] it stays
/// below a minute.
const WRITE_AFTER_SECS: i64 = 50;
/// The interval of writes, so that a first use is stored within 5 s.
pub const FLUSH_EVERY_SECS: u64 = 2;

/// Time after which an unused key is dropped from memory. Longer than [`WRITE_AFTER_SECS`], so that
/// dropping a key writes nothing twice.
const DROP_AFTER_SECS: i64 = 600;

/// The last use of each key.
#[derive(Default)]
pub struct KeyUsage(Mutex<HashMap<Id<ApiKey>, Use>>);

struct Use {
    last: Time,
    written: Option<Time>,
}

impl KeyUsage {
    /// Records a use.
    pub fn record(&self, key: Id<ApiKey>, now: Time) {
        let mut uses = self.0.lock().expect("no code panics while holding the lock");
        uses.entry(key).or_insert(Use { last: now, written: None }).last = now;
    }

    /// Marks these uses as not written, after a failed write.
    pub fn restore(&self, due: &[(Id<ApiKey>, Time)]) {
        let mut uses = self.0.lock().expect("no code panics while holding the lock");
        for (key, _) in due {
            uses.entry(*key).and_modify(|used| used.written = None);
        }
    }

    /// Returns the uses to write now and marks them as written. Idle keys are dropped from memory.
    pub fn due(&self) -> Vec<(Id<ApiKey>, Time)> {
        let mut due = Vec::new();
        let mut uses = self.0.lock().expect("no code panics while holding the lock");
        let latest = uses.values().map(|used| used.last).max();
        uses.retain(|_, used| {
            used.written != Some(used.last) || latest < Some(used.last.plus_secs(DROP_AFTER_SECS))
        });
        for (key, used) in uses.iter_mut() {
            let stale = match used.written {
                None => true,
                // One of a time to come is of a clock that was ahead.
                Some(written) => {
                    used.last >= written.plus_secs(WRITE_AFTER_SECS) || used.last < written
                }
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
    fn a_first_use_is_due_at_once_and_later_ones_within_a_minute() {
        let (uses, key) = (KeyUsage::default(), Id::parse("01890a5d-ac96-774b-bcce-b302099a8057"));
        let start = Time::from_millis(0);
        uses.record(key, start);
        assert_eq!(uses.due(), [(key, start)]);
        uses.record(key, start.plus_secs(49));
        assert_eq!(uses.due(), []);
        uses.record(key, start.plus_secs(55));
        assert_eq!(uses.due(), [(key, start.plus_secs(55))]);
    }

    #[test]
    fn an_unwritten_use_is_due_again_and_idle_keys_are_dropped() {
        let (uses, key) = (KeyUsage::default(), Id::parse("01890a5d-ac96-774b-bcce-b302099a8057"));
        let start = Time::from_millis(0);
        uses.record(key, start);
        uses.restore(&uses.due());
        assert_eq!(uses.due(), [(key, start)]);
        uses.record(Id::NIL, start.plus_secs(601));
        assert_eq!(uses.due().len(), 1);
        assert_eq!(uses.0.lock().unwrap().len(), 1);
    }
}
