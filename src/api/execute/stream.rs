//! Answers of other servers that are passed on as they come.
//!
//! The calls are made by a task of their own: when the client goes away, it ends the call and still
//! writes the audit entry, since what was called may cost money. One before the first call says what begins:
//! what cannot be logged is not asked.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

use super::audit::audit;
use super::batch::{Asking, RunningBatch};
use super::context::RequestContext;
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::batch::BatchEnd;
use crate::api::exchange::{AnyExchange, Heard, StreamAction, StreamWork};
use crate::api::output::ResourceRef;
use crate::api::request::Principal;
use crate::auth::Organization;
use crate::base::{Error, Id, LogLimit, Result};
use crate::outside::{Outside, Pauses};
use crate::store::{Lane, Org, Permit, Tx, View, WorkHints};

/// Parts of the text that wait for a slow client.
const MAX_UNREAD: usize = 16;

/// A client that takes no part of a text for this long is considered gone: nothing is leased to it, and
/// it may wait for a network.
pub const MAX_TEXT_STALL: Duration = Duration::from_secs(30);

/// How long the answer is held back for what may be its first event: what fails at once is an ordinary
/// error.
const FIRST_WAIT: Duration = Duration::from_secs(2);

/// What is sent on of an exchange.
#[derive(Debug)]
pub enum StreamEvent {
    /// The next part of the text.
    Text(String),
    /// What came of a thing of a batch, as JSON, with the name of its event.
    Item(&'static str, Vec<u8>),
    /// The answer, as JSON: the last event.
    Done(Vec<u8>),
    /// Why there is none: the last event.
    Failed(Error),
}

/// The events of an exchange. Dropping it ends the exchange.
pub struct TextStream {
    first: Option<StreamEvent>,
    rest: Receiver<StreamEvent>,
    is_over: bool,
}

impl TextStream {
    /// Returns the next event; `None` after the last one, which says how it ended.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        if self.is_over {
            return None;
        }
        let next = match self.first.take() {
            Some(first) => first,
            None => {
                let next = self.rest.recv().await;
                next.unwrap_or_else(|| StreamEvent::Failed(without_end()))
            }
        };
        self.is_over = matches!(next, StreamEvent::Done(_) | StreamEvent::Failed(_));
        Some(next)
    }
}

/// The error of an exchange whose task has ended without saying how: it has panicked.
fn without_end() -> Error {
    Error::internal("an exchange has no end")
}

/// Answers with what an exchange concludes at its end.
pub async fn whole(context: &RequestContext, action: StreamAction) -> Result<Vec<u8>> {
    let mut events = begin(context, action).await?;
    while let Some(event) = events.recv().await {
        match event {
            StreamEvent::Text(_) | StreamEvent::Item(..) => {}
            StreamEvent::Done(answer) => return Ok(answer),
            StreamEvent::Failed(error) => return Err(error),
        }
    }
    Err(without_end())
}

/// Starts a stream of the text of an exchange. Errors known now are ordinary responses.
pub async fn stream(context: &RequestContext, action: StreamAction) -> Result<TextStream> {
    let mut rest = begin(context, action).await?;
    let first = match timeout(FIRST_WAIT, rest.recv()).await {
        Ok(Some(StreamEvent::Failed(error))) => return Err(error),
        Ok(None) => return Err(without_end()),
        Ok(first) => first,
        Err(_elapsed) => None,
    };
    Ok(TextStream { first, rest, is_over: false })
}

/// Starts an exchange, once the caller has its turn.
async fn begin(context: &RequestContext, action: StreamAction) -> Result<Receiver<StreamEvent>> {
    let executor = &context.executor;
    let (prepared, who, org) = context
        .read(context.work, |view, who| Ok(((action.prepare)(view, who)?, who.clone(), view.org())))
        .await?;
    let (work, server) = prepared;
    let (person, organization) = (context.work.user, *org.bytes());
    executor.coordination.take_exchange(person, organization)?;
    let caller = [person, organization];
    let slots = match &work {
        StreamWork::Exchange(..) => executor.exchanges.enter(caller, server).await?,
        StreamWork::Batch { .. } => {
            executor.exchanges.enter_batch(&executor.long_call_slots, caller, server).await?
        }
    };
    let (events, receiver) = channel(MAX_UNREAD);
    let running = Running { context: context.clone(), who, org };
    running.log(work.audited()).await?;
    tokio::spawn(running.run(work, slots, events));
    Ok(receiver)
}

/// An exchange or a batch under way.
struct Running {
    context: RequestContext,
    who: Principal,
    org: Id<Org>,
}

impl Running {
    async fn run(
        self,
        mut work: StreamWork,
        slots: [Permit<Lane>; 2],
        events: Sender<StreamEvent>,
    ) {
        let begun = Instant::now();
        let executor = self.context.executor.clone();
        let (stopped, ended) = tokio::select! {
            ended = self.work_over(&mut work, &events) => (false, ended),
            () = events.closed() => (false, Ok(BatchEnd::Whole)),
            () = executor.stopped() => (true, Ok(BatchEnd::Whole)),
        };
        // Others do not wait for a client that takes the end slowly.
        drop(slots);
        let audited = work.audited();
        let concluded = match ended {
            Ok(end) => self.conclude(work, begun.elapsed(), end).await,
            Err(error) => Err(error),
        };
        // The entry before it is there: what was answered counts.
        if let Err(error) = self.log(audited).await {
            warn_unlogged(&error);
        }
        let last = match concluded {
            _ if stopped => {
                StreamEvent::Failed(Error::busy("stopping", "the server is stopping", 5))
            }
            Ok(answer) => StreamEvent::Done(answer),
            Err(error) => StreamEvent::Failed(error),
        };
        let _ = events.send_timeout(last, MAX_TEXT_STALL).await;
    }

    /// Makes all calls; returns how far a batch went.
    async fn work_over(
        &self,
        work: &mut StreamWork,
        events: &Sender<StreamEvent>,
    ) -> Result<BatchEnd> {
        let context = self.context.clone();
        let outside = context.executor.outside.clone().part_of(context.request.origin.trace);
        match work {
            StreamWork::Exchange(exchange, pauses) => {
                exchange_over(&outside, *pauses, &mut **exchange, events).await;
                Ok(BatchEnd::Whole)
            }
            StreamWork::Batch { batch, time, event } => {
                let deadline = Instant::now() + *time;
                let asking = Asking { batch: batch.clone(), context, outside, deadline };
                batch_over(RunningBatch::new(asking), event, events).await
            }
        }
    }

    /// Returns the answer.
    async fn conclude(&self, work: StreamWork, took: Duration, end: BatchEnd) -> Result<Vec<u8>> {
        match work {
            StreamWork::Exchange(exchange, _) => {
                let hints = WorkHints { bytes: 0, ..self.context.work };
                let conclude = move |view: &View| exchange.conclude(view, took);
                self.context.executor.store.read_in_turn(hints, self.org, None, conclude).await
            }
            // The answers take some megabytes. They were paid: no turn is waited for that may not come.
            StreamWork::Batch { batch, .. } => {
                let concluded = spawn_blocking(move || batch.conclude(end)).await;
                concluded.map_err(Error::internal)?
            }
        }
    }

    /// Writes an audit entry that names this.
    async fn log(&self, resource: ResourceRef) -> Result<()> {
        let (context, who) = (self.context.clone(), self.who.clone());
        let work = WorkHints { bytes: 0, ..context.work };
        let write = move |tx: &mut Tx| {
            tx.set_trace(context.request.origin.trace);
            // There is no log to write to once the organization is deleted.
            if !tx.view().has::<Organization>(&tx.org())? {
                return Ok(());
            }
            let audited = Audited {
                action: context.request.route.name,
                resource: Some(&resource),
                detail: None,
                peer: None,
                request_id: &context.request.origin.request_id,
                outcome: AuditOutcome::Success,
            };
            audit(tx, &who, audited)
        };
        self.context.executor.store.write_as(work, self.org, write).await
    }
}

fn warn_unlogged(error: &Error) {
    /// On a full disk every one fails so.
    static LIMIT: LogLimit = LogLimit::new();
    if let Some(suppressed) = LIMIT.admit(std::time::Instant::now()) {
        tracing::warn!(%error, suppressed, "the audit entry of the end of an exchange could not be written");
    }
}

/// Passes on what came of each thing of a batch, until all are done or the client takes nothing more, which is
/// as if the time were up; returns how far it went. Once the time is up the client is not waited for: it
/// would hold a slot, and the answer has what is not passed on.
async fn batch_over(
    mut running: RunningBatch,
    event: &'static str,
    events: &Sender<StreamEvent>,
) -> Result<BatchEnd> {
    let latest = running.latest_end();
    while let Some(done) = running.next().await? {
        let taken_by = latest.min(Instant::now() + MAX_TEXT_STALL);
        match timeout_at(taken_by, events.send(StreamEvent::Item(event, done))).await {
            Ok(Ok(())) => {}
            Err(_elapsed) if taken_by == latest => {}
            _ => return Ok(BatchEnd::Late),
        }
    }
    Ok(running.end())
}

/// Makes the calls of an exchange until none is left, or the client takes nothing more. The time of the first
/// one is that of all.
async fn exchange_over(
    outside: &Outside,
    pauses: Pauses,
    exchange: &mut dyn AnyExchange,
    events: &Sender<StreamEvent>,
) {
    let mut deadline = None;
    while let Some(mut call) = exchange.next_call() {
        let now = Instant::now();
        let deadline = *deadline.get_or_insert(now + call.limits.total);
        call.limits.total = call.limits.total.min(deadline.saturating_duration_since(now));
        let mut answer = match outside.open(call, pauses).await {
            Ok(answer) => answer,
            Err(failure) => {
                exchange.hear(Heard::Failed(&failure), &mut String::new());
                continue;
            }
        };
        let mut is_read = exchange.hear(Heard::Head(&answer.head), &mut String::new());
        while is_read {
            let mut text = String::new();
            is_read = match answer.next().await {
                Ok(Some(piece)) => exchange.hear(Heard::Piece(&piece), &mut text),
                Ok(None) => {
                    exchange.hear(Heard::End, &mut text);
                    false
                }
                Err(failure) => {
                    exchange.hear(Heard::Failed(&failure), &mut text);
                    false
                }
            };
            if text.is_empty() {
                continue;
            }
            let taken_by = deadline.min(Instant::now() + MAX_TEXT_STALL);
            let taken = timeout_at(taken_by, events.send(StreamEvent::Text(text))).await;
            if !matches!(taken, Ok(Ok(()))) {
                return;
            }
        }
    }
}
