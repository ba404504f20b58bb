//! Typed records over ordered tables of bytes.
//!
//! A [`View`] reads at a snapshot, a [`Tx`] works out changes on top of one; both see one
//! organization. What they see lies in an [`engine`]; how a record lies there is the [`codec`]'s;
//! which tables there are, the catalogue of [`TableInfo`]s says.

mod catalog;
pub mod check;
mod clock;
pub mod codec;
pub mod engine;
mod fair_semaphore;
mod id_watermark;
mod indexes;
mod key;
mod record;
mod reference;
mod removal;
#[cfg(test)]
mod sample;
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
pub use record::{AnyIndex, Index, IndexInfo, Org, Record, no_upgrade};
pub use reference::{Action, AnyReference, Reference, References};
pub use removal::{MAX_DEFERRED_BYTES, MAX_DEFERRED_CHANGES, PendingRemoval};
pub use signals::{ACCESS, Listener, Signals, Topic};
pub(crate) use stored_enum::stored_enum;
pub use tx::{MAX_WRITES, Tx};
pub use view::{Page, PageRequest, Source, View};

use crate::base::{Error, Id, Keys, Result};
use engine::{
    Attempt, Budget, Engine, GivenBack, GroupCommit, Lane, LocalStorage, Reader, Terms, Writes,
};
use fair_semaphore::FairSemaphore;
use id_watermark::IdWatermark;

/// The store: an engine, with what transactions need beside it.
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
    /// A store on this machine's `disk`, with these tables. Only references among them are kept.
    ///
    /// Call [`build_indexes`] first. If an index is not whole ([`Store::unbuilt`]), reading it fails,
    /// as do all writes.
    pub fn start(
        mut disk: impl LocalStorage,
        clock: Clock,
        keys: Keys,
        tables: &[TableInfo],
    ) -> Result<Self> {
        let unbuilt: Arc<[_]> = indexes::incomplete_names(&*disk.snapshot()?, tables)?.into();
        let signals = Arc::new(Signals::default());
        let mut engine: Arc<dyn Engine> = Arc::new(GroupCommit::start(disk, signals.clone())?);
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
        Ok(store)
    }

    /// A store in memory that runs about half of all attempts twice, for tests.
    pub fn in_memory(clock: Clock, tables: &[TableInfo]) -> Self {
        let mut disk = engine::Memory::running_twice(clock.now().millis() as u64);
        build_indexes(&mut disk, tables, &|_| {}).expect("memory does not fail");
        Self::start(disk, clock, Keys::new([7; 32]), tables).expect("memory does not fail")
    }

    /// Time, ids and randomness.
    pub fn clock(&self) -> &Clock {
        &self.context.clock
    }

    /// The installation's keys.
    pub fn keys(&self) -> &Keys {
        &self.context.keys
    }

    /// Where to listen for commits.
    pub fn signals(&self) -> &Signals {
        &self.signals
    }

    /// Reads at the newest durable state, seeing the records of `org` ([`Id::NIL`]: of none).
    /// An engine in this process answers at once; others are waited for.
    ///
    /// # Errors
    /// What `read` returns, and 503 if there is no state to be had.
    pub async fn read<T>(&self, org: Id<Org>, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        let reader = self.engine.begin_snapshot().wait().await?;
        read(&self.view(&*reader, org))
    }

    /// The same from a thread that may wait.
    pub fn read_now<T>(&self, org: Id<Org>, read: impl FnOnce(&View) -> Result<T>) -> Result<T> {
        let reader = self.engine.snapshot();
        read(&self.view(&*reader, org))
    }

    fn view<'a>(&'a self, reader: &'a dyn Reader, org: Id<Org>) -> View<'a> {
        let (now, keys) = (self.context.clock.now(), &self.context.keys);
        View { reader, writes: None, org, now, keys }
    }

    /// Runs `write` in a transaction of `org` and waits until what it wrote is durable. `write`
    /// may be run again.
    ///
    /// It runs on this task as long as it costs little, else on a thread of its own, of which few
    /// work at a time and organizations take turns.
    ///
    /// # Errors
    /// What `write` returns; nothing is kept then. 413 if it reads or writes too much at once; 503
    /// if too many wait, or if it is not known whether the changes were kept.
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
                    .map_err(|e| Error::internal(format!("an attempt broke: {e}")))??;
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

    /// The same from a thread that may wait.
    pub fn write_now<T, F>(&self, org: Id<Org>, write: F) -> Result<T>
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
                Err(Error::internal("an attempt came back on its last terms"))
            }
            Err(_) => Err(Error::internal("the writer thread ended")),
        }
    }

    fn pending<T, F>(&self, org: Id<Org>, write: F) -> PendingWrite<T, F> {
        let lane = *org.bytes();
        PendingWrite { context: self.context.clone(), org, lane, write, out: None, watermark: None }
    }

    /// The indexes that must be built before they can be read.
    pub fn unbuilt(&self) -> &[&'static str] {
        &self.unbuilt
    }

    /// Reads everything in these tables and says what is wrong. Indexes that are not built are left
    /// out.
    pub fn check(&self, tables: &[TableInfo]) -> Result<check::Findings> {
        let reader = self.engine.snapshot();
        let mut findings = check::Findings::default();
        findings.unbuilt.extend_from_slice(&self.unbuilt);
        for table in tables {
            (table.check)(&*reader, &self.context.references, &mut findings)?;
        }
        Ok(findings)
    }
}

/// How much work that costs more than a little is done at a time: on every processor but one,
/// which is left to those who want little.
fn max_heavy() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from).saturating_sub(1).max(1)
}

/// What the store keeps for itself.
pub const TABLES: &[TableInfo] = &[
    TableInfo::of::<IdWatermark>(),
    TableInfo::of::<indexes::IndexState>(),
    TableInfo::of::<PendingRemoval>(),
];

/// The names of all tables of a catalogue, and of the store's own.
///
/// # Panics
/// If two have the same name: their rows would be taken for each other's.
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

/// After so many conflicts an attempt is run where nothing can come between.
const MAX_CONFLICTS: usize = 3;

/// An operation with what it came to when it last ran.
struct PendingWrite<T, F> {
    context: Arc<Context>,
    org: Id<Org>,
    /// The organization that it turned out to be of.
    lane: Lane,
    write: F,
    out: Option<T>,
    /// What was written of the watermark.
    watermark: Option<i64>,
}

/// An operation on its way to the writer thread, and its answer's way back.
struct WriteAttempt<T, F> {
    pending: PendingWrite<T, F>,
    reply: oneshot::Sender<Reply<T, F>>,
}

/// What comes back of an attempt.
enum Reply<T, F> {
    /// How it ended.
    Completed(Result<T>),
    /// Itself, to be handed in again.
    GivenBack(PendingWrite<T, F>, GivenBack),
}

impl<T, F> Attempt for WriteAttempt<T, F>
where
    T: Send,
    F: FnMut(&mut Tx) -> Result<T> + Send,
{
    fn run(&mut self, reader: &dyn Reader) -> Result<Writes> {
        let PendingWrite { context, org, lane, write, out, watermark } = &mut self.pending;
        let mut tx = Tx::new(reader, &context.clock, &context.keys, &context.references);
        tx.enter(*org);
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
            out.ok_or_else(|| Error::internal("an attempt was settled but never run"))
        });
        // Whoever asked may have left; what was written stays.
        let _ = reply.send(Reply::Completed(answer));
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        let WriteAttempt { pending, reply } = *self;
        let _ = reply.send(Reply::GivenBack(pending, why));
    }
}
