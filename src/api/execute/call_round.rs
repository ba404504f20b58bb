//! Answers from outside, and searches that take long, for one operation: it runs, what it asked for
//! is fetched, and it runs again, until it asks for nothing. See [`crate::api::Calls`].

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::executor::Executor;
use crate::api::action::CallTime;
use crate::api::calls::{Calls, KnownResults, PendingCalls};
use crate::base::{Error, Result};

/// Calls of one request at a time: enough to fetch a list quickly, few enough not to look like an
/// attack to whoever is called.
const MAX_CONCURRENT_CALLS: usize = 8;

/// How often an operation may ask for more: a list, its args, and what judges say of them. An
/// operation whose questions never end is broken.
pub const MAX_ROUNDS: usize = 16;

/// When the server stops, calls under way get so long: less than requests in flight do, so that
/// whoever waits for them still hears that they were given up.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// What was heard so far, and until when there is time to hear more.
pub struct CallRound<'a> {
    executor: &'a Executor,
    known: Arc<KnownResults>,
    total: Duration,
    /// From the first call on: the store may have let us wait before.
    deadline: Option<Instant>,
}

impl<'a> CallRound<'a> {
    /// For an operation that has this time for all its calls.
    pub fn new(executor: &'a Executor, time: CallTime) -> Self {
        let total = time.unwrap_or_default();
        CallRound { executor, known: Arc::default(), total, deadline: None }
    }

    /// What is known for the next run.
    pub fn known(&self) -> Arc<KnownResults> {
        self.known.clone()
    }

    /// The calls of the next run.
    pub fn calls(&self) -> Calls {
        Calls::new(self.known())
    }

    /// Makes the searches and calls that a run asked for.
    ///
    /// # Errors
    /// 503 when there is no place to search, no time, or the server stops.
    pub async fn run(&mut self, asked: PendingCalls) -> Result<()> {
        if !asked.searches.is_empty() {
            let (tags, searches): (Vec<_>, Vec<_>) = asked.searches.into_iter().unzip();
            let found = self.executor.searches.make(searches).await?;
            Arc::make_mut(&mut self.known).found.extend(tags.into_iter().zip(found));
        }
        if !asked.calls.is_empty() {
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.total);
            let (tags, calls): (Vec<_>, Vec<_>) = asked.calls.into_iter().unzip();
            let mut stopping = self.executor.stopping.clone();
            let stopped = async {
                let _ = stopping.wait_for(|stopping| *stopping).await;
                sleep(SHUTDOWN_GRACE).await;
            };
            let heard = tokio::select! {
                heard = self.executor.outside.send_all(calls, MAX_CONCURRENT_CALLS, deadline) => heard,
                () = stopped => return Err(Error::busy("stopping", "the server is stopping", 5)),
            };
            Arc::make_mut(&mut self.known).heard.extend(tags.into_iter().zip(heard));
        }
        Ok(())
    }
}

/// The error of an operation that goes on asking, and of a run that does not count.
pub fn too_many_rounds() -> Error {
    Error::internal("an operation goes on asking for calls, or broke while it did")
}
