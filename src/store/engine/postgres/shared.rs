//! What the threads of an engine share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::watch;

use super::super::metrics::StoreMeters;
use super::alone::Alone;
use super::connection::{Commit, Connection, STATEMENT_TIME};
use super::failure::Failure;
use super::owner::Owner;
use super::pool::Pool;
use super::queue::Queue;
use super::settings::Control;
use super::slot::Resolved;
use super::sql;
use super::tables::Tables;
use crate::base::{Error, Result};
use crate::store::signals::Signals;

/// How long opening a store waits for a server.
pub const OPEN_TIME: Duration = Duration::from_secs(20);

/// How often a transaction of the engine's own runs.
const OWN_RUNS: usize = 20;

/// What the threads of an engine share.
pub struct Shared {
    pub pool: Pool,
    pub tables: Tables,
    pub queue: Queue,
    pub signals: Arc<Signals>,
    pub meters: Arc<StoreMeters>,
    pub owner: Option<Owner>,
    pub control: Option<Control>,
    /// The lanes of attempts that have conflicted several times.
    pub alone: Alone,
    pub is_lost: watch::Sender<bool>,
    pub unanswered: Unanswered,
}

/// How commits ended that were not answered.
#[derive(Debug, Default)]
pub struct Unanswered {
    /// They are stored.
    pub committed: AtomicU64,
    /// They are not stored, and never will be.
    pub not_committed: AtomicU64,
    /// It could not be found out.
    pub unknown: AtomicU64,
}

impl Unanswered {
    /// Counts how one ended.
    pub fn count(&self, resolved: &Resolved) {
        let counter = match resolved {
            Resolved::Committed => &self.committed,
            Resolved::NotCommitted => &self.not_committed,
            Resolved::Unknown => &self.unknown,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Shared {
    /// Returns the statement that begins a transaction that writes.
    pub fn begin_write(&self) -> &'static str {
        match self.control {
            Some(Control::RepeatableRead) => sql::BEGIN_WRITE_UNVALIDATED,
            _ => sql::BEGIN_WRITE,
        }
    }

    /// Notes that another server owns the store now.
    pub fn taken_over(&self) {
        if !self.is_lost.send_replace(true) {
            tracing::error!(
                "another server has taken over the store; this one cannot write any more"
            );
        }
    }

    /// Runs a transaction of the engine's own, which may run and be committed several times. The
    /// connection is in no transaction, before and after.
    ///
    /// # Errors
    /// Those of `work`; [`Failure::Conflict`] if others are always in the way.
    pub fn own_transaction<T>(
        &self,
        connection: &mut Connection,
        begin: &str,
        work: impl Fn(&Connection) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let mut last = Failure::Conflict;
        for _ in 0..OWN_RUNS {
            connection.execute(begin)?;
            let failure = match work(connection) {
                Ok(done) => match connection.commit(Instant::now() + STATEMENT_TIME) {
                    Commit::Done | Commit::Doubtful => return Ok(done),
                    Commit::Failed(failure) => failure,
                    Commit::Unanswered => {
                        return Err(Failure::Unavailable("a commit was not answered".into()));
                    }
                },
                Err(failure) => failure,
            };
            connection.roll_back();
            match failure {
                Failure::Conflict | Failure::Duplicate => last = failure,
                failure => return Err(failure),
            }
        }
        Err(last)
    }
}

/// Starts what drives connections.
///
/// # Errors
/// If the system has no threads left.
pub fn start_runtime() -> Result<Runtime> {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .thread_name("postgres")
        .enable_all()
        .build()
        .map_err(|e| Error::internal(format!("a runtime cannot be started: {e}")))
}
