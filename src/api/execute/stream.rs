//! Answers of other servers that are passed on as they come.
//!
//! The calls are made by a task of their own: when the client goes away, it ends the call and still
//! writes the audit entry, since what was called may cost money.

use std::time::Duration;

use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::time::{Instant, timeout};

use super::audit::audit;
use super::context::RequestContext;
use crate::api::audit::{AuditOutcome, Audited};
use crate::api::exchange::{AnyExchange, Heard, Prepared, StreamAction};
use crate::api::request::Principal;
use crate::auth::Organization;
use crate::base::{Error, Id, Result};
use crate::outside::{Outside, Pauses};
use crate::store::{Lane, Org, Permit, Tx, WorkHints};

/// Parts of the text that wait for a slow client.
const MAX_UNREAD: usize = 16;

/// A client that takes nothing for this long is considered gone.
const MAX_STALL: Duration = Duration::from_secs(30);

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
}

impl TextStream {
    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<StreamEvent> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.rest.recv().await,
        }
    }
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
    Err(Error::internal("an exchange has no end"))
}

/// Starts a stream of the text of an exchange. Errors known now are ordinary responses.
pub async fn stream(context: &RequestContext, action: StreamAction) -> Result<TextStream> {
    let mut rest = begin(context, action).await?;
    let first = match timeout(FIRST_WAIT, rest.recv()).await {
        Ok(Some(StreamEvent::Failed(error))) => return Err(error),
        Ok(first) => first,
        Err(_elapsed) => None,
    };
    Ok(TextStream { first, rest })
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
    let slots = [
        executor.exchanges.of_caller.enter([person, organization], 0).await?,
        executor.exchanges.of_server.enter([server, organization], 0).await?,
    ];
    let (events, receiver) = channel(MAX_UNREAD);
    let running = Running { context: context.clone(), who, org, pauses, _slots: slots };
    tokio::spawn(running.run(exchange, events));
    Ok(receiver)
}

/// An exchange under way.
struct Running {
    context: RequestContext,
    who: Principal,
    org: Id<Org>,
    pauses: Pauses,
    _slots: [Permit<Lane>; 2],
}

impl Running {
    async fn run(self, mut exchange: Box<dyn AnyExchange>, events: Sender<StreamEvent>) {
        let begun = Instant::now();
        let executor = self.context.executor.clone();
        let outside = executor.outside.clone().part_of(self.context.request.origin.trace);
        let stopped = tokio::select! {
            () = exchange_over(&outside, self.pauses, &mut *exchange, &events) => false,
            () = events.closed() => false,
            () = executor.stopped() => true,
        };
        let concluded = self.conclude(exchange, begun.elapsed()).await;
        let last = match concluded {
            _ if stopped => {
                StreamEvent::Failed(Error::busy("stopping", "the server is stopping", 5))
            }
            Ok(answer) => StreamEvent::Done(answer),
            Err(error) => StreamEvent::Failed(error),
        };
        let _ = events.send_timeout(last, MAX_STALL).await;
    }

    /// Writes the audit entry, whatever came of it; returns the answer.
    async fn conclude(&self, exchange: Box<dyn AnyExchange>, took: Duration) -> Result<Vec<u8>> {
        let (context, who) = (self.context.clone(), self.who.clone());
        let work = WorkHints { bytes: 0, ..context.work };
        let conclude = move |tx: &mut Tx| {
            tx.set_trace(context.request.origin.trace);
            let answer = exchange.conclude(&tx.view(), took);
            // There is no log to write to once the organization is deleted.
            if !tx.view().has::<Organization>(&tx.org())? {
                return Ok(answer);
            }
            let resource = exchange.audited();
            let audited = Audited {
                action: context.request.route.name,
                resource: Some(&resource),
                detail: None,
                peer: None,
                request_id: &context.request.origin.request_id,
                outcome: AuditOutcome::Success,
            };
            audit(tx, &who, audited)?;
            Ok(answer)
        };
        self.context.executor.store.write_as(work, self.org, conclude).await?
    }
}

/// Makes the calls of an exchange until none is left, or the client takes nothing more.
async fn exchange_over(
    outside: &Outside,
    pauses: Pauses,
    exchange: &mut dyn AnyExchange,
    events: &Sender<StreamEvent>,
) {
    while let Some(call) = exchange.next_call() {
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
            if events.send_timeout(StreamEvent::Text(text), MAX_STALL).await.is_err() {
                return;
            }
        }
    }
}
