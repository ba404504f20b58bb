//! Publishing and fan-out: an event becomes a delivery for each channel subscribed to its type.
//!
//! The fan-out runs after the commit, so that the transaction that causes an event does not grow
//! with the number of channels. The deliveries are committed together with the end of the job: if
//! the process dies before, none is there, and the job runs again.

use serde_json::Value;

use super::channels::SUBSCRIBED;
use super::delivering;
use super::events::{About, Event, EventType, find_event};
use super::handlers::{JobHandler, Prepared, enqueue, no_effect};
use super::jobs::Job;
use crate::base::{Json, Result};
use crate::store::Tx;

/// Writes an event in the transaction that causes it. `payload` holds ids and names of what it is
/// about: members read it in the log, and channels send it.
///
/// The caller's [`Resource`](crate::api::Resource) entry lists `event_type` among its events.
///
/// # Errors
/// If the store fails.
pub fn publish(tx: &mut Tx, event_type: EventType, about: About, payload: Value) -> Result<()> {
    let event = Event {
        id: tx.new_id(),
        event_type,
        about,
        payload: Json(payload),
        created_at: tx.now(),
        attempts: 1,
        sent_at: tx.now(),
    };
    tx.insert(&event)?;
    // One look at an index, empty for most types: only what somebody subscribed to costs more.
    if tx.count(&SUBSCRIBED, &(event_type), 1)? > 0 {
        enqueue(tx, &FAN_OUT, event.id.cast(), None, event.created_at)?;
    }
    Ok(())
}

/// Makes the deliveries of an event; the target is the event.
pub(super) const FAN_OUT: JobHandler =
    JobHandler { kind: "event.fan_out", prepare: fan_out, settle: |_, job, _| Err(no_effect(job)) };

fn fan_out(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    // Retention may have removed it meanwhile.
    let Some(event) = find_event(&tx.view(), job.target.cast())? else {
        return Ok(Prepared::Done);
    };
    for subscription in tx.all(&SUBSCRIBED, &(event.event_type))? {
        // One that was made since the event is for later ones.
        if subscription.created_at <= event.created_at {
            delivering::create(tx, &event, subscription.channel)?;
        }
    }
    Ok(Prepared::Done)
}
