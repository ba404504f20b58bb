//! Typed records over ordered tables of bytes.
//!
//! A [`View`] reads at a snapshot; a [`Tx`] collects changes on top of one. Both see the records of
//! one organization. An [`engine`] stores the rows, the [`codec`] defines the bytes of a record,
//! and the catalog of [`TableInfo`]s lists the tables.

mod admission;
mod blocking;
mod catalog;
pub mod check;
mod clock;
pub mod codec;
mod damage;
pub mod engine;
mod erasure;
mod export;
mod heavy_threads;
mod hints;
mod id_watermark;
mod indexes;
mod key;
mod list_source;
mod mirror;
mod page;
mod paging;
mod record;
mod recording;
mod reference;
#[cfg(test)]
mod rehearsal;
mod removal;
pub mod repair;
mod repair_steps;
mod reseal;
mod rotation;
mod rows;
#[cfg(test)]
mod sample;
mod sealed_field;
mod sealing_key;
mod signals;
mod stored_enum;
mod tx;
mod turns;
mod view;
mod walk;
mod writing;

use std::collections::HashSet;
use std::sync::Arc;

pub use admission::{Admission, AdmissionFigures, AdmissionLimits, Permit};
pub use catalog::TableInfo;
pub use clock::Clock;
pub use damage::{Damage, KnownDamage};
pub use engine::{Lane, Order};
pub use erasure::{ERASURES_KEPT_SECS, Erasure, ErasureLedger};
pub use export::{EachRow, TableExport, TableRows};
pub use heavy_threads::{HeavyThreads, lower_priority};
pub use hints::{LARGE_BYTES, WorkHints};
#[cfg(feature = "postgres")]
pub use indexes::are_built as are_indexes_built;
pub use indexes::build as build_indexes;
pub use key::Key;
pub use list_source::ListSource;
pub use mirror::Mirror;
pub use page::{Page, PageRequest};
pub use record::{
    AnyIndex, Export, ExportForm, Index, IndexInfo, Org, Record, decode, encode, no_upgrade,
    org_topic, upgrade_shorter,
};
pub use reference::{Action, AnyReference, Reference, References};
pub use removal::{MAX_DEFERRED_BYTES, MAX_DEFERRED_CHANGES, PendingRemoval};
pub use rotation::{Rotation, RotationProgress};
pub use rows::{RowLoader, Rows, record_tables};
pub use sealed_field::{SealedField, SealedInfo};
pub use sealing_key::SealingKey;
pub use signals::{ACCESS_CHANGED, Listener, Signal, SignalPosition, Signals, Topic};
pub(crate) use stored_enum::stored_enum;
pub use turns::ReadPoint;
pub use tx::{MAX_WRITES, Tx};
pub use view::View;
pub use walk::{Count, Total, Walk};

use tokio::sync::Semaphore;

use crate::base::{Id, Keys, Result, Time};
use blocking::blocking;
use engine::{Engine, GroupCommit, LocalStorage, Reader, StoreMeters};
use id_watermark::IdWatermark;

/// States of a remote engine that are held at once. Each holds one of its 16 connections for snapshots for
/// as long as a page is made; reads that hold none have the others.
const MAX_REMOTE_READ_POINTS: usize = 10;

/// How old the ids of a transaction of another server can be when its commit is seen, in milliseconds: an
/// attempt runs for at most 25 seconds, its writes and its commit are answered within 8 each, and clocks may
/// differ by some seconds. A commit that hangs, since its standby is away or the disk of its server stands still,
/// can be seen later.
const MAX_REMOTE_COMMIT_MILLIS: i64 = 60_000;

/// The store: an engine with the clock, keys and references that transactions need.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    context: Arc<StoreContext>,
    signals: Arc<Signals>,
    unbuilt: Arc<[&'static str]>,
    heavy: Arc<Admission<Lane>>,
    /// Those who may hold a state of a remote engine.
    read_points: Option<Arc<Semaphore>>,
    heavy_threads: Arc<HeavyThreads>,
}

struct StoreContext {
    clock: Clock,
    keys: Keys,
    references: References,
    ledger: erasure::Ledger,
    damage: Damage,
}

impl Store {
    /// Starts a store on local `storage` with these tables. Only references among them are
    /// enforced.
    ///
    /// Call [`build_indexes`] first. If an index is incomplete ([`Store::unbuilt`]), reading it
    /// fails, as do all writes.
    ///
    /// # Errors
    /// If the storage cannot be read or the writer thread cannot be started.
    pub fn start(
        mut storage: impl LocalStorage,
        clock: Clock,
        keys: Keys,
        tables: &[TableInfo],
    ) -> Result<Self> {
        let unbuilt = indexes::incomplete_names(&*storage.snapshot()?, tables)?;
        let signals = Arc::new(Signals::default());
        let engine = Arc::new(GroupCommit::start(storage, signals.clone())?);
        Self::over(engine, signals, (clock, keys, tables), unbuilt)
    }

    /// Starts a store over an engine with these tables, as [`Store::start`] does over storage.
    /// `signals` are those that the engine notifies.
    pub fn start_over(
        engine: Arc<dyn Engine>,
        signals: Arc<Signals>,
        clock: Clock,
        keys: Keys,
        tables: &[TableInfo],
    ) -> Result<Self> {
        let unbuilt = indexes::incomplete_names(&*engine.snapshot(), tables)?;
        Self::over(engine, signals, (clock, keys, tables), unbuilt)
    }

    fn over(
        mut engine: Arc<dyn Engine>,
        signals: Arc<Signals>,
        (clock, keys, tables): (Clock, Keys, &[TableInfo]),
        unbuilt: Vec<&'static str>,
    ) -> Result<Self> {
        let unbuilt: Arc<[_]> = unbuilt.into();
        if !unbuilt.is_empty() {
            engine = Arc::new(indexes::Incomplete { engine, indexes: unbuilt.clone() });
        }
        let references = catalog::references(tables);
        let is_remote = engine.is_remote();
        let store = Store {
            engine,
            context: Arc::new(StoreContext {
                clock,
                keys,
                references,
                ledger: erasure::Ledger::default(),
                damage: Damage::default(),
            }),
            signals,
            unbuilt,
            heavy: Arc::new(admission::heavy(is_remote)),
            read_points: is_remote.then(|| Arc::new(Semaphore::new(MAX_REMOTE_READ_POINTS))),
            heavy_threads: Arc::default(),
        };
        if let Some(watermark) = store.read_now(Id::NIL, |view| view.get::<IdWatermark>(&()))? {
            store.clock().resume_after(watermark.newest_millis);
        }
        store.read_now(Id::NIL, sealing_key::restore_hash_key)?;
        Ok(store)
    }

    /// Returns a store in memory that runs about half of all attempts once more than needed.
    #[cfg(test)]
    pub fn in_memory(clock: Clock, tables: &[TableInfo]) -> Self {
        let (mut storage, seed) = (engine::Memory::default(), clock.now().millis() as u64);
        build_indexes(&mut storage, tables, &|_| {}).expect("memory does not fail");
        let store = Self::start(storage, clock, Keys::new([7; 32]), tables);
        let store = store.expect("memory does not fail");
        store.through(Arc::new(rehearsal::Rehearsing::new(store.engine.clone(), seed)))
    }

    /// Returns the same store, which runs all attempts once more than needed.
    #[cfg(test)]
    pub fn rehearsing_all(&self) -> Self {
        self.through(Arc::new(rehearsal::Rehearsing::all(self.engine.clone())))
    }

    /// Returns the source of time, ids and randomness.
    pub fn clock(&self) -> &Clock {
        &self.context.clock
    }

    /// Returns an id before which no later commit adds a new one. A snapshot that is taken after this has all
    /// smaller ones there will be: who follows a list in the order of ids goes no further.
    pub fn settled_id<T: ?Sized>(&self) -> Id<T> {
        Id::new(if self.engine.is_shared() {
            self.clock().settled_id_among_others(MAX_REMOTE_COMMIT_MILLIS)
        } else {
            self.clock().settled_id()
        })
    }

    /// Whether the store is elsewhere: each read takes some round trips.
    pub fn is_remote(&self) -> bool {
        self.engine.is_remote()
    }

    /// Returns the installation's keys.
    pub fn keys(&self) -> &Keys {
        &self.context.keys
    }

    /// Returns the notifications of commits.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Returns the same store with its transactions run by another engine over the same rows.
    pub fn through(&self, engine: Arc<dyn Engine>) -> Self {
        Store { engine, ..self.clone() }
    }

    /// Returns what the engine counts for the metrics.
    pub fn meters(&self) -> Arc<StoreMeters> {
        self.engine.meters()
    }

    /// Closes the storage, when all writes that wait are completed. The server does it when it
    /// stops: threads that hold a store may live as long as the process.
    pub fn close(&self) {
        self.engine.close();
    }

    /// Reads at the newest durable state, with the records of `org` visible ([`Id::NIL`]: of no
    /// organization). Returns without waiting if the engine is in this process, and is not being
    /// reopened; then `read` runs again.
    ///
    /// # Errors
    /// What `read` returns; 503 if no snapshot is available.
    pub async fn read<T>(
        &self,
        org: Id<Org>,
        mut read: impl FnMut(&View) -> Result<T>,
    ) -> Result<T> {
        let blocks = self.engine.is_remote();
        self.read_at(None, blocks, |reader| read(&self.view(reader, org))).await
    }

    /// Does the same as [`Store::read`] from a thread that may block.
    pub fn read_now<T>(&self, org: Id<Org>, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        let read = || {
            let reader = self.engine.snapshot();
            read(&self.view(&*reader, org))
        };
        if self.engine.is_remote() { blocking(read) } else { read() }
    }

    fn view<'a>(&'a self, reader: &'a dyn Reader, org: Id<Org>) -> View<'a> {
        let StoreContext { clock, keys, references, damage, .. } = &*self.context;
        let (now, walk) = (clock.now(), Walk::default());
        View { reader, writes: None, org, now, keys, references, damage, walk }
    }

    /// Returns the time of the newest id that is known to be stored: no clock should be behind it.
    pub fn newest_id_at(&self) -> Result<Option<Time>> {
        let watermark = self.read_now(Id::NIL, |view| view.get::<IdWatermark>(&()))?;
        Ok(watermark.map(|watermark| Time::from_millis(watermark.newest_millis)))
    }

    /// Returns the damage that reads of this store have found since it was opened, if any. It is no
    /// check: what was not read is not known.
    pub fn known_damage(&self) -> Option<KnownDamage> {
        self.context.damage.known()
    }

    /// Returns the names of the indexes that must be built before they can be read.
    pub fn unbuilt(&self) -> &[&'static str] {
        &self.unbuilt
    }

    /// Reads everything in these tables and reports what is wrong. Indexes that are not built are
    /// skipped.
    pub fn check(&self, tables: &[TableInfo]) -> Result<check::Findings> {
        let reader = self.engine.snapshot();
        let mut findings = check::Findings::default();
        findings.unbuilt.extend_from_slice(&self.unbuilt);
        for table in tables {
            check::table(&table.table, &*reader, &self.context.references, &mut findings)?;
            reseal::check_sealed(table, &*reader, &self.context.keys, &mut findings)?;
        }
        Ok(findings)
    }
}

/// The tables of the store itself.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<Erasure>(),
    TableInfo::of::<IdWatermark>(),
    TableInfo::of::<indexes::IndexState>(),
    TableInfo::of::<PendingRemoval>(),
    TableInfo::of::<SealingKey>(),
];

/// Returns the names of all tables and indexes of a catalog and of the store itself.
///
/// # Panics
/// If two have the same name: their rows would be mixed up.
pub fn table_names(tables: &[TableInfo]) -> Vec<&'static str> {
    let names: Vec<_> = tables
        .iter()
        .chain(TABLES)
        .flat_map(|table| {
            let indexes = table.indexes().into_iter().map(|index| index.name);
            std::iter::once(table.name).chain(indexes)
        })
        .collect();
    let mut seen = HashSet::new();
    for name in &names {
        assert!(seen.insert(name), "two tables are named {name}");
    }
    names
}
