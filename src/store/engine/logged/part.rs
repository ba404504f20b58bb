//! A part of the log in memory: its records, and an ordered map of the changes in them.
//!
//! The map is a skip list with every version of every key, ordered by table, key and number of the
//! record, of one key the newest first. Nothing is ever removed from it. So a snapshot of a part is how
//! many of its records it has: readers pass the versions of later records, and a commit copies nothing.
//! One writer adds while any number of readers search.
//!
//! What readers pass is bounded: a checkpoint is due once a part has many deletions, and many versions
//! of one key are passed by one search.

mod changes;
mod version;
mod versions;

use std::sync::Arc;

use crossbeam_epoch::{self as epoch, Guard};

use super::record;
use crate::base::{Error, Result};
use crate::store::engine::{KeyRange, Order, WriteBatch};
use changes::Changes;
use version::{NEWEST, Version};
use versions::Versions;

pub use version::Version as PartVersion;

/// Memory of a version in the map, in bytes: itself, a reference count, and two links on average.
const VERSION_BYTES: usize = 64;

/// A snapshot of a part of the log. A clone is the same snapshot, and costs nothing.
#[derive(Clone, Default)]
pub struct Part {
    versions: Arc<Versions>,
    /// It has the records up to this number; the first has number 1.
    records: u32,
    bytes: usize,
    changes: usize,
    deletions: usize,
}

impl Part {
    /// Returns whether it has no records.
    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    /// Returns the bytes of its records.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns the bytes of its records and of the map, about: what it takes in memory.
    pub fn memory(&self) -> usize {
        self.bytes + self.changes * VERSION_BYTES
    }

    /// Returns what the changes of a batch take in memory, about.
    pub fn memory_of(writes: &WriteBatch) -> usize {
        writes.bytes() + writes.len() * VERSION_BYTES
    }

    /// Returns how many changes its records have: as many versions are in the map.
    pub fn changes(&self) -> usize {
        self.changes
    }

    /// Returns how many of its changes are deletions.
    pub fn deletions(&self) -> usize {
        self.deletions
    }

    /// Makes a part of these records, in their order. `number` returns the number of a table.
    ///
    /// # Errors
    /// As [`Part::add`].
    pub fn of(records: Vec<Arc<[u8]>>, mut number: impl FnMut(&str) -> u16) -> Result<Self> {
        let mut part = Part::default();
        for record in records {
            part.add(&record, &mut number)?;
        }
        Ok(part)
    }

    /// Adds a record. Only the newest snapshot of a part can be added to; the others stay as they are.
    /// `number` returns the number of a table.
    ///
    /// # Errors
    /// If the record cannot be read, although it is valid; if this is not the newest snapshot. The part
    /// must then be made again from the log.
    pub fn add(&mut self, record: &Arc<[u8]>, mut number: impl FnMut(&str) -> u16) -> Result<()> {
        let nth = self.records.checked_add(1).filter(|nth| *nth < NEWEST);
        let nth = nth.ok_or_else(|| Error::internal("a part of the log has too many records"))?;
        // A record that was added in part, before a panic, must not be mixed with another one.
        if !self.versions.begin(nth) {
            return Err(Error::internal("a part of the log was added to twice"));
        }

        let guard = &epoch::pin();
        let (mut changes, mut deletions) = (0, 0);
        let mut last: Option<(&str, u16)> = None;
        let read = record::changes(record, |name, place| {
            let table = match last {
                Some((last, table)) if last == name => table,
                _ => last.insert((name, number(name))).1,
            };
            let version = Version::new(record.clone(), nth, table, &place);
            changes += 1;
            deletions += usize::from(version.value().is_none());
            self.versions.add(version, guard);
        });
        read.ok_or_else(|| Error::internal("a record of the log has an unknown format"))?;
        self.records = nth;
        self.bytes += record.len();
        self.changes += changes;
        self.deletions += deletions;
        Ok(())
    }

    /// Calls `see` with the newest change of a key: its value, or `None` if it was deleted. Returns what
    /// that returns; `None` if the part has no change of the key.
    pub fn get<T>(
        &self,
        table: u16,
        key: &[u8],
        see: impl FnOnce(Option<&[u8]>) -> T,
    ) -> Option<T> {
        if self.is_empty() {
            return None;
        }
        let guard = &epoch::pin();
        let newest = self.versions.newest(table, key, self.records, guard)?;
        Some(see(newest.value()))
    }

    /// Puts the map of another part in the place of its own: a map that is wrong.
    #[cfg(test)]
    pub fn replace_map(&mut self, other: &Part) {
        self.versions = other.versions.clone();
    }

    /// Returns the newest change of each key in a range of a table, in order: the key and its value,
    /// `None` after a deletion.
    pub fn range<'g>(
        &'g self,
        table: u16,
        range: KeyRange<'g>,
        order: Order,
        guard: &'g Guard,
    ) -> impl Iterator<Item = (&'g [u8], Option<&'g [u8]>)> {
        let changes = Changes::begin((&self.versions, self.records), table, range, order, guard);
        changes.map(|version| (version.key(), version.value()))
    }

    /// Returns all versions behind this one, of all snapshots, by table, key and age, the newest
    /// first; all without one.
    pub fn versions_after<'g>(
        &'g self,
        last: Option<&Version>,
        guard: &'g Guard,
    ) -> impl Iterator<Item = &'g Version> + use<'g> {
        let mut at = match last {
            Some(last) => self.versions.first_after(last.version_key(), guard),
            None => self.versions.first(guard),
        };
        std::iter::from_fn(move || {
            let entry = at.take()?;
            at = entry.next();
            Some(entry.key())
        })
    }
}

#[cfg(test)]
mod tests;
