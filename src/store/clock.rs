//! The source of time, ids and randomness for transactions: the only one, so that tests can set the
//! time.
//!
//! Ids increase even if the clock is set back, across restarts too: a watermark is stored from time
//! to time (see [`super::id_watermark`]).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use aws_lc_rs::rand;
use uuid::Uuid;

use crate::base::Time;

/// Time, ids and randomness.
pub struct Clock {
    /// The time in tests, in milliseconds; otherwise the system's clock is used.
    fixed: Option<AtomicI64>,
    ids: Arc<Mutex<Ids>>,
    /// The newest [`IdWatermark`](super::id_watermark::IdWatermark) that is durable, in milliseconds.
    stored_watermark: AtomicI64,
}

/// How far the times of ids may run ahead of the stored watermark: 10 s. After a restart ids begin
/// that much later, so it is short; but each update adds a row to a commit, so it is not shorter.
const MAX_WATERMARK_LAG_MILLIS: i64 = 10_000;

/// The state of the id generator.
#[derive(Default)]
struct Ids {
    last: LastId,
    /// A buffer of random numbers: fetched one by one they would be most of the cost of an id.
    random: Vec<[u8; 16]>,
    /// The first id of each transaction that may still be committed.
    uncommitted: BTreeSet<Uuid>,
    /// Those of them whose outcome is not known, and until when they are kept, in milliseconds.
    unknown: Vec<(Uuid, i64)>,
}

/// Marks the ids of a transaction as not committed yet, from the first on, until it is dropped.
pub(super) struct UncommittedIds {
    ids: Arc<Mutex<Ids>>,
    first: Uuid,
}

impl Drop for UncommittedIds {
    fn drop(&mut self) {
        lock(&self.ids).uncommitted.remove(&self.first);
    }
}

/// No thread panics while holding it.
fn lock(ids: &Mutex<Ids>) -> MutexGuard<'_, Ids> {
    ids.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ids {
    /// Returns the first id that may still be committed, at this time.
    fn first_uncommitted(&mut self, now: i64) -> Option<Uuid> {
        let ended = self.unknown.extract_if(.., |(_, until)| *until <= now);
        for (id, _) in ended {
            self.uncommitted.remove(&id);
        }
        self.uncommitted.first().copied()
    }

    /// Returns the next id, at this time.
    fn next(&mut self, now: i64) -> Uuid {
        let random = self.random();
        let last = &mut self.last;
        *last = match *last {
            LastId { millis, .. } if now > millis => LastId::new(now, random),
            LastId { millis, counter } => match counter + u128::from(random as u32) + 1 {
                counter if counter >> COUNTER_BITS != 0 => LastId::new(millis + 1, random),
                counter => LastId { millis, counter },
            },
        };
        last.id()
    }

    fn random(&mut self) -> u128 {
        if self.random.is_empty() {
            self.random.extend_from_slice(random::<512>().as_chunks().0);
        }
        u128::from_be_bytes(self.random.pop().expect("some were just fetched"))
    }
}

/// The last id issued, so that the next is larger even if the clock was set back.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
struct LastId {
    millis: i64,
    counter: u128,
}

impl LastId {
    /// Returns the first id of a millisecond. The counter's top bit stays zero, which leaves room to
    /// count up.
    fn new(millis: i64, random: u128) -> Self {
        LastId { millis, counter: random >> (128 - COUNTER_BITS + 1) }
    }

    fn id(self) -> Uuid {
        let LastId { millis, counter } = self;
        let time = (u128::from(millis as u64) & 0xFFFF_FFFF_FFFF) << 80;
        let high = (counter >> 62 & 0xFFF) << 64;
        let low = counter & ((1 << 62) - 1);
        Uuid::from_u128(time | 0x7 << 76 | high | 0b10 << 62 | low)
    }
}

/// The store has been read anew by then, or a connection has ended, after a write whose outcome was not
/// known.
const MAX_UNKNOWN_SECS: i64 = 60;

/// An id's bits below its time: 12 of `rand_a` and 62 of `rand_b`.
const COUNTER_BITS: u32 = 74;

impl Clock {
    /// Returns the system's clock.
    pub fn system() -> Self {
        Clock { fixed: None, ids: Arc::default(), stored_watermark: AtomicI64::new(0) }
    }

    /// Returns a clock that moves only by [`Clock::advance_secs`], for tests.
    pub fn at(time: Time) -> Self {
        Clock { fixed: Some(AtomicI64::new(time.millis())), ..Clock::system() }
    }

    /// Advances a clock made by [`Clock::at`]; has no effect on the system's.
    pub fn advance_secs(&self, secs: i64) {
        if let Some(fixed) = &self.fixed {
            fixed.fetch_add(secs * 1000, Ordering::SeqCst);
        }
    }

    /// Returns the current time.
    pub fn now(&self) -> Time {
        Time::from_millis(match &self.fixed {
            Some(millis) => millis.load(Ordering::SeqCst),
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i64::try_from(since.as_millis()).unwrap_or(i64::MAX)),
        })
    }

    /// Returns the current time in nanoseconds since 1970: for what others compare with their own clocks.
    pub fn now_nanos(&self) -> u64 {
        let nanos = match &self.fixed {
            Some(_) => i128::from(self.now().millis()) * 1_000_000,
            None => SystemTime::now()
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| i128::try_from(since.as_nanos()).unwrap_or(0)),
        };
        u64::try_from(nanos).unwrap_or(0)
    }

    /// Returns a new UUIDv7, larger than all before it.
    pub fn new_id(&self) -> Uuid {
        let now = self.now().millis();
        lock(&self.ids).next(now)
    }

    /// Returns a new id, and what marks it and those after it as not committed yet.
    pub(super) fn new_uncommitted_id(&self) -> (Uuid, UncommittedIds) {
        let now = self.now().millis();
        let mut ids = lock(&self.ids);
        let first = ids.next(now);
        ids.uncommitted.insert(first);
        (first, UncommittedIds { ids: self.ids.clone(), first })
    }

    /// Keeps ids marked whose transaction may have been committed or not, for as long as that takes to be
    /// seen.
    pub(super) fn keep(&self, uncommitted: UncommittedIds) {
        let now = self.now();
        let mut ids = lock(&self.ids);
        ids.first_uncommitted(now.millis()); // Those before are forgotten in time, whoever asks for them.
        ids.unknown.push((uncommitted.first, now.plus_secs(MAX_UNKNOWN_SECS).millis()));
        drop(ids);
        std::mem::forget(uncommitted);
    }

    /// Returns the id before which no transaction of this process will commit a new one: those that are
    /// committed from now on are the same or larger.
    pub(super) fn settled_id(&self) -> Uuid {
        let now = self.now().millis();
        let mut ids = lock(&self.ids);
        let first = ids.first_uncommitted(now);
        first.unwrap_or_else(|| Uuid::from_u128(ids.last.id().as_u128().saturating_add(1)))
    }

    /// The same among processes whose ids are less than `millis` old when they are committed.
    pub(super) fn settled_id_among_others(&self, millis: i64) -> Uuid {
        let now = self.now().millis();
        let since = now.saturating_sub(millis).max(0);
        let of_all = Uuid::from_u128((u128::from(since as u64) & 0xFFFF_FFFF_FFFF) << 80);
        let own = lock(&self.ids).first_uncommitted(now);
        own.map_or(of_all, |own| own.min(of_all))
    }

    /// Returns whether it shows an earlier time than before: ids have been issued at later ones.
    pub fn is_set_back(&self) -> bool {
        let newest = lock(&self.ids).last.millis;
        Time::from_millis(newest).is_beyond(self.now(), 0)
    }

    /// Returns the watermark to store with the ids issued so far, if one is due: the time of the newest,
    /// in milliseconds.
    pub(super) fn watermark_due(&self) -> Option<i64> {
        let newest = lock(&self.ids).last.millis;
        let stored = self.stored_watermark.load(Ordering::SeqCst);
        (newest - stored >= MAX_WATERMARK_LAG_MILLIS).then_some(newest)
    }

    /// Notes that this watermark is durable.
    pub(super) fn mark_stored(&self, watermark: i64) {
        self.stored_watermark.fetch_max(watermark, Ordering::SeqCst);
    }

    /// Continues after all ids that can have been stored under this watermark.
    pub(super) fn resume_after(&self, watermark: i64) {
        let mut ids = lock(&self.ids);
        let random = ids.random();
        let last = &mut ids.last;
        *last = (*last).max(LastId::new(watermark + MAX_WATERMARK_LAG_MILLIS, random));
        self.mark_stored(watermark);
    }

    /// Returns cryptographically secure random bytes.
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
    fn ids_are_uuid_v7_and_grow_even_when_the_clock_is_set_back() {
        let clock = Clock::at(Time::from_millis(1_700_000_000_000));
        let mut last = clock.new_id();
        assert_eq!(last.get_version_num(), 7);
        assert_eq!(last.get_variant(), uuid::Variant::RFC4122);
        for step in [0, 0, -3600, 0, 7200, 0] {
            clock.advance_secs(step);
            for _ in 0..1000 {
                let next = clock.new_id();
                assert!(next > last);
                last = next;
            }
        }
    }

    #[test]
    fn an_id_is_settled_once_no_smaller_one_can_be_committed() {
        let clock = Clock::at(Time::from_millis(1_700_000_000_000));
        let before = clock.new_id();
        assert!(before < clock.settled_id());
        let (first, held) = clock.new_uncommitted_id();
        let (second, held_too) = clock.new_uncommitted_id();
        let between = clock.new_id();
        assert_eq!(clock.settled_id(), first);
        drop(held);
        assert_eq!(clock.settled_id(), second);
        let of_others = clock.settled_id_among_others(5000);
        assert_eq!(of_others.as_u128() >> 80, 1_699_999_995_000);
        clock.advance_secs(60);
        assert_eq!(clock.settled_id_among_others(5000), second);
        clock.keep(held_too);
        clock.advance_secs(59);
        assert_eq!(clock.settled_id(), second, "it may have been committed");
        clock.advance_secs(1);
        assert!(between < clock.settled_id());
        assert!(clock.settled_id() <= clock.new_id());
    }

    #[test]
    fn what_was_refused_changed_nothing_or_is_stored_holds_nobody_up() {
        use crate::base::Error;
        let store = Store::in_memory(Clock::at(Time::from_millis(1_700_000_000_000)), TABLES);
        for (nth, is_refused, is_stored) in
            [(1, true, false), (2, false, false), (3, false, true), (4, true, true)]
        {
            let written = store.write_blocking(org(1), move |tx| {
                let id = tx.new_id::<()>();
                if is_stored {
                    tx.insert(&note(nth, "", ""))?;
                }
                if is_refused { Err(Error::no_such("thing")) } else { Ok(id) }
            });
            assert_eq!(written.is_err(), is_refused);
            let next = store.clock().new_id();
            assert!(written.is_err() || written.is_ok_and(|id| id < store.settled_id()));
            assert!(next < store.settled_id::<()>().uuid(), "{nth}");
        }
    }

    #[test]
    fn ids_grow_across_a_restart_after_which_the_clock_is_behind() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store.redb");
        drop(Redb::create(&path, table_names(TABLES)).unwrap());
        let start = |millis| {
            let storage = Redb::open(&path, table_names(TABLES)).unwrap();
            let clock = Clock::at(Time::from_millis(millis));
            Store::start(storage, clock, Keys::new([7; 32]), &[]).unwrap()
        };
        let noon = 1_800_000_000_000;
        let mut newest = Id::NIL;
        // The clock is an hour behind after each restart, and advances while the store runs.
        for hour in 0..5 {
            let store = start(noon - hour * 3_600_000);
            for number in 0..20 {
                let id = store.write_blocking(org(1), move |tx| {
                    let id = tx.new_id::<()>();
                    tx.put(&note(number, &id.to_string(), "")).map(|()| id)
                });
                assert!(id.as_ref().unwrap() > &newest, "hour {hour}, {number}");
                newest = id.unwrap();
                store.clock().advance_secs(3);
            }
        }
        // Once the clock is right again, ids follow it.
        let store = start(noon + 600_000);
        let (secs, _) = store.clock().new_id().get_timestamp().unwrap().to_unix();
        assert_eq!(secs, 1_800_000_600);
        let findings = store.check(TABLES).unwrap();
        assert_eq!((findings.wrong, findings.records), (0, 20), "the watermark is not counted");
    }
}
