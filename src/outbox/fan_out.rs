//! Publishing and fan-out: an event becomes a delivery for each channel subscribed to its type.
//!
//! The fan-out runs after the commit, so that the transaction that causes an event does not grow
//! with the number of channels. The deliveries are committed together with the end of the job:
//! after a crash before that commit there are none, and the job runs again.

use serde_json::Value;

use super::channels::SUBSCRIBED;
use super::delivering;
use super::events::{About, Event, EventType, find_event};
use super::handlers::{JobHandler, Prepared, enqueue, no_effect};
use super::jobs::Job;
use crate::base::{Json, Result};
use crate::store::Tx;

/// Writes an event in the transaction that causes it. `payload` has ids and names of what the event
/// is about: members read it in the log, and channels send it.
///
/// The caller's [`Resource`](crate::api::Resource) entry must list `event_type` among its events.
pub fn publish(tx: &mut Tx, event_type: EventType, about: About, payload: Value) -> Result<()> {
    let event = Event {
        id: tx.new_id(),
        event_type,
        about,
        payload: Json(payload),
        created_at: tx.now(),
        attempts: 1,
        sent_at: tx.now(),
        trace: tx.trace(),
    };
    tx.insert(&event)?;
    // One lookup in an index that is empty for most types: only subscribed events cost more.
    if tx.count(&SUBSCRIBED, &(event_type), 1)? > 0 {
        enqueue(tx, &FAN_OUT, event.id.cast(), None, event.created_at)?;
    }
    Ok(())
}

/// The job that creates the deliveries of an event; its target is the event.
pub(super) const FAN_OUT: JobHandler =
    JobHandler { kind: "event.fan_out", prepare: fan_out, settle: no_effect };

fn fan_out(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    // The retention job may have removed it.
    let Some(event) = find_event(&tx.view(), job.target.cast())? else {
        return Ok(Prepared::Done);
    };
    for subscription in tx.all(&SUBSCRIBED, &(event.event_type))? {
        // A subscription created after the event applies to later events only.
        if subscription.created_at <= event.created_at {
            delivering::create(tx, &event, subscription.channel)?;
        }
    }
    Ok(Prepared::Done)
}
