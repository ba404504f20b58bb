//! Deliveries: events on their way through the channels that are subscribed to them.
//!
//! An unfinished delivery refers to the job that tries it, or waits for its channel to be enabled.
//! Whatever its result, it stays in the log as long as its event.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::channels::{Channel, in_app};
use super::events::{Event, EventType};
use super::guards::Guards;
use super::jobs::Job;
use crate::base::{Id, Json, JsonMap, Result, Time, word};
use crate::store::check::Findings;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Org, Record, Reference, Tx, View,
};

/// The status of a delivery (reference: notifications, "The log").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DeliveryStatus {
    /// Delivered.
    Sent,
    /// Not yet delivered, or the last attempt failed.
    Failed,
    /// Given up; it is not retried automatically.
    Dead,
}
crate::store::stored_enum!(DeliveryStatus { Sent = 0, Failed = 1, Dead = 2 });

impl DeliveryStatus {
    /// All statuses.
    pub const ALL: [Self; 3] = [Self::Sent, Self::Failed, Self::Dead];
}

crate::base::portable! {
/// An event on its way through a channel other than the built-in one.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Delivery {
    /// Its id in the log, which is also sent to the receiver.
    pub id: Id<LogEntry>,
    /// The channel, which may be deleted.
    pub channel: Id<Channel>,
    pub event: Id<Event>,
    /// The event's type; a filter of the log.
    pub event_type: EventType,
    /// The restrictable resources that the event belongs to; see [`About`](super::About).
    pub guarded_by: Vec<Id<()>>,
    /// When the event happened; the order of the log.
    pub created_at: Time,
    pub status: DeliveryStatus,
    /// The number of finished attempts.
    pub attempts: u32,
    /// The error of the last failed attempt.
    pub error: Option<String>,
    /// When it was last delivered.
    pub sent_at: Option<Time>,
    /// When it is tried next; none if it is sent, dead or waits for its channel.
    pub next_attempt_at: Option<Time>,
    /// The job that tries it.
    pub job: Option<Id<Job>>,
}
}

/// The order of the log, time and id, followed by what guards the event. Every index of the log ends
/// with them, so that entries are left out for members and counted without reading records.
pub type Place = (Time, Id<LogEntry>, Guards);

fn place(delivery: &Delivery) -> Place {
    (delivery.created_at, delivery.id, Guards::of(&delivery.guarded_by))
}

/// Deliveries by time.
pub(super) static BY_TIME: Index<Delivery, ((), Place)> =
    Index::non_unique("deliveries.by_time", |delivery| Some(((), place(delivery))));

/// Deliveries by status and type of the event. There are few of both: a filter by one of them is a
/// merge over the values of the other.
pub(super) static BY_STATUS: Index<Delivery, ((DeliveryStatus, EventType), Place)> =
    Index::non_unique("deliveries.by_status", |delivery| {
        Some(((delivery.status, delivery.event_type), place(delivery)))
    });

/// The deliveries of a channel, in the same way.
pub(super) static BY_CHANNEL: Index<Delivery, (InChannel, Place)> =
    Index::non_unique("deliveries.by_channel", |delivery| {
        let of = (delivery.channel, delivery.status, delivery.event_type);
        Some((of, place(delivery)))
    });

/// What deliveries of a channel are filtered by.
pub(super) type InChannel = (Id<Channel>, DeliveryStatus, EventType);

/// Deliveries that wait for their channel to be enabled.
pub(super) static WAITING: Index<Delivery, Id<Channel>> =
    Index::non_unique("deliveries.waiting", |delivery| {
        delivery.is_waiting().then_some(delivery.channel)
    });

/// The deliveries that wait for a channel end with it. The others end at their next attempt, or are
/// history.
static CHANNEL: Reference<Delivery, Channel> = Reference::clear(
    &["channel"],
    |_, delivery: &Delivery, _| Ok(delivery.without_channel()),
    |channel: &Channel| channel.id.to_bytes(),
    |delivery: &Delivery, _| {
        let channel = delivery.is_waiting().then_some(delivery.channel);
        channel.iter().map(Key::to_bytes).collect()
    },
)
.by(&WAITING)
.deferred();

/// The deliveries of one event are found among those of its millisecond.
static EVENT: Reference<Delivery, Event> = Reference::cascade(
    &["event"],
    |event: &Event| event.created_at.to_bytes(),
    |delivery: &Delivery, _| vec![(delivery.created_at, delivery.event).to_bytes()],
)
.by(&BY_TIME);

impl Record for Delivery {
    const TABLE: &'static str = "deliveries";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_TIME, &BY_STATUS, &BY_CHANNEL, &WAITING];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&CHANNEL, &EVENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("guarded_by", "history: the resource may have been deleted since"),
        (
            "job",
            "a job ends together with the change of its delivery; check_deliveries verifies it",
        ),
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

    /// Returns the delivery given up, for this reason.
    pub(super) fn dead(&self, error: String) -> Self {
        let (status, error) = (DeliveryStatus::Dead, Some(error));
        Delivery { status, error, next_attempt_at: None, job: None, ..self.clone() }
    }

    /// Returns the delivery given up because its channel was deleted.
    pub(super) fn without_channel(&self) -> Self {
        self.dead("the channel was deleted".into())
    }
}

/// An attempt to deliver a notice through a channel.
pub struct DeliveryAttempt {
    pub channel: Channel,
    pub notice: Notice,
}

/// What a channel delivers: an event, or a test of the channel.
#[derive(Clone, Debug, PartialEq)]
pub struct Notice {
    /// Its id in the log, the same at every attempt, so that the receiver can drop duplicates.
    pub id: Id<LogEntry>,
    /// The type of the event; none for a test.
    pub event_type: Option<EventType>,
    /// When it happened.
    pub at: Time,
    /// Ids and names of what it is about.
    pub payload: Json,
    /// The restrictable resources that it belongs to; see [`About`](super::About).
    pub guarded_by: Vec<Id<()>>,
}

/// The type of a test in place of that of an event.
pub const TEST_TYPE: &str = "channel.test";

impl Notice {
    /// Returns the notice of an event in a channel.
    pub(super) fn of(delivery: &Delivery, event: Event) -> Self {
        // Not those of the delivery: an earlier version may have created it, which said less.
        let guarded_by = event.guards();
        Notice {
            id: delivery.id,
            event_type: Some(event.event_type),
            at: event.created_at,
            payload: event.payload,
            guarded_by,
        }
    }

    /// Returns its type as receivers see it: that of the event, or `channel.test`.
    pub fn kind(&self) -> String {
        self.event_type.map_or_else(|| TEST_TYPE.into(), word)
    }
}

// ── In the log ───────────────────────────────────────────────────────────────

/// An entry of the notification log: one event in one channel.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LogEntry {
    /// Identifier of the entry.
    pub id: Id<LogEntry>,
    /// Type of the event.
    pub event_type: EventType,
    /// Channel through which the event is delivered; it may be deleted.
    pub channel_id: Id<Channel>,
    /// Status of the delivery.
    pub status: DeliveryStatus,
    /// Number of delivery attempts.
    pub attempts: u32,
    /// Ids and names of the resources that the event is about.
    #[schemars(with = "JsonMap")]
    pub payload: Json,
    /// Error of the last failed attempt.
    pub error: Option<String>,
    /// Time of the event.
    pub created_at: Time,
    /// Time of the last successful delivery.
    pub sent_at: Option<Time>,
    /// Time of the next attempt; `null` if none is scheduled.
    pub next_attempt_at: Option<Time>,
    /// Trace of the request that caused the event, if it had a `traceparent`: 32 hexadecimal digits.
    pub trace_id: Option<String>,
}

impl LogEntry {
    /// Returns the entry of an event in the built-in channel of its organization.
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
            trace_id: event.trace.map(|trace| trace.trace_id()),
        }
    }

    /// Returns the entry of a delivery of this event.
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
            trace_id: event.trace.map(|trace| trace.trace_id()),
        }
    }
}

// ── Consistency ──────────────────────────────────────────────────────────────

/// Verifies that the job of every scheduled delivery exists.
pub fn check_deliveries(view: &View, findings: &mut Findings) -> Result<()> {
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |delivery: Delivery| {
        let id = delivery.id;
        if let Some(job) = delivery.job
            && !view.has::<Job>(&job)?
        {
            findings.report(format!("delivery {id}: its job {job} is missing"));
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// Gives up deliveries whose job is gone, a hundred at once: nothing would try them. Returns what was
/// wrong, if anything was.
pub fn mend_deliveries(tx: &mut Tx) -> Result<Option<String>> {
    let (view, mut lost) = (tx.view(), Vec::new());
    view.for_each(ListSource::TABLE, &(), Order::Ascending, |delivery: Delivery| {
        if let Some(job) = delivery.job
            && !view.has::<Job>(&job)?
        {
            lost.push(delivery);
        }
        let is_full = lost.len() == 100;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for old in &lost {
        let (status, error) = (DeliveryStatus::Dead, Some("its job was lost".to_string()));
        let new = Delivery { status, error, job: None, next_attempt_at: None, ..old.clone() };
        tx.replace(old, &new)?;
    }
    Ok(lost.first().map(|_| "its job is gone".to_string()))
}
