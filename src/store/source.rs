//! Where transactions get time, ids and randomness from: the one seam to them, so that tests can
//! say what time it is.
//!
//! Ids grow even if the clock goes back, also over a restart: see [`Clock`].

use std::sync::Mutex;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use bincode::{Decode, Encode};
use uuid::Uuid;

use super::record::Record;
use crate::base::Time;

/// Time, ids and randomness.
pub struct Moment {
    /// In tests, the milliseconds it is; the system's clock otherwise.
    fixed: Option<AtomicI64>,
    ids: Mutex<Ids>,
    /// The newest [`Clock`] that is durable.
    kept_millis: AtomicI64,
}

/// How far the times of ids may run ahead of what is stored of them. Short, since after a restart
/// they begin that much later; not so short that many commits carry one row more.
const AHEAD_MILLIS: i64 = 10_000;

/// The time of the newest id when this was stored. It rides along with a commit when the one stored
/// is [`AHEAD_MILLIS`] old, so no stored id is later than this and that together.
#[derive(Clone, Copy, Debug, PartialEq, Encode, Decode)]
pub(super) struct Clock {
    newest_millis: i64,
}

impl Record for Clock {
    const TABLE: &'static str = "clock";
    const OWNED: bool = false;
    type Key = ();
    fn key(&self) {}
}

/// What the next id is made of.
#[derive(Default)]
struct Ids {
    last: Last,
    /// Random numbers, fetched many at once: one by one they would be most of what an id costs.
    random: Vec<[u8; 16]>,
}

impl Ids {
    fn random(&mut self) -> u128 {
        if self.random.is_empty() {
            self.random.extend_from_slice(random::<512>().as_chunks().0);
        }
        u128::from_be_bytes(self.random.pop().expect("some were just fetched"))
    }
}

/// The last id given out, so that the next is larger even if the clock went back.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Last {
    millis: i64,
    counter: u128,
}

impl Last {
    /// The first of a millisecond. The counter's top bit stays free, so that counting up has room.
    fn new(millis: i64, random: u128) -> Self {
        Last { millis, counter: random >> (128 - COUNTER_BITS + 1) }
    }
}

/// An id's bits below its time: 12 of `rand_a` and 62 of `rand_b`.
const COUNTER_BITS: u32 = 74;

impl Moment {
    /// The system's clock.
    pub fn system() -> Self {
        Moment { fixed: None, ids: Mutex::default(), kept_millis: AtomicI64::new(0) }
    }

    /// A clock that stands still until it is moved, for tests.
    pub fn at(time: Time) -> Self {
        Moment { fixed: Some(AtomicI64::new(time.millis())), ..Moment::system() }
    }

    /// Moves a clock made by [`Moment::at`].
    pub fn advance_secs(&self, secs: i64) {
        if let Some(fixed) = &self.fixed {
            fixed.fetch_add(secs * 1000, Ordering::SeqCst);
        }
    }

    /// Now.
    pub fn now(&self) -> Time {
        Time::from_millis(match &self.fixed {
            Some(millis) => millis.load(Ordering::SeqCst),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        })
    }

    /// A new UUIDv7, larger than all before it.
    pub fn new_id(&self) -> Uuid {
        let now = self.now().millis();
        let mut ids = self.ids.lock().expect("nobody panics holding it");
        let random = ids.random();
        let last = &mut ids.last;
        *last = match *last {
            Last { millis, .. } if now > millis => Last::new(now, random),
            Last { millis, counter } => match counter + u128::from(random as u32) + 1 {
                counter if counter >> COUNTER_BITS != 0 => Last::new(millis + 1, random),
                counter => Last { millis, counter },
            },
        };
        let Last { millis, counter } = *last;
        let time = (u128::from(millis as u64) & 0xFFFF_FFFF_FFFF) << 80;
        let high = (counter >> 62 & 0xFFF) << 64;
        let low = counter & ((1 << 62) - 1);
        Uuid::from_u128(time | 0x7 << 76 | high | 0b10 << 62 | low)
    }

    /// What to store with the ids given out so far, if it is time to.
    pub(super) fn due(&self) -> Option<Clock> {
        let newest_millis = self.ids.lock().expect("nobody panics holding it").last.millis;
        let kept = self.kept_millis.load(Ordering::SeqCst);
        (newest_millis - kept >= AHEAD_MILLIS).then_some(Clock { newest_millis })
    }

    /// This is durable now.
    pub(super) fn kept(&self, clock: Clock) {
        self.kept_millis.fetch_max(clock.newest_millis, Ordering::SeqCst);
    }

    /// Continues after all ids that were stored when this was the newest clock.
    pub(super) fn go_on_after(&self, clock: Clock) {
        let mut ids = self.ids.lock().expect("nobody panics holding it");
        let random = ids.random();
        let last = &mut ids.last;
        *last = (*last).max(Last::new(clock.newest_millis + AHEAD_MILLIS, random));
        self.kept(clock);
    }

    /// Random bytes that nobody can guess.
    pub fn random<const N: usize>(&self) -> [u8; N] {
        random()
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::{Id, Keys};
    use crate::store::engine::Redb;
    use crate::store::sample::{TABLES, note, org};
    use crate::store::{Store, table_names};

    #[test]
    fn ids_are_uuid_v7_and_grow_even_when_the_clock_goes_back() {
        let moment = Moment::at(Time::from_millis(1_700_000_000_000));
        let mut last = moment.new_id();
        assert_eq!(last.get_version_num(), 7);
        assert_eq!(last.get_variant(), uuid::Variant::RFC4122);
        for step in [0, 0, -3600, 0, 7200, 0] {
            moment.advance_secs(step);
            for _ in 0..1000 {
                let next = moment.new_id();
                assert!(next > last);
                last = next;
            }
        }
    }

    #[test]
    fn ids_grow_over_a_restart_after_which_the_clock_is_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        drop(Redb::create(&path, table_names(TABLES)).unwrap());
        let start = |millis| {
            let disk = Redb::open(&path, table_names(TABLES)).unwrap();
            let moment = Moment::at(Time::from_millis(millis));
            Store::start(disk, moment, Keys::new([7; 32])).unwrap()
        };
        let noon = 1_800_000_000_000;
        let mut newest = Id::NOTHING;
        // The clock goes back an hour at each restart, and on while the store runs.
        for hour in 0..5 {
            let store = start(noon - hour * 3_600_000);
            for number in 0..20 {
                let id = store.write_now(org(1), move |tx| {
                    let id = tx.new_id::<()>();
                    tx.put(&note(number, &id.to_string(), "")).map(|()| id)
                });
                assert!(id.as_ref().unwrap() > &newest, "hour {hour}, {number}");
                newest = id.unwrap();
                store.moment().advance_secs(3);
            }
        }
        // Once the clock is right again, ids follow it.
        let store = start(noon + 600_000);
        let (secs, _) = store.moment().new_id().get_timestamp().unwrap().to_unix();
        assert_eq!(secs, 1_800_000_600);
        let findings = store.check(TABLES).unwrap();
        assert_eq!((findings.wrong, findings.records), (0, 20), "the clock is not counted");
    }

    #[test]
    fn the_clock_is_stored_now_and_then_and_only_with_something_else() {
        let store = Store::in_memory(Moment::at(Time::from_millis(1_800_000_000_000)));
        let stored = || store.read(Id::NOTHING, |view| view.get::<Clock>(&())).unwrap();
        let clock = |secs: i64| Some(Clock { newest_millis: 1_800_000_000_000 + secs * 1000 });
        let write = |id| {
            store.write_now(org(1), move |tx| {
                tx.new_id::<()>();
                if id == 0 { Ok(()) } else { tx.insert(&note(id, "", "")) }
            })
        };
        write(0).unwrap();
        assert_eq!(stored(), None, "nothing was stored that it would be newer than");
        write(1).unwrap();
        assert_eq!(stored(), clock(0));
        store.moment().advance_secs(9);
        write(2).unwrap();
        assert_eq!(stored(), clock(0));
        store.moment().advance_secs(1);
        write(1).unwrap_err();
        assert_eq!(stored(), clock(0), "what was refused is not stored");
        write(3).unwrap();
        assert_eq!(stored(), clock(10));
    }

    #[test]
    fn a_clock_that_was_not_kept_is_stored_again() {
        use crate::base::Error;
        use crate::store::{Attempted, engine::Attempt as _};
        let store = Store::in_memory(Moment::at(Time::from_millis(1_800_000_000_000)));
        for kept in [false, true] {
            let write = |tx: &mut crate::store::Tx| {
                tx.new_id::<()>();
                tx.insert(&note(1, "", ""))
            };
            let reply = tokio::sync::oneshot::channel().0;
            let mut attempt = Box::new(Attempted { pending: store.pending(org(1), write), reply });
            let writes = attempt.run(&*store.engine.snapshot()).unwrap();
            assert!(writes.tables.contains_key("clock"));
            attempt.settle(if kept { Ok(()) } else { Err(Error::internal("not kept")) });
            assert_eq!(store.moment().due().is_none(), kept);
        }
    }

    #[test]
    fn a_clock_of_the_first_release_reads_for_ever() {
        let body = [0x01, 0x01, 0x00, 0x50, 0x5c, 0x18, 0xa3, 0x01, 0x00, 0x00];
        let checksum = [0x7a, 0xe0, 0x62, 0x11, 0xac, 0x17, 0x71, 0x74];
        let stored = [body.as_slice(), &checksum].concat();
        let clock = crate::store::codec::decode::<Clock>(b"", &stored).unwrap();
        assert_eq!(clock, Clock { newest_millis: 1_800_000_000_000 });
    }
}
