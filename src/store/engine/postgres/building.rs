//! The engine as storage, for work in steps before a server starts: building indexes.

use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Instant;

use super::super::{Budget, CommitOutcome, LocalStorage, OnConflict, Reader, Terms, WriteBatch};
use super::attempts::Batch;
use super::failure::Failure;
use super::membership::Member;
use super::queue::Waiting;
use super::shared::{OPEN_TIME, Shared};
use crate::base::{Error, Result};

/// The store as the only process sees it that writes to it, or has the lease.
pub struct Building {
    pub(super) shared: Arc<Shared>,
    pub(super) lease: Option<Arc<Member>>,
}

impl LocalStorage for Building {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        Ok(self.shared.clone().blocking_snapshot())
    }

    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        let (end, ended) = channel();
        let attempt = Box::new(Batch { writes: writes.clone(), end });
        let terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::RunOnWriter };
        let lease = self.lease.clone();
        self.shared.process(Waiting::new(attempt, terms, lease));
        let end = ended.recv().unwrap_or_else(|_| Err(Error::internal("a batch was lost")));
        match end {
            Ok(()) => CommitOutcome::Done(self.shared.clone().blocking_snapshot()),
            Err(error) => CommitOutcome::Unknown(error),
        }
    }

    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.snapshot()
    }

    fn add_table(&mut self, name: &'static str) {
        let add = || {
            let mut connection = self.shared.pool.take(false, Instant::now() + OPEN_TIME)?;
            self.shared.add_tables(&mut connection, &[name])?;
            self.shared.pool.put(connection);
            Ok::<_, Failure>(())
        };
        if let Err(failure) = add() {
            tracing::warn!(?failure, table = name, "a table cannot be added");
        }
    }
}
