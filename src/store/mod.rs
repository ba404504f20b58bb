//! Typed records over ordered tables of bytes.
//!
//! A [`View`] reads at a snapshot; a [`Tx`] collects changes on top of one. Both see the records of
//! one organization. An [`engine`] stores the rows, the [`codec`] defines the bytes of a record, and
//! the catalog of [`TableInfo`]s lists the tables.

mod catalog;
pub mod check;
mod clock;
pub mod codec;
pub mod engine;
mod fair_semaphore;
mod id_watermark;
mod indexes;
mod key;
mod page;
mod record;
mod reference;
mod removal;
mod reseal;
mod rotation;
#[cfg(test)]
mod sample;
mod sealed_field;
mod sealing_key;
mod signals;
mod stored_enum;
mod tx;
mod view;

use std::collections::HashSet;
use std::sync::Arc;

use tokio::sync::oneshot;

pub use catalog::TableInfo;
pub use clock::Clock;
pub use engine::Order;
pub use indexes::build as build_indexes;
pub use key::Key;
pub use page::{Page, PageRequest};
pub use record::{AnyIndex, Index, IndexInfo, Org, Record, decode, encode, no_upgrade};
pub use reference::{Action, AnyReference, Reference, References};
pub use removal::{MAX_DEFERRED_BYTES, MAX_DEFERRED_CHANGES, PendingRemoval};
pub use reseal::SealedInfo;
pub use rotation::{Rotation, RotationProgress};
pub use sealed_field::SealedField;
pub use sealing_key::SealingKey;
pub use signals::{ACCESS_CHANGED, Listener, Signals, Topic};
pub(crate) use stored_enum::stored_enum;
pub use tx::{MAX_WRITES, Tx};
pub use view::{ListSource, View};

use crate::base::{Error, Id, Keys, Result};
use engine::{
    Attempt, Budget, Engine, GivenBack, GroupCommit, Lane, LocalStorage, Reader, Terms, WriteBatch,
};
use fair_semaphore::FairSemaphore;
use id_watermark::IdWatermark;

/// The store: an engine with the clock, keys and references that transactions need.
#[derive(Clone)]
pub struct Store {
    engine: Arc<dyn Engine>,
    context: Arc<Context>,
    signals: Arc<Signals>,
    unbuilt: Arc<[&'static str]>,
    heavy: Arc<FairSemaphore>,
}

struct Context {
    clock: Clock,
    keys: Keys,
    references: References,
}

impl Store {
    /// Starts a store on local `storage` with these tables. Only references among them are enforced.
    ///
    /// Call [`build_indexes`] first. If an index is incomplete ([`Store::unbuilt`]), reading it fails,
    /// as do all writes.
    ///
    /// # Errors
    /// If the storage cannot be read or the writer thread cannot be started.
    pub fn start(
        mut storage: impl LocalStorage,
        clock: Clock,
        keys: Keys,
        tables: &[TableInfo],
    ) -> Result<Self> {
        let unbuilt: Arc<[_]> = indexes::incomplete_names(&*storage.snapshot()?, tables)?.into();
        let signals = Arc::new(Signals::default());
        let mut engine: Arc<dyn Engine> = Arc::new(GroupCommit::start(storage, signals.clone())?);
        if !unbuilt.is_empty() {
            engine = Arc::new(indexes::Incomplete { engine, indexes: unbuilt.clone() });
        }
        let references = catalog::references(tables);
        let store = Store {
            engine,
            context: Arc::new(Context { clock, keys, references }),
            signals,
            unbuilt,
            heavy: Arc::new(FairSemaphore::new(max_heavy())),
        };
        if let Some(watermark) = store.read_now(Id::NIL, |view| view.get::<IdWatermark>(&()))? {
            store.clock().resume_after(watermark.newest_millis);
        }
        store.read_now(Id::NIL, sealing_key::restore_hash_key)?;
        Ok(store)
    }

    /// Returns a store in memory that runs about half of all attempts twice, for tests.
    pub fn in_memory(clock: Clock, tables: &[TableInfo]) -> Self {
        let mut storage = engine::Memory::running_twice(clock.now().millis() as u64);
        build_indexes(&mut storage, tables, &|_| {}).expect("memory does not fail");
        Self::start(storage, clock, Keys::new([7; 32]), tables).expect("memory does not fail")
    }

    /// Returns the source of time, ids and randomness.
    pub fn clock(&self) -> &Clock {
        &self.context.clock
    }

    /// Returns the installation's keys.
    pub fn keys(&self) -> &Keys {
        &self.context.keys
    }

    /// Returns the notifications of commits.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Reads at the newest durable state, with the records of `org` visible ([`Id::NIL`]: of no
    /// organization). Returns without waiting if the engine is in this process.
    ///
    /// # Errors
    /// What `read` returns; 503 if no snapshot is available.
    pub async fn read<T>(&self, org: Id<Org>, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        let reader = self.engine.begin_snapshot().wait().await?;
        read(&self.view(&*reader, org))
    }

    /// Does the same as [`Store::read`] from a thread that may block.
    pub fn read_now<T>(&self, org: Id<Org>, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        let reader = self.engine.snapshot();
        read(&self.view(&*reader, org))
    }

    fn view<'a>(&'a self, reader: &'a dyn Reader, org: Id<Org>) -> View<'a> {
        let Context { clock, keys, references } = &*self.context;
        View { reader, writes: None, org, now: clock.now(), keys, references }
    }

    /// Runs `write` in a transaction of `org` and waits until its changes are durable. `write` may
    /// run several times.
    ///
    /// It runs on this task while it stays within [`Budget::LIGHT`], otherwise on a blocking thread.
    /// Few of these run at a time, and organizations take turns.
    ///
    /// # Errors
    /// What `write` returns; nothing is stored then. 413 if it reads or writes too much at once; 503
    /// if too many writes wait, or if it is unknown whether the changes were stored.
    pub async fn write<T, F>(&self, org: Id<Org>, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        let mut pending = self.pending(org, write);
        let mut terms = Terms { budget: Budget::LIGHT, rerun_on_conflict: false };
        let mut conflicts = 0;
        loop {
            let (reply, answer) = oneshot::channel();
            let attempt = Box::new(WriteAttempt { pending, reply });
            if terms.budget == Budget::LIGHT {
                self.engine.submit(attempt, terms)?;
            } else {
                let permit = self.heavy.acquire(attempt.lane()).await?;
                let engine = self.engine.clone();
                let submitted = tokio::task::spawn_blocking(move || {
                    let _permit = permit;
                    engine.submit(attempt, terms)
                });
                submitted
                    .await
                    .map_err(|e| Error::internal(format!("an attempt panicked: {e}")))??;
            }
            match answer.await {
                Ok(Reply::Completed(end)) => return end,
                Ok(Reply::GivenBack(given_back, why)) => {
                    pending = given_back;
                    terms.budget = Budget::FULL;
                    conflicts += usize::from(why == GivenBack::Conflict);
                    terms.rerun_on_conflict = conflicts == MAX_CONFLICTS;
                }
                Err(_) => return Err(Error::internal("the writer thread ended")),
            }
        }
    }

    /// Does the same as [`Store::write`] from a thread that may block.
    pub fn write_blocking<T, F>(&self, org: Id<Org>, write: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Tx) -> Result<T> + Send + 'static,
    {
        let (reply, answer) = oneshot::channel();
        let attempt = WriteAttempt { pending: self.pending(org, write), reply };
        let terms = Terms { budget: Budget::FULL, rerun_on_conflict: true };
        self.engine.submit(Box::new(attempt), terms)?;
        match answer.blocking_recv() {
            Ok(Reply::Completed(end)) => end,
            Ok(Reply::GivenBack(..)) => {
                Err(Error::internal("an attempt was given back on its last terms"))
            }
            Err(_) => Err(Error::internal("the writer thread ended")),
        }
    }

    fn pending<T, F>(&self, org: Id<Org>, write: F) -> PendingWrite<T, F> {
        let lane = *org.bytes();
        PendingWrite { context: self.context.clone(), org, lane, write, out: None, watermark: None }
    }

    /// Returns the names of the indexes that must be built before they can be read.
    pub fn unbuilt(&self) -> &[&'static str] {
        &self.unbuilt
    }

    /// Reads everything in these tables and reports what is wrong. Indexes that are not built are
    /// skipped.
    ///
    /// # Errors
    /// If the engine cannot be read.
    pub fn check(&self, tables: &[TableInfo]) -> Result<check::Findings> {
        let reader = self.engine.snapshot();
        let mut findings = check::Findings::default();
        findings.unbuilt.extend_from_slice(&self.unbuilt);
        for table in tables {
            (table.check)(&*reader, &self.context.references, &mut findings)?;
            (table.check_sealed)(&*reader, &self.context.keys, &mut findings)?;
        }
        Ok(findings)
    }
}

/// How many attempts over the light budget run at a time: one on every processor but one, which is
/// left to light requests.
fn max_heavy() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1)
}

/// The tables of the store itself.
pub const TABLES: &[TableInfo] = &[
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
            let indexes = (table.indexes)().into_iter().map(|index| index.name);
            std::iter::once(table.name).chain(indexes)
        })
        .collect();
    let mut seen = HashSet::new();
    for name in &names {
        assert!(seen.insert(name), "two tables are named {name}");
    }
    names
}

/// After 3 conflicts an attempt runs on the writer thread, where no other commit can intervene.
const MAX_CONFLICTS: usize = 3;

/// An operation with the outcome of its last run.
struct PendingWrite<T, F> {
    context: Arc<Context>,
    org: Id<Org>,
    /// The organization of its last run; `write` may set another than `org`.
    lane: Lane,
    write: F,
    out: Option<T>,
    /// The id watermark that it wrote, in milliseconds.
    watermark: Option<i64>,
}

/// An operation queued for the writer thread, with the channel for its reply.
struct WriteAttempt<T, F> {
    pending: PendingWrite<T, F>,
    reply: oneshot::Sender<Reply<T, F>>,
}

/// The reply to an attempt.
enum Reply<T, F> {
    /// It is over, with this outcome.
    Completed(Result<T>),
    /// It must be submitted again.
    GivenBack(PendingWrite<T, F>, GivenBack),
}

impl<T, F> Attempt for WriteAttempt<T, F>
where
    T: Send,
    F: FnMut(&mut Tx) -> Result<T> + Send,
{
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        let PendingWrite { context, org, lane, write, out, watermark } = &mut self.pending;
        let mut tx = Tx::new(reader, &context.clock, &context.keys, &context.references);
        tx.set_org(*org);
        let end = write(&mut tx);
        *lane = *tx.org().bytes();
        *out = Some(end?);
        *watermark = if tx.has_changes() { context.clock.watermark_due() } else { None };
        if let Some(newest_millis) = *watermark {
            tx.put(&IdWatermark { newest_millis })?;
        }
        Ok(tx.into_writes())
    }

    fn lane(&self) -> Lane {
        self.pending.lane
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        let WriteAttempt { pending: PendingWrite { context, out, watermark, .. }, reply } = *self;
        if let (Ok(()), Some(watermark)) = (&end, watermark) {
            context.clock.mark_stored(watermark);
        }
        let answer = end.and_then(|()| {
            out.ok_or_else(|| Error::internal("an attempt was completed but never run"))
        });
        // The caller may be gone; what was written stays.
        let _ = reply.send(Reply::Completed(answer));
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        let WriteAttempt { pending, reply } = *self;
        let _ = reply.send(Reply::GivenBack(pending, why));
    }
}
