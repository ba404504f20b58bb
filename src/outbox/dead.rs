//! Dead jobs: those that were given up after a day of failures. They are tried once more from time to
//! time, since a new version of the server, a repair or somebody's change may have mended what they failed
//! at, and counted. After a month they are only kept for inspection.

use std::ops::ControlFlow;

use uuid::Uuid;

use super::jobs::{DEAD, ENQUEUED, Job, readable};
use super::sweeps::{RetentionSettings, SWEEP_ROWS, Sweep, SweepProgress};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Tx, View};

/// More dead jobs than this are not counted.
const MAX_COUNTED: usize = 10_000;

/// A dead job is counted for 30 days after it was tried last, and tried again for 30 days after it
/// failed first.
const LATELY_SECS: i64 = 30 * 24 * 3600;

/// What was just tried is not tried again within the same round.
const PAUSE_SECS: i64 = 300;

/// Returns how many jobs have died lately, of all organizations and of the installation: at most
/// [`MAX_COUNTED`].
pub fn dead_jobs(view: &View) -> Result<u64> {
    let since = view.now().minus_secs(LATELY_SECS);
    let mut lately = 0;
    view.entries(&DEAD, &since, &Time::from_millis(i64::MAX), Order::Ascending, |_, _| {
        lately += 1;
        let is_enough = lately == MAX_COUNTED;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(lately as u64)
}

/// Tries dead jobs once more: at the start of the server, and every six hours.
pub const RETRY_DEAD: Sweep = Sweep {
    name: "try jobs again that were given up",
    every_secs: 6 * 3600,
    run: retry_dead,
    installation: true,
};

fn retry_dead(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    tx.unmark_deletion();
    let now = tx.now();
    let since = now.minus_secs(LATELY_SECS);
    let behind = settings.behind.map(|(at, job)| (at, Id::new(job)));
    let start = behind.unwrap_or((since, Id::NIL));
    let mut dead = Vec::new();
    tx.view().entries(
        &DEAD,
        &start,
        &now.minus_secs(PAUSE_SECS),
        Order::Ascending,
        |at, job| {
            if Some((at, job)) != behind {
                dead.push((at, job));
            }
            let is_full = dead.len() == SWEEP_ROWS;
            Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        },
    )?;
    for (_, job) in &dead {
        let Some(old) = readable(&tx.view(), job)? else { continue };
        if old.failing_since.is_none_or(|failing| failing >= since) {
            // One more failure, and it is dead again: it has failed for a day.
            tx.replace(&old, &Job { dead: false, ..old.due(now, now) })?;
            tx.signal(ENQUEUED);
        }
    }
    let last = dead.last().filter(|_| dead.len() == SWEEP_ROWS);
    Ok(last.map_or(SweepProgress::Clean, |(at, job)| {
        SweepProgress::MoreBehind((*at, Uuid::from_bytes(*job.bytes())))
    }))
}
