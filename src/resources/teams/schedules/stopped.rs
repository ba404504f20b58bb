//! Schedules that begin nothing any more, though nobody paused them.

use super::fire::{ZONE_UNKNOWN, arm};
use crate::base::Result;
use crate::outbox::pending_job;
use crate::resources::teams::schedule::Schedule;
use crate::store::{Tx, View};

const GIVEN_UP: &str = "beginning it failed for a day and was given up; the server's log says why. It \
                        is tried once more from time to time; save or resume the schedule, and it \
                        begins again at once";
const ZONE_WAS_UNKNOWN: &str = "an earlier version of the server did not know its time zone. Save or \
                                resume the schedule, and it begins again";

/// Returns why a schedule begins nothing any more; `None` if it does, if it is paused, or if it is never due
/// again.
pub fn why_stopped(view: &View, schedule: &Schedule) -> Result<Option<&'static str>> {
    if schedule.paused.is_some() {
        return Ok(None);
    }
    let Some(timing) = schedule.timing() else { return Ok(Some(ZONE_UNKNOWN)) };
    if schedule.next_at.is_none() {
        return Ok(timing.next(view.now()).map(|_| ZONE_WAS_UNKNOWN));
    }
    if schedule.held {
        return Ok(None); // It has a job again when its team is resumed.
    }
    let job = schedule.job.map_or(Ok(None), |job| pending_job(view, &job))?;
    Ok(job.is_none().then_some(GIVEN_UP))
}

/// Gives a schedule a next time, if it has none, and the job that waits for it. What passed meanwhile was
/// missed.
pub fn begin_again(tx: &mut Tx, schedule: &mut Schedule) -> Result<()> {
    if schedule.next_at.is_none() {
        schedule.next_at = schedule.timing().and_then(|timing| timing.next(tx.now()));
    }
    arm(tx, schedule)
}
