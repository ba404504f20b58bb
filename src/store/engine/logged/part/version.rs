//! A version of a key: one change, and where it is in the order of the map.

use std::borrow::Borrow;
use std::cmp::Ordering;
use std::sync::Arc;

use super::super::record::{DELETION, Place};

/// The number of no record: in the order of the map it is before every version of a key.
pub const NEWEST: u32 = u32::MAX;
/// The number of no record: in the order of the map it is behind every version of a key.
pub const OLDEST: u32 = 0;

/// How many bytes of a key its head has: an organization's id, and the time in a record's.
const HEAD_BYTES: usize = 24;

/// A table and the first bytes of a key in it, zeros behind a shorter one. Of two keys with different
/// heads the one with the smaller head is the smaller: most comparisons need not look into records.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Head {
    table: u32,
    start: [u64; HEAD_BYTES / 8],
}

impl Head {
    fn of(table: u32, key: &[u8]) -> Self {
        let mut start = [0; HEAD_BYTES];
        let len = key.len().min(HEAD_BYTES);
        start[..len].copy_from_slice(&key[..len]);
        let (words, _) = start.as_chunks();
        Head { table, start: std::array::from_fn(|at| u64::from_be_bytes(words[at])) }
    }
}

/// A change: where it is in its record. It takes 64 bytes.
#[derive(Clone)]
pub struct Version {
    record: Arc<[u8]>,
    head: Head,
    key_at: u32,
    value_len: u32,
    /// The number of the record in its part, from 1 on.
    nth: u32,
    key_len: u16,
}

impl Version {
    /// The change at this place of the `nth` record of a part.
    pub fn new(record: Arc<[u8]>, nth: u32, table: u16, place: &Place) -> Self {
        let Place { key_at, key_len, value_len } = *place;
        let head = Head { table: table.into(), start: [0; HEAD_BYTES / 8] };
        let version = Version { record, head, key_at, value_len, nth, key_len };
        Version { head: Head::of(table.into(), version.key()), ..version }
    }

    /// Returns the number of its table.
    pub fn table(&self) -> u16 {
        self.head.table as u16 // It was made of one.
    }

    /// Returns whether it is of this table.
    pub fn is_in(&self, table: u16) -> bool {
        self.head.table == u32::from(table)
    }

    /// Returns its key.
    pub fn key(&self) -> &[u8] {
        &self.record[self.key_at as usize..self.value_at()]
    }

    /// Returns its value; `None` of a deletion.
    pub fn value(&self) -> Option<&[u8]> {
        let value_at = self.value_at();
        (self.value_len != DELETION)
            .then(|| &self.record[value_at..value_at + self.value_len as usize])
    }

    fn value_at(&self) -> usize {
        self.key_at as usize + usize::from(self.key_len)
    }

    /// Returns the number of its record in the part.
    pub fn nth(&self) -> u32 {
        self.nth
    }

    /// Returns whether it is a version of this key.
    pub fn is_of(&self, table: u16, key: &[u8]) -> bool {
        self.is_in(table) && self.key() == key
    }

    /// Returns whether both are versions of one key.
    pub fn has_key_of(&self, other: &Version) -> bool {
        self.head == other.head && self.key() == other.key()
    }

    /// Returns its position in the order of the map.
    pub fn version_key(&self) -> VersionKey<'_> {
        self.version_key_at(self.nth)
    }

    /// Returns the position of the version of its key that this record has.
    pub fn version_key_at(&self, nth: u32) -> VersionKey<'_> {
        VersionKey { head: self.head, key: self.key(), nth }
    }
}

/// A position in the order of the map: by table, then by key, and of one key the newest version first.
#[derive(Clone, Copy)]
pub struct VersionKey<'a> {
    head: Head,
    key: &'a [u8],
    nth: u32,
}

impl<'a> VersionKey<'a> {
    /// The position of the version of this record.
    pub fn new(table: u16, key: &'a [u8], nth: u32) -> Self {
        VersionKey { head: Head::of(table.into(), key), key, nth }
    }

    /// The position behind all versions of a table.
    pub fn behind_table(table: u16) -> Self {
        VersionKey { head: Head::of(u32::from(table) + 1, &[]), key: &[], nth: NEWEST }
    }

    /// Returns it in the form in which a map of versions is searched.
    pub fn borrowed(&self) -> &(dyn Positioned + '_) {
        self
    }
}

/// What has a position in the order of the map: a version, or what is searched for. The map compares its
/// keys with borrowed forms of them, and this is one that needs no copy of the key.
pub trait Positioned {
    /// Returns the head of its key.
    fn head(&self) -> &Head;
    /// Returns its key.
    fn key(&self) -> &[u8];
    /// Returns the number of its record.
    fn nth(&self) -> u32;
}

fn compare(one: &(impl Positioned + ?Sized), other: &(impl Positioned + ?Sized)) -> Ordering {
    let by_key = one.head().cmp(other.head()).then_with(|| one.key().cmp(other.key()));
    by_key.then_with(|| other.nth().cmp(&one.nth()))
}

impl Positioned for Version {
    fn head(&self) -> &Head {
        &self.head
    }
    fn key(&self) -> &[u8] {
        Version::key(self)
    }
    fn nth(&self) -> u32 {
        self.nth
    }
}

impl Positioned for VersionKey<'_> {
    fn head(&self) -> &Head {
        &self.head
    }
    fn key(&self) -> &[u8] {
        self.key
    }
    fn nth(&self) -> u32 {
        self.nth
    }
}

impl<'a> Borrow<dyn Positioned + 'a> for Version {
    fn borrow(&self) -> &(dyn Positioned + 'a) {
        self
    }
}

impl Ord for dyn Positioned + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl PartialOrd for dyn Positioned + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Positioned + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for dyn Positioned + '_ {}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        compare(self, other)
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Version {}
