//! Building of indexes, and refusal to read those that are incomplete.
//!
//! An index that was added to a record, or whose key function changed, has missing or wrong entries
//! for the existing records. So the store keeps a fingerprint of the definition by which the entries
//! of each index were written. [`build`] runs before the server starts and builds each index whose
//! fingerprint differs from its definition in this build of Roadstead; [`Incomplete`] refuses to read
//! an index that is not complete.
//!
//! Building works in bounded steps, each of them one commit that also stores how far the index is
//! built. A crash loses one step at most.

use std::ops::ControlFlow;
use std::sync::Arc;

use bincode::{Decode, Encode};

use super::catalog::TableInfo;
use super::codec;
use super::engine::{
    Attempt, Engine, KeyRange, LocalStorage, Order, Overlay, Reader, ScanFn, StoreMeters, Terms,
    WriteBatch, WriteOp,
};
use super::key::{Key as _, MAX_KEY_BYTES};
use super::record::{Export, IndexInfo, Record, decode, encode};
use super::stored_enum;
use crate::base::{Error, Kind, Result};

/// A step reads at most 10,000 records and writes as many entries: well below a second, so that
/// progress shows and the file does not grow by many copies of the index's pages. In tests a few
/// records are many steps.
const MAX_STEP_RECORDS: usize = if cfg!(test) { 7 } else { 10_000 };

/// A step writes at most 8 MiB of entries, which are in memory until it is committed.
const MAX_STEP_BYTES: usize = 8 * 1024 * 1024;

/// A step reads at most 64 MiB of records; one at a time is in memory.
const MAX_STEP_READ_BYTES: usize = 64 * 1024 * 1024;

/// How far the entries of an index match its definition.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Stage {
    /// Every record has its entry, and every entry its record.
    Whole,
    /// Entries of another definition are being removed.
    Clearing,
    /// Entries are being written for the records that were there before.
    Building,
}
stored_enum!(Stage { Whole = 0, Clearing = 1, Building = 2 });

/// The fingerprint of an index: the definition by which its entries were written.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct IndexState {
    /// The index's table.
    name: String,
    /// The table of its records.
    table: String,
    version: u32,
    is_unique: bool,
    stage: Stage,
    /// While building: the key of the last record whose entry is written; empty before the first.
    built_to: Vec<u8>,
}

impl Record for IndexState {
    const TABLE: &'static str = "indexes";
    const EXPORT: Export<Self> = Export::LeftOut("of this installation's indexes");
    const ORG_SCOPED: bool = false;
    type Key = String;
    fn key(&self) -> String {
        self.name.clone()
    }
}

impl IndexState {
    fn is_of(&self, index: &Defined) -> bool {
        self.table == index.table.name
            && self.version == index.info.version
            && self.is_unique == index.info.is_unique
    }
}

/// An index as this build defines it.
#[derive(Clone, Copy)]
struct Defined {
    table: TableInfo,
    /// Its position among the indexes of its table.
    place: usize,
    info: IndexInfo,
}

impl Defined {
    fn at(&self, stage: Stage) -> IndexState {
        IndexState {
            name: self.info.name.into(),
            table: self.table.name.into(),
            version: self.info.version,
            is_unique: self.info.is_unique,
            stage,
            built_to: Vec::new(),
        }
    }
}

fn defined(tables: &[TableInfo]) -> impl Iterator<Item = Defined> {
    tables.iter().flat_map(|table| {
        let indexes = table.indexes().into_iter().enumerate();
        indexes.map(|(place, info)| Defined { table: *table, place, info })
    })
}

fn state_of(reader: &dyn Reader, index: &Defined) -> Result<Option<IndexState>> {
    let key = index.info.name.to_string().to_bytes();
    let mut state = None;
    reader.get(IndexState::TABLE, &key, &mut |value| {
        state = Some(decode::<IndexState>(&key, value)?);
        Ok(())
    })?;
    Ok(state)
}

/// Returns the indexes of `tables` that are not complete.
fn incomplete(reader: &dyn Reader, tables: &[TableInfo]) -> Result<Vec<Defined>> {
    let mut found = Vec::new();
    for index in defined(tables) {
        if state_of(reader, &index)?.as_ref() != Some(&index.at(Stage::Whole)) {
            found.push(index);
        }
    }
    Ok(found)
}

/// Returns the names of the indexes of `tables` that are not complete and must not be read.
///
/// # Errors
/// If a fingerprint cannot be read.
pub(super) fn incomplete_names(
    reader: &dyn Reader,
    tables: &[TableInfo],
) -> Result<Vec<&'static str>> {
    Ok(incomplete(reader, tables)?.iter().map(|index| index.info.name).collect())
}

/// Returns whether [`build`] has nothing to do: all indexes of `tables` are complete, and there are
/// no others.
///
/// # Errors
/// If a fingerprint cannot be read.
#[cfg(feature = "postgres")]
pub fn are_built(reader: &dyn Reader, tables: &[TableInfo]) -> Result<bool> {
    Ok(incomplete(reader, tables)?.is_empty() && undefined(reader, tables)?.is_empty())
}

/// The stored indexes that no table defines any longer.
fn undefined(reader: &dyn Reader, tables: &[TableInfo]) -> Result<Vec<IndexState>> {
    let names: Vec<_> = defined(tables).map(|index| index.info.name).collect();
    let mut found = Vec::new();
    reader.scan(IndexState::TABLE, ALL, Order::Ascending, &mut |key, value| {
        let state = decode::<IndexState>(key, value)?;
        if !names.contains(&state.name.as_str()) {
            found.push(state);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

// ── Building ─────────────────────────────────────────────────────────────────

/// Brings the indexes in `storage` in line with `tables`: removes the entries of indexes that are no
/// longer defined, and builds those that were added or changed. `progress` is called after each step
/// with a line about it, and with an empty line at the end. Returns at once when nothing differs.
///
/// After an error or a crash, the next call continues where this one stopped.
///
/// # Errors
/// If two records have the same key in a unique index, naming both; if a record cannot be
/// read; if the storage fails.
pub fn build(
    storage: &mut impl LocalStorage,
    tables: &[TableInfo],
    progress: &dyn Fn(&str),
) -> Result<()> {
    let reader = storage.snapshot()?;
    let mut builder = Builder { storage, reader, progress };
    for state in undefined(&*builder.reader, tables)? {
        builder.remove(state)?;
    }
    let (mut with_rows, mut whole) = (Vec::new(), WriteBatch::default());
    for index in incomplete(&*builder.reader, tables)? {
        if builder.is_empty(index.table.name)? && builder.is_empty(index.info.name)? {
            put(&mut whole, &index.at(Stage::Whole))?;
        } else {
            with_rows.push(index);
        }
    }
    builder.commit(&whole)?;
    for index in &with_rows {
        builder.build(index).map_err(|error| not_built(index, &error))?;
        tracing::debug!(index = index.info.name, "an index was built");
    }
    if !with_rows.is_empty() {
        progress("");
    }
    Ok(())
}

fn not_built(index: &Defined, error: &Error) -> Error {
    let reason = error.log_detail().unwrap_or(error.message());
    let (name, table) = (index.info.name, index.table.name);
    Error::new(
        Kind::Internal,
        "database",
        format!("the index {name} of {table} cannot be built: {reason}"),
    )
}

fn put(writes: &mut WriteBatch, state: &IndexState) -> Result<()> {
    let key = state.name.to_bytes();
    let value = encode(state, &key)?;
    writes.add(IndexState::TABLE, key, WriteOp::Put(value));
    Ok(())
}

/// Returns the first key after `key`; the first of all if it is empty.
fn first_after(key: &[u8]) -> Vec<u8> {
    if key.is_empty() { Vec::new() } else { [key, &[0]].concat() }
}

struct Builder<'a, S> {
    storage: &'a mut S,
    /// The newest durable state.
    reader: Arc<dyn Reader>,
    progress: &'a dyn Fn(&str),
}

impl<S: LocalStorage> Builder<'_, S> {
    fn commit(&mut self, writes: &WriteBatch) -> Result<()> {
        if writes.is_empty() {
            return Ok(());
        }
        self.reader = self.storage.commit(writes).alone()?;
        Ok(())
    }

    fn is_empty(&self, table: &'static str) -> Result<bool> {
        let mut is_empty = true;
        self.reader.scan(table, ALL, Order::Ascending, &mut |_, _| {
            is_empty = false;
            Ok(ControlFlow::Break(()))
        })?;
        Ok(is_empty)
    }

    /// Removes an index that is no longer defined, its fingerprint last.
    fn remove(&mut self, state: IndexState) -> Result<()> {
        // Table names are static. This leaks a few bytes once, when the process starts.
        let name: &'static str = state.name.clone().leak();
        self.storage.add_table(name);
        self.reader = self.storage.snapshot()?;
        self.clear(name, IndexState { stage: Stage::Clearing, ..state.clone() })?;
        let mut writes = WriteBatch::default();
        writes.add(IndexState::TABLE, state.name.to_bytes(), WriteOp::Delete);
        self.commit(&writes)?;
        tracing::info!(index = name, "an index that is no longer used was removed");
        Ok(())
    }

    fn build(&mut self, index: &Defined) -> Result<()> {
        let mut state = match state_of(&*self.reader, index)? {
            Some(state) if state.is_of(index) && state.stage == Stage::Building => state,
            _ => {
                self.clear(index.info.name, index.at(Stage::Clearing))?;
                index.at(Stage::Building)
            }
        };
        let mut records = 0;
        while state.stage == Stage::Building {
            records += self.build_step(index, &mut state)?;
            (self.progress)(&format!("building the index {}: {records} records", state.name));
        }
        Ok(())
    }

    /// Removes all entries of an index. `state` is stored with every commit that removes some.
    fn clear(&mut self, name: &'static str, state: IndexState) -> Result<()> {
        loop {
            let mut writes = WriteBatch::default();
            let mut bytes = 0;
            self.reader.scan(name, ALL, Order::Ascending, &mut |key, _| {
                writes.add(name, key.to_vec(), WriteOp::Delete);
                bytes += key.len();
                let is_full = writes.len() == MAX_STEP_RECORDS || bytes >= MAX_STEP_BYTES;
                Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            })?;
            if writes.is_empty() {
                return Ok(());
            }
            put(&mut writes, &state)?;
            self.commit(&writes)?;
            (self.progress)(&format!("removing old entries of the index {name}"));
        }
    }

    /// Writes the entries of the next records and the new state; returns how many records it read.
    fn build_step(&mut self, index: &Defined, state: &mut IndexState) -> Result<usize> {
        let from = first_after(&state.built_to);
        let range = KeyRange { from: &from, to: None };
        let mut step = BuildStep::new(index, &*self.reader);
        let mut next = IndexState { stage: Stage::Whole, built_to: Vec::new(), ..state.clone() };
        let mut last = Vec::new();
        self.reader.scan(index.table.name, range, Order::Ascending, &mut |key, value| {
            if step.is_full() {
                next.stage = Stage::Building;
                return Ok(ControlFlow::Break(()));
            }
            step.add(key, value)?;
            last.clear();
            last.extend_from_slice(key);
            Ok(ControlFlow::Continue(()))
        })?;
        if next.stage == Stage::Building {
            next.built_to = last;
        }
        let BuildStep { mut writes, records, .. } = step;
        put(&mut writes, &next)?;
        self.commit(&writes)?;
        *state = next;
        Ok(records)
    }
}

const ALL: KeyRange<'static> = KeyRange { from: &[], to: None };

/// The entries of some records.
struct BuildStep<'a> {
    index: &'a Defined,
    reader: &'a dyn Reader,
    writes: WriteBatch,
    records: usize,
    read_bytes: usize,
    written_bytes: usize,
}

impl<'a> BuildStep<'a> {
    fn new(index: &'a Defined, reader: &'a dyn Reader) -> Self {
        let writes = WriteBatch::default();
        BuildStep { index, reader, writes, records: 0, read_bytes: 0, written_bytes: 0 }
    }

    fn is_full(&self) -> bool {
        self.records == MAX_STEP_RECORDS
            || self.read_bytes >= MAX_STEP_READ_BYTES
            || self.written_bytes >= MAX_STEP_BYTES
    }

    /// Adds the entries of the record that is stored as `value` under `key`.
    fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        self.records += 1;
        self.read_bytes += value.len();
        let entries = self.index.table.entries(self.index.place, key, value)?;
        entries.into_iter().try_for_each(|entry| self.add_entry(key, entry))
    }

    fn add_entry(&mut self, key: &[u8], (entry, content): (Vec<u8>, Vec<u8>)) -> Result<()> {
        if entry.len() > MAX_KEY_BYTES {
            let (key, len) = (codec::hex(key), entry.len());
            return Err(Error::internal(format!(
                "the record {key} has a key of {len} bytes in it"
            )));
        }
        let name = self.index.info.name;
        if self.index.info.is_unique {
            self.require_unique(&entry, key)?;
        }
        self.written_bytes += entry.len() + content.len();
        self.writes.add(name, entry, WriteOp::Insert(content));
        Ok(())
    }

    fn require_unique(&self, entry: &[u8], key: &[u8]) -> Result<()> {
        let mut other = None;
        let overlay = Overlay { base: self.reader, writes: &self.writes };
        overlay.get(self.index.info.name, entry, &mut |content| {
            other = Some(content.to_vec());
            Ok(())
        })?;
        let Some(other) = other else { return Ok(()) };
        // The entry holds the other record's key without its organization, which is the same.
        let org = &key[..key.len().min(self.index.table.table.org_prefix_len)];
        let (other, key) = (codec::hex(&[org, &other].concat()), codec::hex(key));
        Err(Error::internal(format!(
            "it is unique, and the records {other} and {key} have the same key in it; change one \
             of them with the previous release"
        )))
    }
}

// ── Reading before that ────────────────────────────────────────────────────────

/// An engine over a store in which some indexes are incomplete. It reads everything else and refuses
/// all writes, which would have to maintain those indexes. So a store can be checked unchanged.
pub(super) struct Incomplete {
    /// The engine itself.
    pub engine: Arc<dyn Engine>,
    /// The tables of those indexes.
    pub indexes: Arc<[&'static str]>,
}

impl Engine for Incomplete {
    fn snapshot(&self) -> Arc<dyn Reader> {
        let (reader, indexes) = (self.engine.snapshot(), self.indexes.clone());
        Arc::new(IncompleteReader { reader, indexes })
    }

    fn is_remote(&self) -> bool {
        self.engine.is_remote()
    }
    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }
    fn unavailable(&self) -> Option<Error> {
        self.engine.unavailable()
    }

    fn submit(&self, _: Box<dyn Attempt>, _: Terms) -> Result<()> {
        Err(Error::internal(format!("{} must be built first", self.indexes.join(", "))))
    }

    fn close(&self) {
        self.engine.close();
    }

    fn meters(&self) -> Arc<StoreMeters> {
        self.engine.meters()
    }
}

struct IncompleteReader {
    reader: Arc<dyn Reader>,
    indexes: Arc<[&'static str]>,
}

impl IncompleteReader {
    fn require_complete(&self, table: &'static str) -> Result<()> {
        if self.indexes.contains(&table) {
            return Err(Error::internal(format!("the index {table} must be built first")));
        }
        Ok(())
    }
}

impl Reader for IncompleteReader {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        self.require_complete(table)?;
        self.reader.get(table, key, see)
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        self.require_complete(table)?;
        self.reader.scan(table, range, order, each)
    }

    fn will_find(&self, entry: (&'static str, &[u8]), record: (&'static str, &[u8])) -> Result<()> {
        self.require_complete(entry.0)?;
        self.reader.will_find(entry, record)
    }

    fn will_get(&self, table: &'static str, keys: &[Vec<u8>]) -> Result<()> {
        self.require_complete(table)?;
        self.reader.will_get(table, keys)
    }

    fn access_version(&self) -> Option<u64> {
        self.reader.access_version()
    }
}

#[cfg(test)]
mod tests;
