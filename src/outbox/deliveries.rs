//! Deliveries: events on their way through the channels that are subscribed to them.
//!
//! A delivery that is not done has a job, which it names, or waits for its channel to be switched
//! on. It stays in the log, whatever became of it, as long as its event.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::channels::{Channel, in_app};
use super::events::{Event, EventType, find_event};
use super::jobs::Job;
use crate::base::{Id, Json, JsonMap, Result, Time};
use crate::store::check::Findings;
use crate::store::{AnyIndex, Index, Order, Org, Record, Source, View};

/// How far a log entry has come (reference: events, "The log").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "Delivery")]
pub enum DeliveryStatus {
    /// Delivered.
    Sent,
    /// Not yet delivered, or the last attempt failed.
    Failed,
    /// Given up.
    Dead,
}
crate::store::stored_enum!(DeliveryStatus { Sent = 0, Failed = 1, Dead = 2 });

/// An event on its way through a channel other than the built-in one.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Delivery {
    /// Its id in the log, which also names it to the receiver.
    pub id: Id<LogEntry>,
    /// The channel, which may have been deleted since.
    pub channel: Id<Channel>,
    /// The event.
    pub event: Id<Event>,
    /// The event's type, by which the log is filtered.
    pub event_type: EventType,
    /// When the event happened, by which the log is ordered.
    pub created_at: Time,
    /// How far it has come.
    pub status: DeliveryStatus,
    /// How many attempts have ended.
    pub attempts: u32,
    /// Why the last one failed.
    pub error: Option<String>,
    /// When it was delivered last.
    pub sent_at: Option<Time>,
    /// When it is tried next; none if it is done, dead or waits for its channel.
    pub next_attempt_at: Option<Time>,
    /// The job that tries it.
    pub job: Option<Id<Job>>,
}

/// What the log is ordered by, when and id, and what it is filtered by: the [`EventType`], the
/// channel and the [`DeliveryStatus`]. Every index of the log holds them, so that entries are
/// filtered and counted without being read.
pub type Facts = (Time, Id<LogEntry>, (EventType, Id<Channel>, DeliveryStatus));

fn facts(delivery: &Delivery) -> Facts {
    let filtered = (delivery.event_type, delivery.channel, delivery.status);
    (delivery.created_at, delivery.id, filtered)
}

/// Deliveries by time.
pub(super) static BY_TIME: Index<Delivery, ((), Facts)> =
    Index::many("deliveries.by_time", |delivery| Some(((), facts(delivery))));

/// Deliveries by the type of the event.
pub(super) static BY_TYPE: Index<Delivery, (EventType, Facts)> =
    Index::many("deliveries.by_type", |delivery| Some((delivery.event_type, facts(delivery))));

/// Deliveries by channel.
pub(super) static BY_CHANNEL: Index<Delivery, (Id<Channel>, Facts)> =
    Index::many("deliveries.by_channel", |delivery| Some((delivery.channel, facts(delivery))));

/// What was not delivered, by status. What was delivered is most of the log.
pub(super) static UNDELIVERED: Index<Delivery, (DeliveryStatus, Facts)> =
    Index::many("deliveries.unsent", |delivery| match delivery.status {
        DeliveryStatus::Sent => None,
        DeliveryStatus::Failed | DeliveryStatus::Dead => Some((delivery.status, facts(delivery))),
    });

/// What waits for its channel to be switched on.
pub(super) static WAITING: Index<Delivery, Id<Channel>> =
    Index::many("deliveries.waiting", |delivery| delivery.is_waiting().then_some(delivery.channel));

impl Record for Delivery {
    const TABLE: &'static str = "deliveries";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_TIME, &BY_TYPE, &BY_CHANNEL, &UNDELIVERED, &WAITING];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("channel", "history: the channel may be gone; its jobs end what is not delivered then"),
        ("event", "retention removes deliveries before their event; check_deliveries verifies it"),
        ("job", "a job ends together with the change of its delivery; check_deliveries verifies it"),
    ];
    type Key = Id<LogEntry>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

impl Delivery {
    fn is_waiting(&self) -> bool {
        self.status == DeliveryStatus::Failed && self.job.is_none()
    }
}

/// An event about to be delivered through a channel.
pub struct DeliveryAttempt {
    /// The delivery; its id names it to the receiver, the same at every attempt.
    pub delivery: Delivery,
    /// The event.
    pub event: Event,
    /// The channel.
    pub channel: Channel,
}

// ── In the log ───────────────────────────────────────────────────────────────

/// One event on its way through one channel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Its id.
    pub id: Id<LogEntry>,
    /// What happened.
    pub event_type: EventType,
    /// The channel it goes through.
    pub channel_id: Id<Channel>,
    /// How far it has come.
    pub status: DeliveryStatus,
    /// How often delivery was tried.
    pub attempts: u32,
    /// Ids and names of what it is about.
    #[schemars(with = "JsonMap")]
    pub payload: Json,
    /// Why the last attempt failed.
    pub error: Option<String>,
    /// When it happened.
    pub created_at: Time,
    /// When it was delivered.
    pub sent_at: Option<Time>,
    /// When delivery is tried next.
    pub next_attempt_at: Option<Time>,
}

impl LogEntry {
    /// The entry of an event in the built-in channel of its organization.
    pub(super) fn of_event(org: Id<Org>, event: Event) -> Self {
        LogEntry {
            id: event.id.cast(),
            event_type: event.event_type,
            channel_id: in_app(org),
            status: DeliveryStatus::Sent,
            attempts: event.attempts,
            payload: event.payload,
            error: None,
            created_at: event.created_at,
            sent_at: Some(event.sent_at),
            next_attempt_at: None,
        }
    }

    /// The entry of a delivery of this event.
    pub(super) fn of_delivery(delivery: Delivery, event: Event) -> Self {
        LogEntry {
            id: delivery.id,
            event_type: delivery.event_type,
            channel_id: delivery.channel,
            status: delivery.status,
            attempts: delivery.attempts,
            payload: event.payload,
            error: delivery.error,
            created_at: delivery.created_at,
            sent_at: delivery.sent_at,
            next_attempt_at: delivery.next_attempt_at,
        }
    }
}

// ── Consistency ──────────────────────────────────────────────────────────────

/// Verifies that every delivery has its event and, while it is scheduled, its job.
///
/// # Errors
/// If a record cannot be read or the store fails.
pub fn check_deliveries(view: &View, findings: &mut Findings) -> Result<()> {
    view.each(Source::TABLE, &(), Order::Ascending, |delivery: Delivery| {
        let id = delivery.id;
        if find_event(view, delivery.event)?.is_none() {
            findings.note(format!("delivery {id}: its event {} is missing", delivery.event));
        }
        if let Some(job) = delivery.job
            && !view.has::<Job>(&job)?
        {
            findings.note(format!("delivery {id}: its job {job} is missing"));
        }
        Ok(ControlFlow::Continue(()))
    })
}
