//! The map of a part: the versions of all its snapshots.

use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};

use crossbeam_epoch::{self as epoch, Guard};
use crossbeam_skiplist::SkipList;

use super::version::{Version, VersionKey};

/// A map with more versions than this is freed by a thread of its own: that takes some 0.1 µs each.
pub const MAX_FREED_AT_ONCE: usize = 1000;

/// An entry of the map.
pub type Entry<'g> = crossbeam_skiplist::base::Entry<'g, 'g, Version, ()>;

/// The versions of all snapshots of a part.
pub struct Versions {
    map: SkipList<Version, ()>,
    /// How many records were added, or begun to be.
    records: AtomicU32,
}

impl Default for Versions {
    fn default() -> Self {
        Versions { map: empty_map(), records: AtomicU32::new(0) }
    }
}

fn empty_map() -> SkipList<Version, ()> {
    SkipList::new(epoch::default_collector().clone())
}

impl Drop for Versions {
    /// The last reader frees the map, or the writer thread does: neither is to wait for it.
    fn drop(&mut self) {
        if self.map.len() > MAX_FREED_AT_ONCE {
            let map = std::mem::replace(&mut self.map, empty_map());
            // Without a thread it is freed here.
            let _ = std::thread::Builder::new().name("free".into()).spawn(move || drop(map));
        }
    }
}

impl Versions {
    /// Begins to add the record of this number; returns whether it is the next one.
    pub fn begin(&self, nth: u32) -> bool {
        let (order, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.records.compare_exchange(nth - 1, nth, order, failure).is_ok()
    }

    /// Returns the first version.
    pub fn first<'g>(&'g self, guard: &'g Guard) -> Option<Entry<'g>> {
        self.map.front(guard)
    }

    /// Returns the newest version of a key in the snapshot of so many records.
    pub fn newest<'g>(
        &'g self,
        table: u16,
        key: &[u8],
        records: u32,
        guard: &'g Guard,
    ) -> Option<&'g Version> {
        let version = self.first_from(VersionKey::new(table, key, records), guard)?.key();
        version.is_of(table, key).then_some(version)
    }

    /// Returns the first version that is not before this key.
    pub fn first_from<'g>(&'g self, key: VersionKey<'_>, guard: &'g Guard) -> Option<Entry<'g>> {
        self.map.lower_bound(Bound::Included(key.borrowed()), guard)
    }

    /// Returns the first version behind this key.
    pub fn first_after<'g>(&'g self, key: VersionKey<'_>, guard: &'g Guard) -> Option<Entry<'g>> {
        self.map.lower_bound(Bound::Excluded(key.borrowed()), guard)
    }

    /// Returns the last version before this key.
    pub fn last_before<'g>(&'g self, key: VersionKey<'_>, guard: &'g Guard) -> Option<Entry<'g>> {
        self.map.upper_bound(Bound::Excluded(key.borrowed()), guard)
    }

    /// Adds a version. It is in order between its neighbors, and the only one of its position.
    pub fn add(&self, version: Version, guard: &Guard) {
        let entry = self.map.insert(version, (), guard);
        #[cfg(debug_assertions)]
        {
            let key = entry.key().clone();
            let at = self.first_from(key.version_key(), guard).expect("it was added");
            let is_before = |later: Entry<'_>| at.key() < later.key();
            let is_after = |earlier: Entry<'_>| earlier.key() < at.key();
            assert!(*at.key() == key, "an added version is found");
            assert!(at.next().is_none_or(is_before) && at.prev().is_none_or(is_after), "in order");
        }
        entry.release(guard);
    }
}
