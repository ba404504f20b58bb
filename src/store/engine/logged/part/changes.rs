//! Reading a range of a snapshot: of each key its newest version.

use crossbeam_epoch::Guard;

use super::version::{NEWEST, OLDEST, Version, VersionKey};
use super::versions::{Entry, Versions};
use crate::store::engine::{KeyRange, Order};

/// How many versions of one key are passed one by one before the others are passed by one search.
const MAX_STEPS: usize = 8;

/// The newest versions of the keys of a range.
pub struct Changes<'g> {
    versions: &'g Versions,
    /// The snapshot: how many records it has.
    records: u32,
    guard: &'g Guard,
    table: u16,
    range: KeyRange<'g>,
    order: Order,
    /// The next version to look at: the first of its key in the direction of the scan.
    at: Option<Entry<'g>>,
}

impl<'g> Changes<'g> {
    /// Begins to read a range of a snapshot: of the first so many records.
    pub fn begin(
        (versions, records): (&'g Versions, u32),
        table: u16,
        range: KeyRange<'g>,
        order: Order,
        guard: &'g Guard,
    ) -> Self {
        let at = match (order, range.to) {
            _ if records == 0 => None,
            (Order::Ascending, _) => {
                versions.first_from(VersionKey::new(table, range.from, NEWEST), guard)
            }
            (Order::Descending, Some(to)) => {
                versions.last_before(VersionKey::new(table, to, NEWEST), guard)
            }
            (Order::Descending, None) => {
                versions.last_before(VersionKey::behind_table(table), guard)
            }
        };
        Changes { versions, records, guard, table, range, order, at }
    }

    fn has(&self, version: &Version) -> bool {
        version.table() == self.table
            && match self.order {
                Order::Ascending => self.range.to.is_none_or(|to| version.key() < to),
                Order::Descending => version.key() >= self.range.from,
            }
    }

    fn is_visible(&self, version: &Version) -> bool {
        version.nth() <= self.records
    }

    /// Goes on from a version to the next one that is not of the same key, or of the same key is at
    /// `nth` or older.
    fn pass(&self, mut entry: Entry<'g>, nth: u32) -> Option<Entry<'g>> {
        let passed = entry.key();
        for _ in 0..MAX_STEPS {
            entry = entry.next()?;
            if !entry.key().has_key_of(passed) || entry.key().nth() <= nth {
                return Some(entry);
            }
        }
        let key = VersionKey::new(passed.table(), passed.key(), nth);
        self.versions.first_from(key, self.guard)
    }

    fn next_ascending(&mut self) -> Option<&'g Version> {
        loop {
            let entry = self.at.take().filter(|entry| self.has(entry.key()))?;
            let version = entry.key();
            if self.is_visible(version) {
                self.at = self.pass(entry, OLDEST);
                return Some(version);
            }
            self.at = self.pass(entry, self.records);
        }
    }

    fn next_descending(&mut self) -> Option<&'g Version> {
        loop {
            // Versions of one key come from the oldest on.
            let oldest = self.at.take().filter(|entry| self.has(entry.key()))?;
            let version = oldest.key();
            let newer = oldest.prev();
            if newer.as_ref().is_none_or(|newer| !newer.key().has_key_of(version)) {
                self.at = newer;
                if self.is_visible(version) {
                    return Some(version);
                }
                continue;
            }
            let key = VersionKey::new(self.table, version.key(), NEWEST);
            self.at = self.versions.last_before(key, self.guard);
            let newest = self.versions.newest(self.table, version.key(), self.records, self.guard);
            if newest.is_some() {
                return newest;
            }
        }
    }
}

impl<'g> Iterator for Changes<'g> {
    type Item = &'g Version;

    fn next(&mut self) -> Option<&'g Version> {
        match self.order {
            Order::Ascending => self.next_ascending(),
            Order::Descending => self.next_descending(),
        }
    }
}
