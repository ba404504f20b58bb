//! The interface between an engine and the transactions that it runs.

use std::sync::Arc;

use super::fair_queue::Lane;
use super::optimistic::Budget;
use super::reader::Reader;
use super::snapshot::Snapshot;
use super::writes::Writes;
use crate::base::Result;

/// A queued transaction. It may run several times; the last run counts.
pub trait Attempt: Send {
    /// Returns what to write, given the state that `reader` shows.
    fn run(&mut self, reader: &dyn Reader) -> Result<Writes>;
    /// Whose turn it takes in the queue; asked after it has run.
    fn lane(&self) -> Lane {
        Lane::default()
    }
    /// Reports the outcome to the caller: `Ok` when what `run` returned last is durable.
    fn complete(self: Box<Self>, end: Result<()>);
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
    pub rerun_on_conflict: bool,
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
