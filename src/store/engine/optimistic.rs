//! Optimistic concurrency: what an attempt has read, and whether it is still current when the
//! attempt is committed.
//!
//! An attempt runs on its caller's thread over a snapshot. Everything that costs processor time
//! (reading records, compiling, hashing, encoding an answer) happens there. The writer thread
//! compares what was read with what has been committed since, and applies the rows.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::reader::{KeyRange, Order, Reader, ScanFn};
use super::writes::WriteBatch;
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
    /// What may run at once where others wait for it, on an async task or on the writer thread:
    /// well under a millisecond.
    pub const LIGHT: Budget =
        Budget { read_bytes: 256 * 1024, reads: 2_000, written_bytes: 128 * 1024 };

    /// What one request may do in a single transaction. 8 MiB of rows take some 40 ms to commit,
    /// during which all other writes wait; larger work goes in steps.
    pub const FULL: Budget =
        Budget { read_bytes: 64 * 1024 * 1024, reads: 100_000, written_bytes: 8 * 1024 * 1024 };
}

/// What an attempt has read, in the order in which it did.
#[derive(Debug, Default)]
pub struct RecordedReads {
    keys: Vec<TableKey>,
    ranges: Vec<ReadRange>,
    /// The access version, if it was asked for.
    access_version: Option<Option<u64>>,
}

/// The read set of an attempt: single keys, ranges, and the access version. Keys are sorted, and ranges
/// are sorted and apart from each other: the writer thread looks changes up in them, of which there are
/// fewer than reads where an attempt read much.
#[derive(Debug, Default)]
pub struct ReadSet {
    keys: Vec<TableKey>,
    ranges: Vec<ReadRange>,
    access_version: Option<Option<u64>>,
}

type TableKey = (&'static str, Vec<u8>);

/// A range that was read: from a key, included, to a bound.
#[derive(Debug)]
struct ReadRange {
    table: &'static str,
    from: Vec<u8>,
    to: Bound<Vec<u8>>,
}

impl ReadRange {
    fn to(&self) -> Bound<&[u8]> {
        self.to.as_ref().map(Vec::as_slice)
    }

    /// Whether it ends before this key.
    fn ends_before(&self, key: &[u8]) -> bool {
        is_empty(key, self.to())
    }

    /// Appends a later one that begins within this; returns whether it did.
    fn joins(&mut self, later: &mut ReadRange) -> bool {
        if self.table != later.table || self.ends_before(&later.from) {
            return false;
        }
        if goes_further(later.to(), self.to()) {
            self.to = std::mem::replace(&mut later.to, Bound::Unbounded);
        }
        true
    }
}

/// Whether one bound at the end of a range is behind another.
fn goes_further(to: Bound<&[u8]>, other: Bound<&[u8]>) -> bool {
    match (to, other) {
        (_, Bound::Unbounded) => false,
        (Bound::Unbounded, _) => true,
        (Bound::Included(to), Bound::Excluded(other)) => to >= other,
        (
            Bound::Included(to) | Bound::Excluded(to),
            Bound::Included(other) | Bound::Excluded(other),
        ) => to > other,
    }
}

/// The keys that a commit changed.
pub type ChangedKeys = BTreeMap<&'static str, BTreeSet<Vec<u8>>>;

/// A set of changed keys that can be searched by key and by range.
pub trait Changes {
    /// Returns whether this key of this table is in the set.
    fn has_key(&self, table: &'static str, key: &[u8]) -> bool;
    /// Returns whether any key of this range is in the set.
    fn has_any(&self, table: &'static str, from: &[u8], to: Bound<&[u8]>) -> bool;
    /// Returns how many keys are in the set.
    fn count(&self) -> usize;
    /// Returns whether any key, with its table, is one that `is_one` accepts.
    fn any(&self, is_one: &mut dyn FnMut(&'static str, &[u8]) -> bool) -> bool;
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
    fn count(&self) -> usize {
        self.values().map(BTreeSet::len).sum()
    }
    fn any(&self, is_one: &mut dyn FnMut(&'static str, &[u8]) -> bool) -> bool {
        self.iter().any(|(table, keys)| keys.iter().any(|key| is_one(table, key)))
    }
}

impl Changes for WriteBatch {
    fn has_key(&self, table: &'static str, key: &[u8]) -> bool {
        self.tables.get(table).is_some_and(|changes| changes.contains_key(key))
    }
    fn has_any(&self, table: &'static str, from: &[u8], to: Bound<&[u8]>) -> bool {
        let range = (Bound::Included(from), to);
        let any = |changes: &BTreeMap<Vec<u8>, _>| changes.range::<[u8], _>(range).next().is_some();
        !is_empty(from, to) && self.tables.get(table).is_some_and(any)
    }
    fn count(&self) -> usize {
        self.len()
    }
    fn any(&self, is_one: &mut dyn FnMut(&'static str, &[u8]) -> bool) -> bool {
        self.tables.iter().any(|(table, changes)| changes.keys().any(|key| is_one(table, key)))
    }
}

/// Whether a range can hold no key; the standard library's maps panic on some such ranges.
fn is_empty(from: &[u8], to: Bound<&[u8]>) -> bool {
    match to {
        Bound::Included(to) => to < from,
        Bound::Excluded(to) => to <= from,
        Bound::Unbounded => false,
    }
}

impl RecordedReads {
    fn add_key(&mut self, table: &'static str, key: &[u8]) {
        self.keys.push((table, key.to_vec()));
    }

    /// Adds a range as far as it was read: up to the key `last` at which the scan was stopped, or
    /// all of it.
    fn add_range(
        &mut self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        last: Option<Vec<u8>>,
    ) {
        let end = || range.to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.to_vec()));
        let (from, to) = match (order, last) {
            (_, None) => (range.from.to_vec(), end()),
            (Order::Ascending, Some(last)) => (range.from.to_vec(), Bound::Included(last)),
            (Order::Descending, Some(last)) => (last, end()),
        };
        self.ranges.push(ReadRange { table, from, to });
    }

    /// Sorts what was read. Where much was, that takes milliseconds: the caller's.
    pub fn sort(self) -> ReadSet {
        let RecordedReads { mut keys, mut ranges, access_version } = self;
        keys.sort_unstable();
        keys.dedup();
        ranges.retain(|range| !is_empty(&range.from, range.to()));
        ranges.sort_unstable_by(|a, b| (a.table, &a.from).cmp(&(b.table, &b.from)));
        ranges.dedup_by(|later, range| range.joins(later));
        ReadSet { keys, ranges, access_version }
    }
}

impl ReadSet {
    /// Returns whether any of these changes touches what was read. Takes as many searches as there
    /// are reads or changes, whichever are fewer.
    pub fn conflicts_with(&self, changes: &dyn Changes) -> bool {
        if changes.count() < self.keys.len() + self.ranges.len() {
            return changes.any(&mut |table, key| self.has(table, key));
        }
        self.keys.iter().any(|(table, key)| changes.has_key(table, key))
            || self.ranges.iter().any(|read| changes.has_any(read.table, &read.from, read.to()))
    }

    /// Returns whether this key was read.
    fn has(&self, table: &'static str, key: &[u8]) -> bool {
        let order = |(of, read): &TableKey| (*of, read.as_slice()).cmp(&(table, key));
        if self.keys.binary_search_by(order).is_ok() {
            return true;
        }
        let begin = |read: &ReadRange| (read.table, read.from.as_slice()) <= (table, key);
        let last = self.ranges[..self.ranges.partition_point(begin)].last();
        last.is_some_and(|read| read.table == table && !read.ends_before(key))
    }

    /// Returns whether the conclusions about access that it relied on hold at this access version;
    /// always, if it relied on none.
    pub fn access_is(&self, version: Option<u64>) -> bool {
        self.access_version.is_none_or(|read| read == version && read.is_some())
    }
}

/// A reader that records what is read and stops an attempt that costs more than its budget.
pub struct Recorder<'a> {
    reader: &'a dyn Reader,
    budget: Budget,
    // A reader may be shared between threads; this one never is, and an uncontended lock costs
    // a few nanoseconds.
    recorded: Mutex<Recorded>,
}

/// The outcome of an attempt's reads.
pub enum Reads {
    /// Everything was read within the budget.
    Whole(RecordedReads),
    /// The budget was exceeded.
    OverBudget,
    /// The underlying state could not be read, for this reason. What the attempt made of it, a write
    /// or a refusal, means nothing.
    Failed(Error),
}

#[derive(Default)]
struct Recorded {
    reads: RecordedReads,
    read_bytes: usize,
    read_count: usize,
    written_bytes: usize,
    exceeded: bool,
    /// The first read that failed.
    failed: Option<Error>,
}

impl Recorded {
    /// Counts a read. An error ends the attempt.
    fn charge_read(&mut self, budget: &Budget, bytes: usize) -> Result<()> {
        self.read_bytes += bytes;
        self.read_count += 1;
        self.require(self.read_bytes <= budget.read_bytes && self.read_count <= budget.reads)
    }

    /// Notes the end of a read of the underlying state.
    fn note_end<T>(&mut self, end: &Result<T>) {
        if let Err(error) = end {
            self.failed.get_or_insert_with(|| error.clone());
        }
    }

    fn require(&mut self, is_within_budget: bool) -> Result<()> {
        if is_within_budget {
            return Ok(());
        }
        self.exceeded = true;
        Err(too_large())
    }
}

impl<'a> Recorder<'a> {
    /// Creates a recorder over `reader` with this budget.
    pub fn new(reader: &'a dyn Reader, budget: Budget) -> Self {
        Recorder { reader, budget, recorded: Mutex::default() }
    }

    /// Returns what was read, even if the attempt ignored an error.
    pub fn into_reads(self) -> Reads {
        let recorded = self.recorded.into_inner().unwrap_or_else(PoisonError::into_inner);
        match recorded {
            Recorded { exceeded: true, .. } => Reads::OverBudget,
            Recorded { failed: Some(error), .. } => Reads::Failed(error),
            Recorded { reads, .. } => Reads::Whole(reads),
        }
    }

    fn recorded(&self) -> MutexGuard<'_, Recorded> {
        // An attempt that panicked is over; its read set is not used.
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Reader for Recorder<'_> {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.recorded().reads.add_key(table, key);
        let mut bytes = 0;
        let mut seen = Ok(());
        let found = self.reader.get(table, key, &mut |value| {
            bytes = value.len();
            seen = see(value);
            seen.clone()
        });
        let mut recorded = self.recorded();
        if seen.is_ok() {
            recorded.note_end(&found);
        }
        recorded.charge_read(&self.budget, bytes)?;
        found
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let mut last = None;
        let mut refused = false;
        let end = self.reader.scan(table, range, order, &mut |key, value| {
            let within = self.recorded().charge_read(&self.budget, value.len());
            let step = within.and_then(|()| each(key, value));
            refused = step.is_err();
            if step.as_ref().is_ok_and(|step| step.is_break()) {
                last = Some(key.to_vec());
            }
            step
        });
        let mut recorded = self.recorded();
        if !refused {
            recorded.note_end(&end);
        }
        recorded.reads.add_range(table, range, order, last);
        end
    }

    /// What is found is recorded and counted when it is read.
    fn will_find(&self, entry: (&'static str, &[u8]), record: (&'static str, &[u8])) -> Result<()> {
        let end = self.reader.will_find(entry, record);
        self.recorded().note_end(&end);
        end
    }

    fn will_get(&self, table: &'static str, keys: &[Vec<u8>]) -> Result<()> {
        let end = self.reader.will_get(table, keys);
        self.recorded().note_end(&end);
        end
    }

    fn access_version(&self) -> Option<u64> {
        let version = self.reader.access_version();
        self.recorded().reads.access_version = Some(version);
        version
    }

    fn charge_read(&self, bytes: usize) -> Result<()> {
        self.recorded().charge_read(&self.budget, bytes)
    }

    fn charge_write(&self, bytes: usize) -> Result<()> {
        let mut recorded = self.recorded();
        recorded.written_bytes += bytes;
        let is_within_budget = recorded.written_bytes <= self.budget.written_bytes;
        recorded.require(is_within_budget)
    }
}

/// The error of an attempt that exceeds the largest budget.
pub fn too_large() -> Error {
    Error::new(
        Kind::TooLarge,
        "transaction_too_large",
        "this reads or changes too much at once; send it in smaller parts",
    )
}

/// The keys that the latest commits changed, to compare with what was read before them.
#[derive(Default)]
pub struct History {
    /// Commits in ascending order, without gaps.
    commits: VecDeque<(u64, ChangedKeys)>,
    keys: usize,
    /// The newest commit of which nothing is known any more; nothing is known of older ones either.
    evicted: u64,
}

/// Keys of past commits held in memory: some 10 MiB. At 10,000 small writes a second they reach
/// half a second back; an attempt that read before that runs again. In tests a few commits fill it.
const MAX_HISTORY_KEYS: usize = if cfg!(test) { 100 } else { 100_000 };

impl History {
    /// Adds what the commit of this number changed, and evicts the oldest commits that no longer
    /// fit.
    pub fn add(&mut self, number: u64, writes: WriteBatch) {
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
            self.evicted = number;
        }
    }

    /// Evicts everything up to this number: what was committed is not known for certain.
    pub fn reset(&mut self, number: u64) {
        *self = History { evicted: number, ..History::default() };
    }

    /// Returns whether what was read at the state of commit `read_at` is known to be unchanged.
    pub fn is_current(&self, read_at: u64, reads: &ReadSet) -> bool {
        let since = self.commits.iter().rev().take_while(|(number, _)| *number > read_at);
        read_at >= self.evicted && !since.into_iter().any(|(_, keys)| reads.conflicts_with(keys))
    }
}

#[cfg(test)]
mod tests;
