//! Fan-out: turns an event into a delivery for each channel that is subscribed to its type.
//!
//! It runs after the commit, so that the transaction that causes an event does not grow with the
//! number of channels. The deliveries are committed together with the end of the job: if the
//! process dies before, none is there, and the job runs again.

use super::channels::{SUBSCRIBED, no_effect};
use super::deliveries;
use super::events::find_event;
use super::jobs::{Job, JobHandler, Prepared};
use crate::base::Result;
use crate::store::Tx;

/// Makes the deliveries of an event; the target is the event.
pub(super) const FAN_OUT: JobHandler =
    JobHandler { kind: "event.fan_out", prepare: fan_out, settle: |_, job, _| Err(no_effect(job)) };

fn fan_out(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    // Retention may have removed it meanwhile.
    let Some(event) = find_event(&tx.view(), job.target.cast())? else {
        return Ok(Prepared::Done);
    };
    for subscription in tx.all(&SUBSCRIBED, &(event.event_type as u8))? {
        // One that was made since the event is for later ones.
        if subscription.created_at <= event.created_at {
            deliveries::create(tx, &event, subscription.channel)?;
        }
    }
    Ok(Prepared::Done)
}
