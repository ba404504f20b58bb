//! The last uses of API keys and sessions: recorded in memory at each request and written periodically, so
//! that reads do not write (reference: identity-and-rights, "API keys" and "Sessions").

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Mutex;

use crate::auth::{ApiKey, Session, UsedFrom};
use crate::base::{Id, Time};

/// Maximum age of the stored use of a key before it is written again. With [`FLUSH_EVERY_SECS`] it stays
/// below a minute.
const WRITE_KEY_AFTER_SECS: i64 = 50;
/// Maximum age of the stored use of a session: it tells people where they are signed in, not more.
const WRITE_SESSION_AFTER_SECS: i64 = 300;
/// The interval of writes, so that a first use is stored within 5 s.
pub const FLUSH_EVERY_SECS: u64 = 2;

/// Time after which what is unused is dropped from memory. Longer than what a use is written after, so that
/// dropping one writes nothing twice.
const DROP_AFTER_SECS: i64 = 600;

/// So many are written at once, in one transaction, which has room for more; the others are next.
const MAX_DUE: usize = 5_000;

/// The last uses of API keys.
pub type KeyUsage = LastUses<Id<ApiKey>, ()>;
/// The last uses of sessions.
pub type SessionUsage = LastUses<Id<Session>, UsedFrom>;

/// The last use of each of these, with what is noted of it.
pub struct LastUses<K, D> {
    uses: Mutex<HashMap<K, Use<D>>>,
    write_after_secs: i64,
}

struct Use<D> {
    last: Time,
    detail: D,
    written: Option<Time>,
}

impl Default for KeyUsage {
    fn default() -> Self {
        LastUses { uses: Mutex::default(), write_after_secs: WRITE_KEY_AFTER_SECS }
    }
}

impl Default for SessionUsage {
    fn default() -> Self {
        LastUses { uses: Mutex::default(), write_after_secs: WRITE_SESSION_AFTER_SECS }
    }
}

impl<K: Copy + Eq + Hash, D: Clone> LastUses<K, D> {
    /// Records a use.
    pub fn record(&self, key: K, now: Time, detail: D) {
        let mut uses = self.uses.lock().expect("no code panics while holding the lock");
        let written = uses.get(&key).and_then(|used| used.written);
        uses.insert(key, Use { last: now, detail, written });
    }

    /// Marks these uses as not written, after a failed write.
    pub fn restore(&self, due: &[(K, Time, D)]) {
        let mut uses = self.uses.lock().expect("no code panics while holding the lock");
        for (key, ..) in due {
            uses.entry(*key).and_modify(|used| used.written = None);
        }
    }

    /// Returns the uses to write now, [`MAX_DUE`] at most, and marks them as written. What is idle is
    /// dropped from memory.
    pub fn due(&self) -> Vec<(K, Time, D)> {
        let mut due = Vec::new();
        let mut uses = self.uses.lock().expect("no code panics while holding the lock");
        let latest = uses.values().map(|used| used.last).max();
        uses.retain(|_, used| {
            used.written != Some(used.last) || latest < Some(used.last.plus_secs(DROP_AFTER_SECS))
        });
        for (key, used) in uses.iter_mut() {
            if due.len() == MAX_DUE {
                break;
            }
            let is_idle = latest >= Some(used.last.plus_secs(self.write_after_secs));
            let stale = match used.written {
                None => true,
                // One of a time to come is of a clock that was ahead; one that is idle is dropped when its
                // last use is written.
                Some(written) => {
                    used.last >= written.plus_secs(self.write_after_secs)
                        || used.last < written
                        || (is_idle && used.last != written)
                }
            };
            if stale {
                used.written = Some(used.last);
                due.push((*key, used.last, used.detail.clone()));
            }
        }
        due
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    fn key() -> Id<ApiKey> {
        Id::parse("01890a5d-ac96-774b-bcce-b302099a8057")
    }

    #[test]
    fn a_first_use_is_due_at_once_and_later_ones_within_a_minute() {
        let (uses, key) = (KeyUsage::default(), key());
        let start = Time::from_millis(0);
        uses.record(key, start, ());
        assert_eq!(uses.due(), [(key, start, ())]);
        uses.record(key, start.plus_secs(49), ());
        assert_eq!(uses.due(), []);
        uses.record(key, start.plus_secs(55), ());
        assert_eq!(uses.due(), [(key, start.plus_secs(55), ())]);
    }

    #[test]
    fn an_unwritten_use_is_due_again_and_idle_keys_are_dropped() {
        let (uses, key) = (KeyUsage::default(), key());
        let start = Time::from_millis(0);
        uses.record(key, start, ());
        uses.restore(&uses.due());
        assert_eq!(uses.due(), [(key, start, ())]);
        uses.record(Id::NIL, start.plus_secs(601), ());
        assert_eq!(uses.due().len(), 1);
        assert_eq!(uses.uses.lock().unwrap().len(), 1);
    }

    #[test]
    fn many_uses_are_due_in_parts() {
        let uses = KeyUsage::default();
        for number in 0..=MAX_DUE as u128 {
            uses.record(Id::new(uuid::Uuid::from_u128(number)), Time::from_millis(0), ());
        }
        assert_eq!([uses.due().len(), uses.due().len(), uses.due().len()], [MAX_DUE, 1, 0]);
    }

    #[test]
    fn the_last_use_of_what_is_idle_is_written_before_it_is_dropped() {
        let (uses, key) = (KeyUsage::default(), key());
        let start = Time::from_millis(0);
        uses.record(key, start, ());
        uses.due();
        uses.record(key, start.plus_secs(20), ());
        uses.record(Id::NIL, start.plus_secs(70), ());
        let mut due = uses.due();
        due.sort();
        assert_eq!(due, [(Id::NIL, start.plus_secs(70), ()), (key, start.plus_secs(20), ())]);
        uses.record(Id::NIL, start.plus_secs(620), ());
        uses.due();
        assert_eq!(uses.uses.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_session_is_written_each_five_minutes_with_where_it_was_used_last() {
        let uses = SessionUsage::default();
        let session = Id::parse("01890a5d-ac96-774b-bcce-b302099a8057");
        let start = Time::from_millis(0);
        let from =
            |last| UsedFrom { address: Ipv4Addr::new(192, 0, 2, last).into(), user_agent: None };
        uses.record(session, start, from(1));
        assert_eq!(uses.due(), [(session, start, from(1))]);
        // Whoever uses it from everywhere makes no more writes.
        uses.record(session, start.plus_secs(299), from(2));
        assert_eq!(uses.due(), []);
        uses.record(session, start.plus_secs(300), from(3));
        assert_eq!(uses.due(), [(session, start.plus_secs(300), from(3))]);
    }
}
