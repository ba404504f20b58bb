//! All records at one commit as they are stored, for backups: read out of a store, and loaded into
//! empty storage.
//!
//! Indexes are left out: they follow from the records, and [`build`](super::indexes::build) builds
//! them. So a backup is smaller, and does not depend on how an engine stores its tables.

use std::sync::Arc;

use super::catalog::TableInfo;
use super::engine::{KeyRange, LocalStorage, Order, Reader, ScanFn, WriteBatch, WriteOp};
use super::indexes::IndexState;
use super::record::{Org, Record as _};
use super::view::View;
use super::{Store, TABLES};
use crate::base::{Id, Result};

/// A step of the loading commits 8 MiB: large enough that syncing is not most of the time, and it is
/// in memory.
const MAX_STEP_BYTES: usize = 8 * 1024 * 1024;

/// A step changes at most 20,000 keys: of small rows the map around them is most of the memory.
const MAX_STEP_ROWS: usize = 20_000;

/// Returns the tables of records of a catalog and of the store itself: those that a backup holds.
pub fn record_tables(tables: &[TableInfo]) -> Vec<TableInfo> {
    let all = tables.iter().chain(TABLES).copied();
    // What is known of indexes that are not in a backup would be wrong.
    all.filter(|table| table.name != IndexState::TABLE).collect()
}

/// The records of all organizations at one commit.
pub struct Rows {
    store: Store,
    reader: Arc<dyn Reader>,
}

impl Store {
    /// Returns the records as they are now. Space that is freed meanwhile is not used again until
    /// this is dropped, so the file may grow.
    pub fn rows(&self) -> Rows {
        Rows { store: self.clone(), reader: self.engine.snapshot() }
    }
}

impl Rows {
    /// Reads records of `org` at the same commit.
    ///
    /// # Errors
    /// What `read` returns.
    pub fn read<T>(&self, org: Id<Org>, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        read(&self.store.view(&*self.reader, org))
    }

    /// Calls `each` with the keys and values of a table in the order of the keys, until it stops.
    ///
    /// # Errors
    /// What `each` returns; 503 if the database was reopened meanwhile.
    pub fn scan(&self, table: &'static str, each: &mut ScanFn<'_>) -> Result<()> {
        self.reader.scan(table, KeyRange { from: &[], to: None }, Order::Ascending, each)
    }
}

/// Loads rows into empty storage, in steps of bounded size.
pub struct RowLoader<S> {
    storage: S,
    batch: WriteBatch,
    bytes: usize,
    rows: usize,
}

impl<S: LocalStorage> RowLoader<S> {
    /// Loads into this storage.
    pub fn new(storage: S) -> Self {
        RowLoader { storage, batch: WriteBatch::default(), bytes: 0, rows: 0 }
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If a row with this key was added before, or the storage fails.
    pub fn add(&mut self, table: &'static str, key: &[u8], value: &[u8]) -> Result<()> {
        self.batch.add(table, key.to_vec(), WriteOp::Insert(value.to_vec()));
        self.bytes += key.len() + value.len();
        self.rows += 1;
        if self.bytes < MAX_STEP_BYTES && self.rows < MAX_STEP_ROWS {
            return Ok(());
        }
        self.commit()
    }

    fn commit(&mut self) -> Result<()> {
        let batch = std::mem::take(&mut self.batch);
        (self.bytes, self.rows) = (0, 0);
        self.storage.commit(&batch).alone().map(drop)
    }

    /// Commits the rest and returns the storage, whose indexes are to be built.
    pub fn finish(mut self) -> Result<S> {
        if !self.batch.is_empty() {
            self.commit()?;
        }
        Ok(self.storage)
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::base::{Keys, Time};
    use crate::store::engine::Memory;
    use crate::store::sample::{Note, note, org};
    use crate::store::{Clock, ListSource, build_indexes};

    const NOTES: &[TableInfo] = &[TableInfo::of::<Note>()];

    fn clock() -> Clock {
        Clock::at(Time::from_millis(1_800_000_000_000))
    }

    fn notes(store: &Store) -> Vec<Note> {
        store.read_now(org(1), |view| view.all(ListSource::TABLE, &())).unwrap()
    }

    #[test]
    fn rows_of_one_commit_make_a_sound_store_elsewhere() {
        let store = Store::in_memory(clock(), NOTES);
        for id in 0..50 {
            let text = format!("note {id}");
            store.write_blocking(org(1), move |tx| tx.insert(&note(id, &text, "t"))).unwrap();
        }
        let rows = store.rows();
        let expected = notes(&store);
        store.write_blocking(org(1), |tx| tx.insert(&note(99, "later", "t"))).unwrap();

        let mut loader = RowLoader::new(Memory::default());
        for table in record_tables(NOTES) {
            rows.scan(table.name, &mut |key, value| {
                loader.add(table.name, key, value)?;
                Ok(ControlFlow::Continue(()))
            })
            .unwrap();
        }
        let mut storage = loader.finish().unwrap();
        build_indexes(&mut storage, NOTES, &|_| {}).unwrap();
        let copy = Store::start(storage, clock(), Keys::new([7; 32]), NOTES).unwrap();
        assert!(notes(&copy) == expected, "what was written later is not among them");
        assert_eq!(copy.check(NOTES).unwrap().wrong, 0);
        let same = rows.read(org(1), |view| view.all::<Note>(ListSource::TABLE, &())).unwrap();
        assert!(same == expected);
    }
}
