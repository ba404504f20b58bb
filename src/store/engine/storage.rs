//! The interface of storage on this machine.

use std::sync::Arc;
use std::time::Duration;

use super::metrics::{StorageSize, StoreMeters};
use super::reader::Reader;
use super::writes::WriteBatch;
use crate::base::{Error, Result};

/// At most 512 attempts share a commit, so that the first does not wait until a thousand others
/// have run.
pub(super) const MAX_GROUP: usize = 512;

/// The outcome of a commit.
pub enum CommitOutcome {
    /// Durable; this reader and all later ones see it.
    Done(Arc<dyn Reader>),
    /// Nothing of it was stored.
    Refused(Error),
    /// It may or may not have been stored. Callers get a 503 that says so; the storage is reopened.
    Unknown(Error),
}

impl CommitOutcome {
    /// Returns the new state; for tools that have the storage to themselves.
    ///
    /// # Errors
    /// If it is not certain that the commit is durable.
    pub fn alone(self) -> Result<Arc<dyn Reader>> {
        match self {
            CommitOutcome::Done(reader) => Ok(reader),
            CommitOutcome::Refused(error) | CommitOutcome::Unknown(error) => Err(error),
        }
    }
}

/// Replaces the newest reader by another one of the same state.
pub type RenewFn = Box<dyn Fn(Arc<dyn Reader>) + Send>;

/// How often the writer thread looks whether the storage must be, or can be, reopened.
pub const IDLE_INTERVAL: Duration = Duration::from_secs(1);

/// Storage on this machine, to which [`GroupCommit`](super::GroupCommit) adds the queue and the
/// writer thread.
pub trait LocalStorage: Send + 'static {
    /// Returns the newest durable state.
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>>;
    /// Makes a batch durable.
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome;
    /// Checks that there is space for ordinary writes. If not, only batches that
    /// [may use the reserve](WriteBatch::may_use_reserve) are committed.
    ///
    /// # Errors
    /// 503 if there is none.
    fn check_space(&mut self) -> Result<()> {
        Ok(())
    }
    /// Returns whether the disk may be full, so that what deletions free is to be known soon.
    fn is_full(&self) -> bool {
        false
    }
    /// Returns whether it must be reopened because reads fail.
    fn failed(&self) -> bool {
        false
    }
    /// Reopens the storage. Earlier readers may fail from then on (503).
    ///
    /// # Errors
    /// If that is not possible yet; it is retried.
    fn reopen(&mut self) -> Result<Arc<dyn Reader>>;
    /// Makes a table readable that was not named when this was opened: that of an index that is no
    /// longer defined. Earlier snapshots cannot read it.
    fn add_table(&mut self, _name: &'static str) {}
    /// Measures it, if it can be; takes less than a millisecond.
    fn size(&mut self) -> Option<StorageSize> {
        None
    }
    /// How long the writer thread waits for writes before it calls [`LocalStorage::idle`].
    fn idle_interval(&self) -> Duration {
        IDLE_INTERVAL
    }
    /// Does what can be done while nothing is to be written. Called after each interval then.
    fn idle(&mut self) {}
    /// Calls this from now on with a reader of the same state, whenever there is one that takes less
    /// memory or space than those before.
    fn renew_with(&mut self, _renew: RenewFn) {}
    /// Counts in these meters from now on.
    fn count_in(&mut self, _meters: &Arc<StoreMeters>) {}
    /// Returns how many attempts share a commit at most.
    fn max_group(&self) -> usize {
        MAX_GROUP
    }
}
