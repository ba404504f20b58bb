//! Makes the calls of a batch: some of its things beside each other, each in rounds of its own, so that a
//! slow one holds up no other.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout_at};

use super::call_round::{MAX_ROUNDS, too_many_rounds};
use super::context::RequestContext;
use crate::api::batch::{AnyBatch, BatchEnd};
use crate::api::calls::{Calls, KnownResults, Tag};
use crate::base::{Error, Id, Kind, Result};
use crate::outside::{Call, Outside};
use crate::store::View;

/// Things that are asked about at a time, and concurrent calls of each: eight calls in all, as of any request.
const ITEMS_AT_ONCE: usize = 4;
const CALLS_OF_ITEM: usize = 2;

/// How long after the deadline a turn is waited for to keep what was answered until then.
const LAST_TURN: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

/// Pause before what was answered is kept, if the server had too much to do for it.
const BUSY_PAUSE: Duration = Duration::from_millis(500);

/// A batch under way. Dropping it ends its calls.
pub struct RunningBatch {
    asking: Asking,
    running: JoinSet<Result<Asked>>,
    end: BatchEnd,
    /// Why nothing further is asked, if the server has too much to do.
    refusal: Option<Error>,
    /// Whether anything was done, or a call was made, which has cost something.
    has_any: bool,
}

/// What each thing is asked about with.
#[derive(Clone)]
pub struct Asking {
    pub batch: Arc<dyn AnyBatch>,
    /// Who asks: authorized again for each run.
    pub context: RequestContext,
    pub outside: Outside,
    /// No call is begun, and none goes on, after it.
    pub deadline: Instant,
}

/// What came of a thing.
struct Asked {
    /// What is passed on; `None` if it was not done in time.
    item: Option<Vec<u8>>,
    /// Whether its calls were cut off.
    is_late: bool,
    /// Whether any call of it was made.
    is_paid: bool,
}

impl RunningBatch {
    /// A batch of which nothing was asked.
    pub fn new(asking: Asking) -> Self {
        let (running, end) = (JoinSet::new(), BatchEnd::Whole);
        RunningBatch { asking, running, end, refusal: None, has_any: false }
    }

    /// Returns what came of the next thing that is done, as JSON; `None` after the last one. If the server has
    /// too much to do for one, those under way are still done, and none is begun.
    ///
    /// # Errors
    /// Why the rest is not asked about; 503 if the server had too much to do for any, and called nobody.
    pub async fn next(&mut self) -> Result<Option<Vec<u8>>> {
        loop {
            self.begin();
            let Some(done) = self.running.join_next().await else {
                let refusal = self.refusal.take().filter(|_| !self.has_any);
                return refusal.map_or(Ok(None), Err);
            };
            match done.map_err(Error::internal)? {
                Ok(Asked { item, is_late, is_paid }) => {
                    self.has_any |= is_paid || item.is_some();
                    if is_late && self.end == BatchEnd::Whole {
                        self.end = BatchEnd::Late;
                    }
                    if item.is_some() {
                        return Ok(item);
                    }
                }
                Err(error) if error.kind() == Kind::Busy => {
                    self.end = BatchEnd::Refused;
                    self.refusal = Some(error);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// When all that it has begun is over.
    pub fn latest_end(&self) -> Instant {
        self.asking.deadline + LAST_TURN
    }

    /// How far it went.
    pub fn end(&self) -> BatchEnd {
        self.end
    }

    /// Begins with as many things as are asked about at a time.
    fn begin(&mut self) {
        while self.end == BatchEnd::Whole
            && self.running.len() < ITEMS_AT_ONCE
            && let Some(item) = self.asking.batch.next()
        {
            if Instant::now() >= self.asking.deadline {
                self.end = BatchEnd::Late;
                return;
            }
            self.running.spawn(self.asking.clone().item(item));
        }
    }
}

impl Asking {
    /// Asks about a thing until nothing is missing. What was heard of it goes with it.
    async fn item(self, item: usize) -> Result<Asked> {
        let mut known = Arc::new(KnownResults::default());
        for _ in 0..MAX_ROUNDS {
            let is_paid = !known.heard.is_empty();
            let until = if is_paid { self.deadline + LAST_TURN } else { self.deadline };
            let Ok(run) = timeout_at(until, self.run_once_paid(item, &known)).await else {
                return Ok(Asked { item: None, is_late: true, is_paid });
            };
            let (done, calls) = run?;
            if calls.is_empty() {
                let item = Some(done.ok_or_else(too_many_rounds)?);
                return Ok(Asked { item, is_late: known.is_late, is_paid });
            }
            let (tags, calls): (Vec<_>, Vec<_>) = calls.into_iter().unzip();
            let results = self.outside.send_all(calls, CALLS_OF_ITEM, self.deadline).await;
            let known = Arc::make_mut(&mut known);
            known.heard.extend(tags.into_iter().zip(results));
            known.is_late |= Instant::now() >= self.deadline;
        }
        Err(too_many_rounds())
    }

    /// Runs a thing. What was heard of it is paid: if the server has too much to do, it runs later.
    async fn run_once_paid(&self, item: usize, known: &Arc<KnownResults>) -> Result<Run> {
        loop {
            match self.run(item, known).await {
                Err(error) if error.kind() == Kind::Busy && !known.heard.is_empty() => {
                    sleep(BUSY_PAUSE).await;
                }
                ended => return ended,
            }
        }
    }

    /// Runs a thing with the rights that the caller has now; returns what is passed on, and the missing calls.
    async fn run(&self, item: usize, known: &Arc<KnownResults>) -> Result<Run> {
        let Asking { batch, context, .. } = self;
        let run = |view: &View| {
            let (who, view) = context.authorize(view)?;
            let mut calls = Calls::new(known.clone());
            let done = batch.run(&view, &who, item, &mut calls)?;
            Ok((done, calls.into_pending().calls))
        };
        // It fills in texts and builds calls, however small the request is. It reads the newest state, whatever
        // the request began with.
        context.executor.store.read_in_turn(context.work.costly(), Id::NIL, None, run).await
    }
}

/// What is passed on of a thing, and the calls that are missing.
type Run = (Option<Vec<u8>>, Vec<(Tag, Call)>);
