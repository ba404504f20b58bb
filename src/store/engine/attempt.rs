//! The interface between an engine and the transactions that it runs.

use std::sync::Arc;

use super::fair_queue::Lane;
use super::metrics::StoreMeters;
use super::optimistic::Budget;
use super::reader::Reader;
use super::snapshot::{NextReader, Snapshot};
use super::writes::WriteBatch;
use crate::base::{Error, Result};

/// A transaction that an engine runs. It may run several times; the last run counts.
pub trait Attempt: Send {
    /// Returns what to write, given the state of `reader`.
    ///
    /// # Errors
    /// If the transaction is refused; it writes nothing then.
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch>;
    /// Returns its lane in the queue, known before it runs.
    fn lane(&self) -> Lane {
        Lane::default()
    }
    /// Returns the bytes that it holds in memory before it runs.
    fn bytes(&self) -> usize {
        0
    }
    /// Reports the outcome to the caller: `Ok` if what `run` returned last is durable.
    fn complete(self: Box<Self>, end: Result<()>);
    /// Returns it to the caller, to be submitted again.
    fn give_back(self: Box<Self>, why: GivenBack);
}

/// Why an attempt is given back instead of completed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GivenBack {
    /// It costs more than the budget it was submitted with.
    OverBudget,
    /// What it read has changed since, and running it again would delay the writer.
    Conflict,
}

/// How an engine handles an attempt.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// What the attempt may cost.
    pub budget: Budget,
    /// What happens after a conflict, unless it is light: then it runs again at once.
    pub on_conflict: OnConflict,
}

/// What happens to an attempt when what it has read changes before its commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnConflict {
    /// It is given back.
    GiveBack,
    /// It is given back, but from before its run until its commit the others of its lane wait: only
    /// writes of other lanes can conflict with it.
    HoldLane,
    /// It runs again on the writer thread, where no other commit can intervene.
    RunOnWriter,
}

/// A storage engine: snapshots to read at, and transactions.
pub trait Engine: Send + Sync {
    /// Returns the newest durable state. May block, unless the engine is in this process.
    fn snapshot(&self) -> Arc<dyn Reader>;
    /// Returns the newest durable state, to be awaited without blocking a thread.
    fn begin_snapshot(&self) -> Snapshot {
        Snapshot::Ready(self.snapshot())
    }
    /// A future of a snapshot, once there is another than this one, of which a read has failed with
    /// [`REOPENING`](super::REOPENING); of `None` if there will be none soon.
    fn snapshot_after(&self, _reader: Arc<dyn Reader>) -> NextReader {
        Box::pin(async { None })
    }
    /// Returns whether reading waits for another process: threads that serve others must not.
    fn is_remote(&self) -> bool {
        false
    }
    /// Returns whether other processes may commit to the same store.
    fn is_shared(&self) -> bool {
        false
    }
    /// Returns the error of what needs the storage, while that is elsewhere and cannot be reached: who waited
    /// for others that wait for it is told so.
    fn unavailable(&self) -> Option<Error> {
        None
    }
    /// Runs an attempt on this thread, over the newest durable state, and queues its writes; or
    /// queues a light attempt to be run later, if it would likely conflict. It is completed or given
    /// back later; at once, if it is refused, changes nothing or costs too much.
    ///
    /// # Errors
    /// 503 if too many attempts wait or the engine is stopping; nothing of it is or will be stored.
    fn submit(&self, attempt: Box<dyn Attempt>, terms: Terms) -> Result<()>;
    /// Completes what is queued and closes the storage. What is submitted later is refused.
    fn close(&self);
    /// Returns what it counts for the metrics.
    fn meters(&self) -> Arc<StoreMeters>;
}
