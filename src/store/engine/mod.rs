//! Storage engines: ordered tables of bytes, read at a snapshot, changed by batches of writes.
//!
//! The interface leaves room for an engine over several machines: reads are at a snapshot; an
//! attempt may run repeatedly, with no effect but its writes; the outcome of a commit may stay
//! unknown; the signal of a commit is a hint that may be lost; and a lease is an ordinary row.

mod group;
mod integrity;
mod layer;
mod memory;
mod optimistic;
mod queue;
mod redb;
mod snapshot;

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;
use std::sync::Arc;

pub use group::Group;
pub use integrity::integrity;
pub use layer::Overlay;
pub use memory::Memory;
pub use optimistic::{Budget, too_large};
pub use queue::{Bounds, FairQueue, Lane};
pub use redb::Redb;
pub use snapshot::{PendingReader, Snapshot};

use super::signals::Topic;
use crate::base::{Error, Result};

/// The direction of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Smallest key first: oldest first, where keys end in ids.
    Ascending,
    /// Largest key first: newest first.
    Descending,
}

/// A range of keys: from the first, included, to the second, excluded; `None` is the table's end.
#[derive(Clone, Copy, Debug)]
pub struct KeyRange<'a> {
    /// The smallest key.
    pub from: &'a [u8],
    /// The first key too large.
    pub to: Option<&'a [u8]>,
}

/// What a scan calls for each entry: key and value.
pub type Each<'a> = dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>> + 'a;

/// Tables as they were at one commit.
pub trait Reader: Send + Sync {
    /// Calls `see` with the value under `key`, if there is one; returns whether there is.
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool>;

    /// Calls `each` with the entries of a range in order, until it stops the scan.
    fn scan(
        &self,
        table: &'static str,
        span: KeyRange<'_>,
        order: Order,
        each: &mut Each<'_>,
    ) -> Result<()>;

    /// Whether `key` may be written as a new one. An engine that finds out at its commit
    /// ([`Op::Insert`]) may always say yes: looking first would make it conflict with others' rows.
    fn is_free(&self, table: &'static str, key: &[u8]) -> Result<bool> {
        Ok(!self.get(table, key, &mut |_| Ok(()))?)
    }

    /// The number of the last commit that changed a record which decides access. What was
    /// concluded under one stamp holds under the same stamp. `None`: the records may have changed
    /// in this transaction, so nothing concluded before holds.
    fn access_version(&self) -> Option<u64>;

    /// Counts bytes that the transaction over this reader is about to write.
    ///
    /// # Errors
    /// If they are more than it may.
    fn charge_write(&self, _bytes: usize) -> Result<()> {
        Ok(())
    }
}

/// One change of one key.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// Writes the key, existing or not.
    Put(Vec<u8>),
    /// Writes a new key; the commit must fail if it exists.
    Insert(Vec<u8>),
    /// Removes the key.
    Delete,
}

impl Op {
    /// The value afterwards.
    pub fn value(&self) -> Option<&[u8]> {
        match self {
            Op::Put(value) | Op::Insert(value) => Some(value),
            Op::Delete => None,
        }
    }
}

/// A batch of changes, and the topics to signal.
#[derive(Clone, Debug, Default)]
pub struct Writes {
    /// By table, then by key: engines apply them in key order, which is much faster.
    pub tables: BTreeMap<&'static str, BTreeMap<Vec<u8>, Op>>,
    /// Topics to signal once this is durable.
    pub topics: Vec<Topic>,
    /// Whether a record that decides access is among them.
    pub changes_access: bool,
}

impl Writes {
    /// Whether nothing changes.
    pub fn is_empty(&self) -> bool {
        self.tables.values().all(BTreeMap::is_empty)
    }

    /// How many keys change.
    pub fn len(&self) -> usize {
        self.tables.values().map(BTreeMap::len).sum()
    }

    /// The bytes of all keys and values.
    pub fn bytes(&self) -> usize {
        let changes = self.tables.values().flatten();
        changes.map(|(key, op)| key.len() + op.value().map_or(0, <[u8]>::len)).sum()
    }

    /// Adds a change that follows those already here. Two changes of one key become one, which
    /// keeps what the first knew of the state below: whether the key existed.
    pub fn add(&mut self, table: &'static str, key: Vec<u8>, op: Op) {
        let mut place = match self.tables.entry(table).or_default().entry(key) {
            Entry::Occupied(place) => place,
            Entry::Vacant(place) => {
                place.insert(op);
                return;
            }
        };
        let op = match (place.get(), op) {
            // The key did not exist and does not. A delete would remove what another transaction
            // writes there in the meantime.
            (Op::Insert(_), Op::Delete) => {
                place.remove();
                return;
            }
            (Op::Insert(_), Op::Put(value)) => Op::Insert(value),
            (Op::Delete, Op::Insert(value)) => Op::Put(value),
            (_, op) => op,
        };
        place.insert(op);
    }

    /// Adds a later batch.
    pub fn append(&mut self, later: Writes) {
        for (table, changes) in later.tables {
            for (key, op) in changes {
                self.add(table, key, op);
            }
        }
        self.topics.extend(later.topics);
        self.changes_access |= later.changes_access;
    }
}

/// How a commit ended.
pub enum Commit {
    /// Durable; seen by all later reads.
    Done(Arc<dyn Reader>),
    /// Nothing of it was kept.
    Refused(Error),
    /// Nothing of it was kept, because what it read has changed since. The attempts run again.
    /// Storage with one writer never reports it; an engine over several machines does.
    Conflict,
    /// It may or may not have been kept. Callers are told neither; the storage is reopened.
    Unknown(Error),
}

/// A queued transaction. It may run several times; the last run counts.
pub trait Attempt: Send {
    /// Returns what to write, given the state that `reader` shows.
    fn run(&mut self, reader: &dyn Reader) -> Result<Writes>;
    /// Whose turn it takes in the queue; asked after it has run.
    fn lane(&self) -> Lane {
        Lane::default()
    }
    /// Reports the outcome to the caller: `Ok` when what `run` returned last is durable.
    fn settle(self: Box<Self>, end: Result<()>);
    /// Gives it back to whoever waits, to be handed in again.
    fn give_back(self: Box<Self>, why: GivenBack);
}

/// Why an attempt comes back without having been settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// It costs more than the budget it was handed in with.
    OverBudget,
    /// What it read has changed since, and running it again would hold up the writer.
    Conflict,
}

/// How an attempt is to be handled.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What it may cost.
    pub budget: Budget,
    /// After a conflict it is run again where nothing can come between, however much it costs.
    pub settle_conflicts: bool,
}

/// An engine.
pub trait Engine: Send + Sync {
    /// The newest durable state. Only from a thread that may wait, unless the engine is in this
    /// process.
    fn snapshot(&self) -> Arc<dyn Reader>;
    /// The same for those who wait without a thread.
    fn begin_snapshot(&self) -> Snapshot {
        Snapshot::Ready(self.snapshot())
    }
    /// Runs an attempt on this thread, over the newest durable state, and queues what it wants to
    /// write. It is settled or given back later; at once, if it is refused, changes nothing or
    /// costs too much.
    ///
    /// # Errors
    /// 503 when too many wait or the engine is stopping; nothing of it was or will be kept.
    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()>;
}

/// Storage on this machine, to which [`Group`] adds the queue and the writer thread.
pub trait LocalStorage: Send + 'static {
    /// The newest durable state.
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>>;
    /// Makes a batch durable.
    fn commit(&mut self, writes: &Writes) -> Commit;
    /// Whether it must be reopened because reads fail.
    fn failed(&self) -> bool {
        false
    }
    /// Reopens the storage. Earlier readers may fail from then on (503).
    ///
    /// # Errors
    /// If that is not possible yet; it is retried.
    fn reopen(&mut self) -> Result<Arc<dyn Reader>>;
    /// Makes a table require_readable that was not named when this was opened: that of an index that is no
    /// longer defined. Earlier snapshots cannot read it.
    fn add_table(&mut self, _name: &'static str) {}
    /// How many attempts share a commit at most.
    fn max_group(&self) -> usize {
        group::MAX_GROUP
    }
    /// How often an attempt runs before the run that counts: 0, except in tests, which prove that
    /// attempts may run repeatedly.
    fn run_count(&mut self) -> usize {
        0
    }
}
