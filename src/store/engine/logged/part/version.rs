//! A version of a key: one change, and where it is in the order of the map.

use std::borrow::Borrow;
use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use super::super::record::{DELETION, Place};

/// The number of no record: in the order of the map it is before every version of a key.
pub const NEWEST: u32 = u32::MAX;
/// The number of no record: in the order of the map it is behind every version of a key.
pub const OLDEST: u32 = 0;

/// A change: where it is in its record. It takes 32 bytes.
#[derive(Clone)]
pub struct Version {
    record: Arc<[u8]>,
    key_at: u32,
    value_len: u32,
    /// The number of the record in its part, from 1 on.
    nth: u32,
    key_len: u16,
    table: u16,
}

impl Version {
    /// The change at this place of the `nth` record of a part.
    pub fn new(record: Arc<[u8]>, nth: u32, table: u16, place: &Place) -> Self {
        let Place { key_at, key_len, value_len } = *place;
        Version { record, key_at, value_len, nth, key_len, table }
    }

    /// Returns the number of its table.
    pub fn table(&self) -> u16 {
        self.table
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
        self.table == table && self.key() == key
    }

    /// Returns whether both are versions of one key.
    pub fn has_key_of(&self, other: &Version) -> bool {
        self.is_of(other.table, other.key())
    }

    /// Returns its position in the order of the map.
    pub fn version_key(&self) -> VersionKey<'_> {
        VersionKey::new(self.table, self.key(), self.nth)
    }
}

/// A position in the order of the map: by table, then by key, and of one key the newest version first.
/// The order of the fields is that order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct VersionKey<'a> {
    table: u32,
    key: &'a [u8],
    nth: Reverse<u32>,
}

impl<'a> VersionKey<'a> {
    /// The position of the version of this record.
    pub fn new(table: u16, key: &'a [u8], nth: u32) -> Self {
        VersionKey { table: table.into(), key, nth: Reverse(nth) }
    }

    /// The position behind all versions of a table.
    pub fn behind_table(table: u16) -> Self {
        VersionKey { table: u32::from(table) + 1, key: &[], nth: Reverse(NEWEST) }
    }

    /// Returns it in the form in which a map of versions is searched.
    pub fn borrowed(&self) -> &(dyn Positioned + '_) {
        self
    }
}

/// What has a position in the order of the map: a version, or what is searched for. The map compares its
/// keys with borrowed forms of them, and this is one that needs no copy of the key.
pub trait Positioned {
    /// Returns the position.
    fn position(&self) -> VersionKey<'_>;
}

impl Positioned for Version {
    fn position(&self) -> VersionKey<'_> {
        self.version_key()
    }
}

impl Positioned for VersionKey<'_> {
    fn position(&self) -> VersionKey<'_> {
        *self
    }
}

impl<'a> Borrow<dyn Positioned + 'a> for Version {
    fn borrow(&self) -> &(dyn Positioned + 'a) {
        self
    }
}

impl Ord for dyn Positioned + '_ {
    fn cmp(&self, other: &Self) -> Ordering {
        self.position().cmp(&other.position())
    }
}

impl PartialOrd for dyn Positioned + '_ {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for dyn Positioned + '_ {
    fn eq(&self, other: &Self) -> bool {
        self.position() == other.position()
    }
}

impl Eq for dyn Positioned + '_ {}

impl Ord for Version {
    fn cmp(&self, other: &Self) -> Ordering {
        self.version_key().cmp(&other.version_key())
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Version {
    fn eq(&self, other: &Self) -> bool {
        self.version_key() == other.version_key()
    }
}

impl Eq for Version {}
