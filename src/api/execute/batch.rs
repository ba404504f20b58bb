//! Makes the calls of a batch: some of its things beside each other, each in rounds of its own, so that a
//! slow one holds up no other.

use std::sync::Arc;

use tokio::task::JoinSet;
use tokio::time::Instant;

use super::call_round::{MAX_ROUNDS, too_many_rounds};
use super::executor::Executor;
use crate::api::batch::AnyBatch;
use crate::api::calls::{Calls, KnownResults};
use crate::base::{Error, Id, Result};
use crate::outside::Outside;
use crate::store::{Org, View, WorkHints};

/// Things that are asked about at a time, and concurrent calls of each: eight calls in all, as of any request.
const ITEMS_AT_ONCE: usize = 4;
const CALLS_OF_ITEM: usize = 2;

/// A batch under way. Dropping it ends its calls.
pub struct RunningBatch {
    asking: Asking,
    running: JoinSet<Result<Vec<u8>>>,
}

/// What each thing is asked about with.
#[derive(Clone)]
pub struct Asking {
    pub batch: Arc<dyn AnyBatch>,
    pub executor: Arc<Executor>,
    pub outside: Outside,
    pub work: WorkHints,
    pub org: Id<Org>,
    /// No call is begun, and none goes on, after it.
    pub deadline: Instant,
}

impl RunningBatch {
    /// A batch of which nothing was asked.
    pub fn new(asking: Asking) -> Self {
        RunningBatch { asking, running: JoinSet::new() }
    }

    /// Returns what came of the next thing that is done, as JSON; `None` after the last one.
    ///
    /// # Errors
    /// Why the rest is not asked about.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        let Asking { batch, deadline, .. } = &self.asking;
        while self.running.len() < ITEMS_AT_ONCE
            && Instant::now() < *deadline
            && let Some(item) = batch.next()?
        {
            self.running.spawn(self.asking.clone().item(item));
        }
        match self.running.join_next().await {
            None => Ok(None),
            Some(done) => done.map_err(Error::internal)?.map(Some),
        }
    }
}

impl Asking {
    /// Asks about a thing until nothing is missing. What was heard of it goes with it.
    async fn item(self, item: usize) -> Result<Vec<u8>> {
        let mut known = Arc::new(KnownResults::default());
        for _ in 0..MAX_ROUNDS {
            let run = |view: &View| {
                let mut calls = Calls::new(known.clone());
                let done = self.batch.run(view, item, &mut calls)?;
                Ok((done, calls.into_pending().calls))
            };
            // It fills in texts and builds calls, however small the request is.
            let work = self.work.costly();
            let (done, asked) = self.executor.store.read_in_turn(work, self.org, None, run).await?;
            if asked.is_empty() {
                return done.ok_or_else(too_many_rounds);
            }
            let (tags, calls): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
            let results = self.outside.send_all(calls, CALLS_OF_ITEM, self.deadline).await;
            Arc::make_mut(&mut known).heard.extend(tags.into_iter().zip(results));
        }
        Err(too_many_rounds())
    }
}
