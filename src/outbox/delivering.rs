//! Making deliveries: a job tries each until it is sent or dead, or waits for its channel.

use super::channels::{self, Channel};
use super::deliveries::{Delivery, DeliveryAttempt, DeliveryStatus, Notice};
use super::effects::EffectResult;
use super::events::{Event, find_event};
use super::handlers::{JobHandler, Prepared, Settled, enqueue, retry_at, was_given_up};
use super::jobs::{Job, readable};
use crate::base::{Id, Result, Time};
use crate::store::Tx;

// ── Scheduling ───────────────────────────────────────────────────────────────

/// Creates the delivery of an event through a channel, due at once.
pub(super) fn create(tx: &mut Tx, event: &Event, channel: Id<Channel>) -> Result<()> {
    let delivery = Delivery {
        id: tx.new_id(),
        channel,
        event: event.id,
        event_type: event.event_type,
        guarded_by: event.guards(),
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

/// Schedules a delivery again from now on, whatever its status; returns the scheduled delivery. The
/// result of an attempt in flight is ignored.
pub(super) fn schedule(tx: &mut Tx, delivery: &Delivery) -> Result<Delivery> {
    if let Some(job) = delivery.job
        && let Some(job) = readable(&tx.view(), &job)?
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

/// The job that delivers; its target is the delivery, its concurrency key the channel.
pub(super) const DELIVER: JobHandler = JobHandler { kind: "event.deliver", prepare, settle };

fn prepare(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let Some(delivery) = of(tx, job)? else { return Ok(Prepared::Done) };
    if was_given_up(job) {
        let why = "the server could not deliver it for a day; its log says why";
        tx.replace(&delivery, &delivery.dead(why.into()))?;
        return Ok(Prepared::Done);
    }
    let Some(channel) = tx.get::<Channel>(&delivery.channel)? else {
        tx.replace(&delivery, &delivery.without_channel())?;
        return Ok(Prepared::Done);
    };
    if !channel.enabled {
        tx.replace(&delivery, &Delivery { next_attempt_at: None, job: None, ..delivery.clone() })?;
        return Ok(Prepared::Done);
    }
    let Some(event) = find_event(&tx.view(), delivery.event)? else {
        tx.replace(&delivery, &delivery.dead("the event is no longer kept".into()))?;
        return Ok(Prepared::Done);
    };
    let notice = Notice::of(&delivery, event);
    Ok(Prepared::Delivery(Box::new(DeliveryAttempt { channel, notice })))
}

fn settle(tx: &mut Tx, job: &Job, result: &EffectResult) -> Result<Settled> {
    let Some(old) = of(tx, job)? else { return Ok(Settled::Done) };
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
    if result.is_gone() && end_channel(tx, job, old.channel)? {
        tx.replace(&old, &ended.dead(error))?;
        return Ok(Settled::Done);
    }
    // A delivery that is retried on request has a new job, and 24 hours from its creation.
    let Some(at) = retry_at(now, job.created_at, job.attempts) else {
        tx.replace(&old, &ended.dead(error))?;
        return Ok(Settled::Done);
    };
    let at = jittered(tx, at);
    let failed = Delivery { error: Some(error), next_attempt_at: Some(at), ..ended };
    tx.replace(&old, &failed)?;
    Ok(Settled::RetryAt(at))
}

/// Returns the delivery of a job; none if it is gone, or has another job.
fn of(tx: &Tx, job: &Job) -> Result<Option<Delivery>> {
    let delivery: Option<Delivery> = tx.get(&job.target.cast())?;
    Ok(delivery.filter(|delivery| delivery.job == Some(job.id)))
}

/// Disables the channel whose receiver is gone. Returns whether it is off, or deleted: one that was
/// changed since the attempt began may have another receiver, and is tried again.
fn end_channel(tx: &mut Tx, job: &Job, id: Id<Channel>) -> Result<bool> {
    let Some(channel) = tx.get::<Channel>(&id)? else { return Ok(true) };
    if channel.enabled && channel.updated_at > job.leased_at() {
        return Ok(false);
    }
    if channel.enabled {
        channels::replace_enabled(tx, &channel, false, None)?;
    }
    Ok(true)
}

/// Moves `at` forward by up to a tenth of its delay, so that deliveries that failed together are
/// not retried together.
fn jittered(tx: &Tx, at: Time) -> Time {
    let delay = at.millis() - tx.now().millis();
    let random = i64::from(u16::from_be_bytes(tx.random()));
    at.plus_millis(-(delay / 10 * random / i64::from(u16::MAX)))
}
