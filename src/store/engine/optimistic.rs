//! What an attempt has read, and whether that still stands when its turn to commit comes.
//!
//! An attempt runs on its caller's thread over a snapshot. Everything that costs processor time
//! (reading records, compiling, hashing, encoding an answer) happens there. The writer thread
//! compares what was read with what has been committed since, and applies the rows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{Each, KeyRange, Order, Reader, Writes};
use crate::base::{Error, Kind, Result};

/// What one attempt may cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of values read.
    pub read_bytes: usize,
    /// Rows and ranges read.
    pub reads: usize,
    /// Bytes of keys and values written.
    pub written_bytes: usize,
}

impl Budget {
    /// What is done at once on whichever thread asks: well under a millisecond.
    pub const LIGHT: Budget =
        Budget { read_bytes: 512 * 1024, reads: 4_000, written_bytes: 128 * 1024 };

    /// What one request may do in a single transaction. 8 MiB of rows take some 40 ms to commit,
    /// which everybody else waits for; larger work goes in steps.
    pub const FULL: Budget =
        Budget { read_bytes: 64 * 1024 * 1024, reads: 100_000, written_bytes: 8 * 1024 * 1024 };
}

/// What an attempt has read: single keys, ranges, and the state of access.
#[derive(Debug, Default)]
pub struct ReadSet {
    keys: Vec<(&'static str, Vec<u8>)>,
    ranges: Vec<Range>,
    access: Option<Option<u64>>,
}

/// A range that was read: from a key, included, to a bound.
#[derive(Debug)]
struct Range {
    table: &'static str,
    from: Vec<u8>,
    to: Bound<Vec<u8>>,
}

/// The keys that a commit changed.
pub type ChangedKeys = BTreeMap<&'static str, BTreeSet<Vec<u8>>>;

/// A map whose keys can be looked up singly and by range.
pub trait Changes {
    /// Whether this key of this table is in it.
    fn has_key(&self, table: &'static str, key: &[u8]) -> bool;
    /// Whether any key of this range is.
    fn has_any(&self, table: &'static str, from: &[u8], to: Bound<&[u8]>) -> bool;
}

impl Changes for ChangedKeys {
    fn has_key(&self, table: &'static str, key: &[u8]) -> bool {
        self.get(table).is_some_and(|keys| keys.contains(key))
    }
    fn has_any(&self, table: &'static str, from: &[u8], to: Bound<&[u8]>) -> bool {
        let range = (Bound::Included(from), to);
        !is_empty(from, to)
            && self.get(table).is_some_and(|keys| keys.range::<[u8], _>(range).next().is_some())
    }
}

impl Changes for Writes {
    fn has_key(&self, table: &'static str, key: &[u8]) -> bool {
        self.tables.get(table).is_some_and(|changes| changes.contains_key(key))
    }
    fn has_any(&self, table: &'static str, from: &[u8], to: Bound<&[u8]>) -> bool {
        let range = (Bound::Included(from), to);
        let any = |changes: &BTreeMap<Vec<u8>, _>| changes.range::<[u8], _>(range).next().is_some();
        !is_empty(from, to) && self.tables.get(table).is_some_and(any)
    }
}

/// Whether a range can hold nothing; the standard library's maps panic on some such ranges.
fn is_empty(from: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => to < from,
        Bound::Excluded(to) => to <= from,
        Bound::Unbounded => false,
    }
}

impl ReadSet {
    fn key(&mut self, table: &'static str, key: &[u8]) {
        self.keys.push((table, key.to_vec()));
    }

    /// Notes a range as far as it was read: to the key at which the reading stopped, if it did.
    fn range(
        &mut self,
        table: &'static str,
        span: KeyRange<'_>,
        order: Order,
        last: Option<Vec<u8>>,
    ) {
        let end = || span.to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.to_vec()));
        let (from, to) = match (order, last) {
            (_, None) => (span.from.to_vec(), end()),
            (Order::Ascending, Some(last)) => (span.from.to_vec(), Bound::Included(last)),
            (Order::Descending, Some(last)) => (last, end()),
        };
        self.ranges.push(Range { table, from, to });
    }

    /// Whether any of these changes touches what was read.
    pub fn conflicts_with(&self, changes: &dyn Changes) -> bool {
        let key = |(table, key): &(&'static str, Vec<u8>)| changes.has_key(table, key);
        let range = |range: &Range| {
            let to = match &range.to {
                Bound::Included(to) => Bound::Included(to.as_slice()),
                Bound::Excluded(to) => Bound::Excluded(to.as_slice()),
                Bound::Unbounded => Bound::Unbounded,
            };
            changes.has_any(range.table, &range.from, to)
        };
        self.keys.iter().any(key) || self.ranges.iter().any(range)
    }

    /// Whether conclusions about access that it relied on still hold at this stamp; always, if it
    /// relied on none.
    pub fn access_is(&self, stamp: Option<u64>) -> bool {
        self.access.is_none_or(|read| read == stamp && read.is_some())
    }
}

/// A reader that notes what is read and stops what costs more than its budget.
pub struct Recorder<'a> {
    base: &'a dyn Reader,
    budget: Budget,
    // A reader may be shared between threads; this one never is, and an uncontended lock costs
    // a few nanoseconds.
    notes: Mutex<Notes>,
}

/// What came of the reading of an attempt.
pub enum Reads {
    /// This was read.
    Whole(ReadSet),
    /// The budget was not enough.
    OverBudget,
    /// The state below could not be read.
    Failed,
}

#[derive(Default)]
struct Notes {
    reads: ReadSet,
    read_bytes: usize,
    read_count: usize,
    written_bytes: usize,
    exceeded: bool,
    failed: bool,
}

impl Notes {
    /// Counts a read. An error ends the attempt.
    fn read(&mut self, budget: &Budget, bytes: usize) -> Result<()> {
        self.read_bytes += bytes;
        self.read_count += 1;
        self.within(self.read_bytes <= budget.read_bytes && self.read_count <= budget.reads)
    }

    fn within(&mut self, within: bool) -> Result<()> {
        if within {
            return Ok(());
        }
        self.exceeded = true;
        Err(too_large())
    }
}

impl<'a> Recorder<'a> {
    /// Over `base`, within `budget`.
    pub fn new(base: &'a dyn Reader, budget: Budget) -> Self {
        Recorder { base, budget, notes: Mutex::default() }
    }

    /// What was read, whatever the attempt made of errors.
    pub fn into_reads(self) -> Reads {
        let notes = self.notes.into_inner().unwrap_or_else(PoisonError::into_inner);
        match notes {
            Notes { exceeded: true, .. } => Reads::OverBudget,
            Notes { failed: true, .. } => Reads::Failed,
            Notes { reads, .. } => Reads::Whole(reads),
        }
    }

    fn notes(&self) -> MutexGuard<'_, Notes> {
        // An attempt that panicked is over; what it noted is not used.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader for Recorder<'_> {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.notes().reads.key(table, key);
        let mut bytes = 0;
        let mut seen = Ok(());
        let found = self.base.get(table, key, &mut |value| {
            bytes = value.len();
            seen = see(value);
            seen.clone()
        });
        let mut notes = self.notes();
        notes.failed |= found.is_err() && seen.is_ok();
        notes.read(&self.budget, bytes)?;
        found
    }

    fn scan(
        &self,
        table: &'static str,
        span: KeyRange<'_>,
        order: Order,
        each: &mut Each<'_>,
    ) -> Result<()> {
        let mut last = None;
        let mut refused = false;
        let end = self.base.scan(table, span, order, &mut |key, value| {
            let within = self.notes().read(&self.budget, value.len());
            let step = within.and_then(|()| each(key, value));
            refused = step.is_err();
            if step.as_ref().is_ok_and(|step| step.is_break()) {
                last = Some(key.to_vec());
            }
            step
        });
        let mut notes = self.notes();
        notes.failed |= end.is_err() && !refused;
        notes.reads.range(table, span, order, last);
        end
    }

    fn access_version(&self) -> Option<u64> {
        let stamp = self.base.access_version();
        self.notes().reads.access = Some(stamp);
        stamp
    }

    fn charge_write(&self, bytes: usize) -> Result<()> {
        let mut notes = self.notes();
        notes.written_bytes += bytes;
        let within = notes.written_bytes <= self.budget.written_bytes;
        notes.within(within)
    }
}

/// What an attempt that exceeds the largest budget is answered.
pub fn too_large() -> Error {
    Error::new(
        Kind::TooLarge,
        "transaction_too_large",
        "this reads or changes too much at once; send it in smaller parts",
    )
}

/// The keys that the latest commits changed, to hold against what was read before them.
#[derive(Default)]
pub struct History {
    /// Commits in ascending order, without gaps.
    commits: VecDeque<(u64, ChangedKeys)>,
    keys: usize,
    /// Nothing is known of this commit and those before it.
    forgotten: u64,
}

/// Keys of past commits held in memory: some 10 MiB. At 10,000 small writes a second they reach
/// half a second back; whoever read longer ago runs again.
const MAX_HISTORY_KEYS: usize = 100_000;

impl History {
    /// Adds what the commit of this number changed.
    pub fn add(&mut self, number: u64, writes: Writes) {
        let keys: ChangedKeys = writes
            .tables
            .into_iter()
            .map(|(table, changes)| (table, changes.into_keys().collect()))
            .collect();
        self.keys += keys.values().map(BTreeSet::len).sum::<usize>();
        self.commits.push_back((number, keys));
        while self.keys > MAX_HISTORY_KEYS
            && let Some((number, keys)) = self.commits.pop_front()
        {
            self.keys -= keys.values().map(BTreeSet::len).sum::<usize>();
            self.forgotten = number;
        }
    }

    /// Forgets everything up to this number: what was committed is not known for certain.
    pub fn forget(&mut self, number: u64) {
        *self = History { forgotten: number, ..History::default() };
    }

    /// Whether what was read at the state of commit `base` still stands.
    pub fn stands(&self, base: u64, reads: &ReadSet) -> bool {
        let since = self.commits.iter().rev().take_while(|(number, _)| *number > base);
        base >= self.forgotten && !since.into_iter().any(|(_, keys)| reads.conflicts_with(keys))
    }
}
