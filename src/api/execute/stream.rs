//! Answers of other servers that are passed on as they come.
//!
//! The calls are made by a task of their own: when the client goes away, it ends the call and still
//! writes the audit entry, since what was called may cost money. One before the first call says what begins:
//! what cannot be logged is not asked.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout, timeout_at};

use super::audit::audit;
use super::context::RequestContext;
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::exchange::{AnyExchange, Heard, Prepared, StreamAction};
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
        self.is_over = !matches!(next, StreamEvent::Text(_));
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
            StreamEvent::Text(_) => {}
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
    let Prepared { exchange, server, pauses } = prepared;
    let (person, organization) = (context.work.user, *org.bytes());
    executor.coordination.take_exchange(person, organization)?;
    let slots = executor.exchanges.enter([person, organization], server).await?;
    let (events, receiver) = channel(MAX_UNREAD);
    let running = Running { context: context.clone(), who, org, pauses };
    running.log(exchange.audited()).await?;
    tokio::spawn(running.run(exchange, slots, events));
    Ok(receiver)
}

/// An exchange under way.
struct Running {
    context: RequestContext,
    who: Principal,
    org: Id<Org>,
    pauses: Pauses,
}

impl Running {
    async fn run(
        self,
        mut exchange: Box<dyn AnyExchange>,
        slots: [Permit<Lane>; 2],
        events: Sender<StreamEvent>,
    ) {
        let begun = Instant::now();
        let executor = self.context.executor.clone();
        let outside = executor.outside.clone().part_of(self.context.request.origin.trace);
        let stopped = tokio::select! {
            () = exchange_over(&outside, self.pauses, &mut *exchange, &events) => false,
            () = events.closed() => false,
            () = executor.stopped() => true,
        };
        // Others do not wait for a client that takes the end slowly.
        drop(slots);
        let audited = exchange.audited();
        let concluded = self.conclude(exchange, begun.elapsed()).await;
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

    /// Returns the answer.
    async fn conclude(&self, exchange: Box<dyn AnyExchange>, took: Duration) -> Result<Vec<u8>> {
        let work = WorkHints { bytes: 0, ..self.context.work };
        let conclude = move |view: &View| exchange.conclude(view, took);
        self.context.executor.store.read_in_turn(work, self.org, None, conclude).await
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
