//! Deliveries: events on their way through the channels that are subscribed to them.
//!
//! A delivery that is not done has a job, which it names, or waits for its channel to be switched
//! on. It stays in the log, whatever became of it, as long as its event.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::channels::{self, Channel};
use super::effects::EffectResult;
use super::events::{Event, EventType, find_event};
use super::jobs::{Job, JobHandler, Prepared, Settled, enqueue, retry_at};
use super::log::LogEntry;
use crate::base::{Id, Result, Time};
use crate::store::check::Findings;
use crate::store::{AnyIndex, Index, Order, Record, Source, Step, Tx, View};

/// How far a log entry has come (interface §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema)]
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
pub type Facts = (Time, Id<LogEntry>, (u8, Id<Channel>, u8));

fn facts(delivery: &Delivery) -> Facts {
    let filtered = (delivery.event_type as u8, delivery.channel, delivery.status as u8);
    (delivery.created_at, delivery.id, filtered)
}

/// Deliveries by time.
pub(super) static BY_TIME: Index<Delivery, ((), Facts)> =
    Index::many("deliveries.by_time", |delivery| Some(((), facts(delivery))));

/// Deliveries by the type of the event.
pub(super) static BY_TYPE: Index<Delivery, (u8, Facts)> =
    Index::many("deliveries.by_type", |delivery| {
        Some((delivery.event_type as u8, facts(delivery)))
    });

/// Deliveries by channel.
pub(super) static BY_CHANNEL: Index<Delivery, (Id<Channel>, Facts)> =
    Index::many("deliveries.by_channel", |delivery| Some((delivery.channel, facts(delivery))));

/// What was not delivered, by status. What was delivered is most of the log.
pub(super) static UNSENT: Index<Delivery, (u8, Facts)> =
    Index::many("deliveries.unsent", |delivery| match delivery.status {
        DeliveryStatus::Sent => None,
        DeliveryStatus::Failed | DeliveryStatus::Dead => {
            Some((delivery.status as u8, facts(delivery)))
        }
    });

/// What waits for its channel to be switched on.
pub(super) static WAITING: Index<Delivery, Id<Channel>> =
    Index::many("deliveries.waiting", |delivery| delivery.is_waiting().then_some(delivery.channel));

impl Record for Delivery {
    const TABLE: &'static str = "deliveries";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_TIME, &BY_TYPE, &BY_CHANNEL, &UNSENT, &WAITING];
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

// ── Scheduling ───────────────────────────────────────────────────────────────

/// Writes the delivery of an event through a channel, to be tried at once.
pub(super) fn create(tx: &mut Tx, event: &Event, channel: Id<Channel>) -> Result<()> {
    let delivery = Delivery {
        id: tx.new_id(),
        channel,
        event: event.id,
        event_type: event.event_type,
        created_at: event.created_at,
        status: DeliveryStatus::Failed,
        attempts: 0,
        error: None,
        sent_at: None,
        next_attempt_at: None,
        job: None,
    };
    let delivery = with_job(tx, &delivery)?;
    tx.insert(&delivery)
}

/// Tries a delivery again from now on, whatever its status; returns it as it is then. An attempt
/// under way changes nothing any more.
pub(super) fn schedule(tx: &mut Tx, delivery: &Delivery) -> Result<Delivery> {
    if let Some(job) = delivery.job
        && let Some(job) = tx.get::<Job>(&job)?
    {
        tx.remove(&job)?;
    }
    let scheduled = with_job(tx, delivery)?;
    tx.replace(delivery, &scheduled)?;
    Ok(scheduled)
}

fn with_job(tx: &mut Tx, delivery: &Delivery) -> Result<Delivery> {
    let now = tx.now();
    let job = enqueue(tx, &DELIVER, delivery.id.cast(), Some(delivery.channel.cast()), now)?;
    Ok(Delivery {
        status: DeliveryStatus::Failed,
        next_attempt_at: Some(now),
        job: Some(job),
        ..delivery.clone()
    })
}

// ── Delivering ───────────────────────────────────────────────────────────────

/// Delivers; the target is the delivery, the concurrency key its channel.
pub(super) const DELIVER: JobHandler = JobHandler { kind: "event.deliver", prepare, settle };

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let Some(delivery) = tx.get::<Delivery>(&job.target.cast())? else { return Ok(Prepared::Done) };
    let Some(channel) = tx.get::<Channel>(&delivery.channel)? else {
        tx.replace(&delivery, &dead(&delivery, "the channel was deleted".into()))?;
        return Ok(Prepared::Done);
    };
    if !channel.enabled {
        tx.replace(&delivery, &Delivery { next_attempt_at: None, job: None, ..delivery.clone() })?;
        return Ok(Prepared::Done);
    }
    let Some(event) = find_event(&tx.view(), delivery.event)? else {
        tx.replace(&delivery, &dead(&delivery, "the event is no longer kept".into()))?;
        return Ok(Prepared::Done);
    };
    Ok(Prepared::Delivery(Box::new(DeliveryAttempt { delivery, event, channel })))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    /// The receiver will never want anything again (RFC 9110).
    const GONE: u16 = 410;
    let Some(old) = tx.get::<Delivery>(&job.target.cast())? else { return Ok(Settled::Done) };
    let now = tx.now();
    let ended = Delivery { attempts: old.attempts + 1, ..old.clone() };
    let Some(error) = result.failure("the channel's address") else {
        let status = DeliveryStatus::Sent;
        let sent_at = Some(now);
        let sent =
            Delivery { status, error: None, sent_at, next_attempt_at: None, job: None, ..ended };
        tx.replace(&old, &sent)?;
        return Ok(Settled::Done);
    };
    if matches!(result, EffectResult::Answer(answer) if answer.status == GONE) {
        if let Some(channel) = tx.get::<Channel>(&old.channel)? {
            channels::set_enabled(tx, &channel, false)?;
        }
        tx.replace(&old, &dead(&ended, error))?;
        return Ok(Settled::Done);
    }
    // A delivery that is tried again at somebody's wish has a new job, and a day from there.
    let Some(at) = retry_at(now, job.created_at, job.attempts) else {
        tx.replace(&old, &dead(&ended, error))?;
        return Ok(Settled::Done);
    };
    let at = jittered(tx, at);
    let failed = Delivery { error: Some(error), next_attempt_at: Some(at), ..ended };
    tx.replace(&old, &failed)?;
    Ok(Settled::RetryAt(at))
}

fn dead(delivery: &Delivery, error: String) -> Delivery {
    let (status, error) = (DeliveryStatus::Dead, Some(error));
    Delivery { status, error, next_attempt_at: None, job: None, ..delivery.clone() }
}

/// A time up to a tenth of its delay sooner, so that what failed together is not tried together.
fn jittered(tx: &Tx, at: Time) -> Time {
    let delay = at.millis() - tx.now().millis();
    let random = i64::from(u16::from_be_bytes(tx.random()));
    at.plus_millis(-(delay / 10 * random / i64::from(u16::MAX)))
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
        Ok(Step::More)
    })
}
