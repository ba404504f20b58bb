//! The entries of a node: in order, and compared without a look at their keys where that is possible.
//!
//! A key is some dependent reads of memory away, in its record. So a node keeps what all its keys begin
//! with, and each entry the eight bytes behind that, its head: a search compares heads, and only the
//! keys of those that are the same.

use std::cmp::Ordering;
use std::sync::OnceLock;

use super::super::record::{DELETION, Place};

/// The records of a part are in blocks of 1,024, and 256 of those are as many as there can be.
const BLOCK_RECORDS: usize = 1024;
const MAX_BLOCKS: usize = 256;

/// How many records a part may have.
pub const MAX_RECORDS: usize = MAX_BLOCKS * BLOCK_RECORDS;

/// The flag of an entry of a key that the storage below this part does not have.
const NEW: u32 = 1 << 31;

/// Bytes of the beginning that a node's keys have in common, which the node keeps. Most keys of a table
/// begin with the ids of an organization and of a team.
const MAX_COMMON: usize = 38;

/// One change: where it is.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The number of its record, perhaps with the flag [`NEW`].
    record: u32,
    key_at: u32,
    value_len: u32,
    key_len: u16,
    pub table: u16,
    /// What follows in its key behind the beginning that all keys of its node have in common.
    head: u64,
}

impl Entry {
    /// Whether the storage below its part does not have its key.
    pub fn is_new(&self) -> bool {
        self.record & NEW != 0
    }

    /// Whether its key is deleted.
    pub fn is_deletion(&self) -> bool {
        self.value_len == DELETION
    }

    /// An entry that is in no node yet.
    pub fn new(table: u16, record: u32, place: &Place) -> Self {
        let Place { key_at, key_len, value_len } = *place;
        Entry { record, key_at, value_len, key_len, table, head: 0 }
    }

    /// The entry, with the flag if and only if `is_new`.
    pub fn with_new(self, is_new: bool) -> Self {
        let record = if is_new { self.record | NEW } else { self.record & !NEW };
        Entry { record, ..self }
    }
}

type Block = Box<[OnceLock<Box<[u8]>>]>;

fn empty_slots<T>(count: usize) -> Box<[OnceLock<T>]> {
    (0..count).map(|_| OnceLock::new()).collect()
}

/// The records of all versions of a part. Versions that do not have the last ones do not look at
/// them.
pub struct Records(Box<[OnceLock<Block>]>);

impl Default for Records {
    fn default() -> Self {
        Records(empty_slots(MAX_BLOCKS))
    }
}

impl Records {
    fn get(&self, number: u32) -> &[u8] {
        let number = (number & !NEW) as usize;
        let block = self.0[number / BLOCK_RECORDS].get();
        let record = block.and_then(|block| block[number % BLOCK_RECORDS].get());
        record.expect("an entry's record is there before the entry")
    }

    /// Adds a record.
    pub fn put(&self, number: usize, record: Box<[u8]>) {
        let block = self.0[number / BLOCK_RECORDS].get_or_init(|| empty_slots(BLOCK_RECORDS));
        let put = block[number % BLOCK_RECORDS].set(record);
        put.expect("only the newest version of a part is added to");
    }

    /// Returns the key of an entry.
    pub fn key(&self, entry: &Entry) -> &[u8] {
        let key_at = entry.key_at as usize;
        &self.get(entry.record)[key_at..key_at + usize::from(entry.key_len)]
    }

    /// Returns the value of an entry; `None` of a deletion.
    pub fn value(&self, entry: &Entry) -> Option<&[u8]> {
        if entry.is_deletion() {
            return None;
        }
        let value_at = entry.key_at as usize + usize::from(entry.key_len);
        Some(&self.get(entry.record)[value_at..value_at + entry.value_len as usize])
    }

    fn compare(&self, entry: &Entry, table: u16, key: &[u8]) -> Ordering {
        entry.table.cmp(&table).then_with(|| self.key(entry).cmp(key))
    }
}

/// The entries of a node, in order. Those of one table may have the beginning of their keys in common.
#[derive(Clone)]
pub struct Entries {
    all: Vec<Entry>,
    /// How much of `common` all keys begin with; none unless all are of one table.
    common_len: Option<u8>,
    common: [u8; MAX_COMMON],
}

impl Default for Entries {
    fn default() -> Self {
        Entries { all: Vec::new(), common_len: None, common: [0; MAX_COMMON] }
    }
}

/// The first eight bytes, zeros behind the end. A key that is a beginning of another has no larger head.
fn eight(bytes: &[u8]) -> u64 {
    if let Some(eight) = bytes.first_chunk() {
        return u64::from_be_bytes(*eight);
    }
    let mut eight = [0; 8];
    eight[..bytes.len()].copy_from_slice(bytes);
    u64::from_be_bytes(eight)
}

/// The length of what two keys begin with, as far as a node keeps it.
fn common_len(one: &[u8], other: &[u8]) -> u8 {
    let both = one.iter().zip(other).take(MAX_COMMON);
    both.take_while(|(one, other)| one == other).count() as u8
}

impl Entries {
    /// Makes a node of these entries, which are in order.
    pub fn of(records: &Records, all: Vec<Entry>) -> Self {
        let mut entries = Entries { all, ..Entries::default() };
        if let (Some(first), Some(last)) = (entries.all.first(), entries.all.last())
            && first.table == last.table
        {
            let key = records.key(first);
            let len = common_len(key, records.key(last));
            entries.common[..usize::from(len)].copy_from_slice(&key[..usize::from(len)]);
            entries.common_len = Some(len);
        }
        entries.renew_heads(records);
        entries
    }

    /// Does the same as `clone`, with room for so many.
    pub fn roomy(&self, most: usize) -> Self {
        let mut all = Vec::with_capacity(most);
        all.extend_from_slice(&self.all);
        Entries { all, ..*self }
    }

    /// All of them.
    pub fn all(&self) -> &[Entry] {
        &self.all
    }

    fn common(&self) -> &[u8] {
        &self.common[..self.common_len.map_or(0, usize::from)]
    }

    /// The head of a key that begins as all others do.
    fn head(&self, table: u16, key: &[u8]) -> u64 {
        match self.common_len {
            Some(len) => eight(&key[usize::from(len)..]),
            None => u64::from(table) << 48 | eight(key) >> 16,
        }
    }

    fn renew_heads(&mut self, records: &Records) {
        for at in 0..self.all.len() {
            let entry = &self.all[at];
            self.all[at].head = self.head(entry.table, records.key(entry));
        }
    }

    /// Returns the position of the entry of a key, or where it would be.
    pub fn search(&self, records: &Records, table: u16, key: &[u8]) -> Result<usize, usize> {
        if self.common_len.is_some() {
            let common = self.common();
            let begin = key.get(..common.len()).unwrap_or(key);
            match table.cmp(&self.all[0].table).then_with(|| begin.cmp(common)) {
                Ordering::Less => return Err(0),
                Ordering::Equal => {}
                Ordering::Greater => return Err(self.all.len()),
            }
        }
        let head = self.head(table, key);
        let from = self.all.partition_point(|entry| entry.head < head);
        let same = self.all[from..].partition_point(|entry| entry.head == head);
        let found = self.all[from..from + same]
            .binary_search_by(|entry| records.compare(entry, table, key));
        found.map(|at| from + at).map_err(|at| from + at)
    }

    /// Inserts an entry where [`Entries::search`] did not find its key.
    pub fn insert(&mut self, records: &Records, at: usize, mut entry: Entry) {
        let key = records.key(&entry);
        let is_first = self.all.is_empty();
        if is_first {
            let len = common_len(key, key);
            self.common[..usize::from(len)].copy_from_slice(&key[..usize::from(len)]);
            self.common_len = Some(len);
        }
        if self.common_len.is_some() && !is_first {
            let is_of_table = entry.table == self.all[0].table;
            let len = is_of_table.then(|| common_len(key, self.common()));
            if len != self.common_len {
                self.common_len = len;
                self.renew_heads(records);
            }
        }
        entry.head = self.head(entry.table, key);
        self.all.insert(at, entry);
    }

    /// Puts an entry in the place of another one of the same key.
    pub fn replace(&mut self, at: usize, entry: Entry) {
        self.all[at] = Entry { head: self.all[at].head, ..entry };
    }

    /// Removes an entry.
    pub fn remove(&mut self, at: usize) {
        self.all.remove(at);
        if self.all.is_empty() {
            self.common_len = None;
        }
    }

    /// Removes the entries from a position on, and returns them.
    pub fn split_off(&mut self, records: &Records, at: usize) -> Self {
        let right = self.all.split_off(at);
        if right.len() > 1 {
            *self = Entries::of(records, std::mem::take(&mut self.all));
        }
        Entries::of(records, right)
    }

    /// Whether they are in order, and what is kept of their keys is right.
    #[cfg(test)]
    pub fn is_sound(&self, records: &Records) -> bool {
        let is_ordered = |two: &[Entry]| {
            two[0].head <= two[1].head
                && records.compare(&two[0], two[1].table, records.key(&two[1])).is_lt()
        };
        self.all.windows(2).all(is_ordered)
            && self.all.iter().all(|entry| {
                let key = records.key(entry);
                key.starts_with(self.common()) && entry.head == self.head(entry.table, key)
            })
    }
}
