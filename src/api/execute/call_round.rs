//! Outgoing calls and slow searches of one operation: it runs, what it requested is done, and it
//! runs again, until it requests nothing new. See [`crate::api::Calls`].

use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::{Instant, sleep, timeout_at};

use super::context::RequestContext;
use super::coordination::InFlightGuard;
use super::executor::Executor;
use super::outside_calls::OutsideCall;
use super::works::{Slot, Works};
use crate::api::action::CallTime;
use crate::api::calls::{Calls, KnownResults, PendingCalls, Tag, Work, WorkResult};
use crate::base::{Error, Result, TraceParent};
use crate::outside::mail::MailFailure;
use crate::outside::{Call, is_lookup};
use crate::store::{Lane, Permit, WorkHints};

/// Why a mail was not sent within the time of its operation.
const MAILED_LATE: &str = "the mail server did not accept the mail in time";

/// Concurrent calls of one request: enough to fetch a list quickly, few enough not to look like an
/// attack to the server that is called.
const MAX_CONCURRENT_CALLS: usize = 8;

/// Rounds of calls of one operation: a list, its pages, and the judges' verdicts need a few. An
/// operation that needs more is broken.
pub const MAX_ROUNDS: usize = 16;

/// Time for calls in flight at shutdown: less than requests in flight get, so that their clients
/// still receive an error.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// The turn of an operation, if it has one. The run that asks for nothing more ends it before it is
/// committed: the next ones need not wait for the disk, and are committed together.
#[derive(Clone, Default)]
pub struct Turn(Arc<Mutex<Option<HeldTurn>>>);

/// Whose turn it is, and what holds it.
type HeldTurn = (Lane, Permit<Lane>);

impl Turn {
    fn held(&self) -> MutexGuard<'_, Option<(Lane, Permit<Lane>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is(&self, turn: Option<Lane>) -> bool {
        self.held().as_ref().map(|(held, _)| *held) == turn
    }

    fn begin(&self, turn: Lane, permit: Permit<Lane>) {
        *self.held() = Some((turn, permit));
    }

    /// Lets the next one begin.
    pub fn end(&self) {
        let ended = self.held().take();
        drop(ended);
    }
}

/// The results so far, and the deadline of further calls.
pub struct CallRound<'a> {
    executor: &'a Executor,
    known: Arc<KnownResults>,
    total: Duration,
    /// The address of the outside agent that causes the calls, if one does.
    from_outside: Option<IpAddr>,
    /// The trace of the request.
    trace: Option<TraceParent>,
    /// Set at the first call, so that waiting for the store before it does not count.
    deadline: Option<Instant>,
    /// Held as long as the results of costly work are.
    slot: Option<Arc<Slot>>,
    /// Held as long as those of computations are.
    computing: Option<Arc<Slot>>,
    /// The mails that were sent, until what counts them is committed or not.
    mailing: Vec<InFlightGuard>,
    /// The turn that the calls take, until a run asks for calls of no turn or another one.
    turn: Turn,
}

impl<'a> CallRound<'a> {
    /// Creates the rounds of an operation with this time limit for all its calls.
    pub fn new(context: &'a RequestContext, time: CallTime) -> Self {
        let total = time.unwrap_or_default();
        CallRound {
            executor: &context.executor,
            known: Arc::default(),
            total,
            from_outside: context.outside_address(),
            trace: context.request.origin.trace,
            deadline: None,
            slot: None,
            computing: None,
            mailing: Vec::new(),
            turn: Turn::default(),
        }
    }

    /// The results for the next run.
    pub fn known(&self) -> Arc<KnownResults> {
        self.known.clone()
    }

    /// The turn that it has, to be ended by the next run.
    pub fn turn(&self) -> Turn {
        self.turn.clone()
    }

    /// Hints for the store about the next run, given those about the first: the operation
    /// reads all answers.
    pub fn work(&self, first: WorkHints) -> WorkHints {
        WorkHints { bytes: first.bytes + self.known.bytes(), ..first }
    }

    /// The [`Calls`] of the next run.
    pub fn calls(&self) -> Calls {
        Calls::new(self.known())
    }

    /// Waits for the turn that the calls of a run take. Returns whether it has begun now: then the
    /// operation is to run again before they are made.
    ///
    /// # Errors
    /// 503 if the turn does not come.
    pub async fn take_turn(&mut self, turn: Option<Lane>, own: Lane) -> Result<bool> {
        if self.turn.is(turn) {
            return Ok(false);
        }
        // Before it waits: nobody is to have two at a time.
        self.turn.end();
        let Some(turn) = turn else { return Ok(false) };
        let permit = self.executor.call_turns.enter([own, turn], 0).await?;
        self.turn.begin(turn, permit);
        Ok(true)
    }

    /// Does the work and makes the searches and calls that a run requested, for this user in this lane.
    ///
    /// # Errors
    /// 503 if no slot for work, computations, searches or calls becomes free, the searches take too long,
    /// too many calls of outside agents are in progress, or the server stops; 429 if outside agents
    /// caused too many calls to one host, or the organization too many look-ups; 409 while another
    /// operation sends a mail of the same tag.
    pub async fn run(&mut self, asked: PendingCalls, from: (Lane, Lane)) -> Result<()> {
        let Executor { works, computations, outside, .. } = self.executor;
        let with_children = |(tag, work): (Tag, Work)| -> Tagged<Result<WorkResult>> {
            let children = outside.children.clone();
            (tag, Box::new(move || work(&children)))
        };
        let reading = asked.works.into_iter().map(with_children).collect();
        let worked = do_work(works, &mut self.slot, reading, from).await?;
        let computed = do_work(computations, &mut self.computing, asked.computations, from).await?;
        if !worked.is_empty() || !computed.is_empty() {
            let known = Arc::make_mut(&mut self.known);
            known.worked.extend(worked);
            known.computed.extend(computed);
        }
        if !asked.searches.is_empty() {
            let (tags, searches): (Vec<_>, Vec<_>) = asked.searches.into_iter().unzip();
            let found = self.executor.searches.make(searches, from).await?;
            Arc::make_mut(&mut self.known).found.extend(tags.into_iter().zip(found));
        }
        if !asked.calls.is_empty() {
            // No bytes once calls were made: those are paid, and a refusal would lose what they answered.
            let bodies = asked.calls.iter().map(|(_, call)| call.body.len());
            let held: usize = if self.known.heard.is_empty() { bodies.sum() } else { 0 };
            let _slot = self.executor.call_slots.enter(from.into(), held).await?;
            let total = asked.within.map_or(self.total, |within| within.min(self.total));
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + total);
            let (tags, calls): (Vec<_>, Vec<_>) = asked.calls.into_iter().unzip();
            // Those of outside agents have limits of their own.
            if self.from_outside.is_none() {
                let lookups = calls.iter().filter(|call| is_lookup(call)).count();
                self.executor.coordination.take_lookups(from.1, lookups)?;
            }
            let _permit = match self.from_outside {
                Some(address) => Some(self.admit(&calls, address).await?),
                None => None,
            };
            let mut stopping = self.executor.stopping.clone();
            let stopped = async {
                let _ = stopping.wait_for(|stopping| *stopping).await;
                sleep(SHUTDOWN_GRACE).await;
            };
            let outside = outside.clone().part_of(self.trace);
            let outside = if asked.for_holder { outside.for_holder() } else { outside };
            let results = tokio::select! {
                results = outside.send_all(calls, MAX_CONCURRENT_CALLS, deadline) => results,
                () = stopped => return Err(Error::busy("stopping", "the server is stopping", 5)),
            };
            let known = Arc::make_mut(&mut self.known);
            known.heard.extend(tags.into_iter().zip(results));
            known.is_late |= Instant::now() >= deadline;
        }
        for (tag, mail) in asked.mails {
            // One at a time: those that count it see the count only when the last run is committed.
            let guard = self.executor.coordination.begin(tag).map_err(|_| {
                Error::conflict(
                    "still_under_way",
                    "another test by mail is still in progress; repeat it later",
                )
                .retry_after(1)
            });
            self.mailing.push(guard?);
            let deadline = *self.deadline.get_or_insert_with(|| Instant::now() + self.total);
            let sent = timeout_at(deadline, self.executor.outside.mail.send(&mail)).await;
            let mailed = sent.unwrap_or_else(|_| Err(MailFailure(MAILED_LATE.into())));
            Arc::make_mut(&mut self.known).mailed.insert(tag, mailed);
        }
        Ok(())
    }

    /// Admits calls that an outside agent causes.
    ///
    /// # Errors
    /// 429 and 503, as [`CallRound::run`].
    async fn admit(&self, calls: &[Call], address: IpAddr) -> Result<OutsideCall> {
        for call in calls {
            self.executor.coordination.take_outside_call(&call.place())?;
        }
        self.executor.outside_calls.admit(address).await
    }
}

/// A piece of costly work with its tag.
type Tagged<T> = (Tag, Box<dyn FnOnce() -> T + Send>);

/// Does this work, if there is any, in a slot that is kept from the first time on; returns the results.
async fn do_work<T: Send + 'static>(
    works: &Works,
    slot: &mut Option<Arc<Slot>>,
    asked: Vec<Tagged<T>>,
    (user, lane): (Lane, Lane),
) -> Result<Vec<(Tag, T)>> {
    if asked.is_empty() {
        return Ok(Vec::new());
    }
    let held = match slot {
        Some(held) => held.clone(),
        None => slot.insert(Arc::new(works.slot(user, lane).await?)).clone(),
    };
    let (tags, pieces): (Vec<_>, Vec<_>) = asked.into_iter().unzip();
    Ok(tags.into_iter().zip(works.run(held, pieces).await?).collect())
}

/// The error of an operation that needs too many rounds, and of a discarded run.
pub fn too_many_rounds() -> Error {
    Error::internal("an operation needs too many rounds of calls, or panicked")
}
