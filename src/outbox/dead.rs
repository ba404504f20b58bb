//! Dead jobs: those that were given up after a day of failures. They are tried once more from time to
//! time, since a new version of the server, a repair or somebody's change may have mended what they failed
//! at, and counted. After a month they are only kept for inspection.

use std::ops::ControlFlow;

use super::handlers::GIVEN_UP;
use super::jobs::{DEAD, ENQUEUED, Job, LEASE_SECS, readable};
use super::sweeps::{RetentionSettings, SWEEP_ROWS, Sweep, SweepProgress};
use crate::base::{Result, Time};
use crate::store::{Order, Tx, View};

/// More dead jobs than this are not counted.
const MAX_COUNTED: usize = 10_000;

/// A dead job is counted for 30 days after it was tried last, and tried again for 30 days after it
/// failed first.
const LATELY_SECS: i64 = 30 * 24 * 3600;

/// The time between two tries, but for the first after a start, which may be of a new version.
const PAUSE_SECS: i64 = 6 * 3600;

/// The least time between two tries, however often the server starts.
const MIN_PAUSE_SECS: i64 = 300;

/// A round looks at no more dead jobs than this.
const MAX_LOOKED_AT: usize = 2_000;

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

/// Tries dead jobs once more, at most [`SWEEP_ROWS`] in a round, those first that were tried longest ago.
pub const RETRY_DEAD: Sweep = Sweep {
    name: "try jobs again that were given up",
    every_secs: 600,
    run: retry_dead,
    installation: true,
};

fn retry_dead(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    tx.unmark_deletion();
    let now = tx.now();
    let since = now.minus_secs(LATELY_SECS);
    let started = settings.started_at.min(now.minus_secs(MIN_PAUSE_SECS));
    let before = now.minus_secs(PAUSE_SECS).max(started);
    let (view, mut looked_at, mut dead) = (tx.view(), 0, Vec::new());
    view.entries(&DEAD, &since, &Time::from_millis(i64::MAX), Order::Ascending, |at, job| {
        looked_at += 1;
        // One that was tried while the clock was ahead is not to wait until then.
        if (at < before || at.is_beyond(now, LEASE_SECS))
            && let Some(job) = readable(&view, &job)?
            && job.failing_since.is_none_or(|failing| failing >= since)
            // What was done is not done again and again.
            && !job.effect_done
        {
            dead.push(job);
        }
        let is_enough = dead.len() == SWEEP_ROWS || looked_at == MAX_LOOKED_AT;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for job in &dead {
        // One more failure, and it is dead again: it has failed for a day.
        let failures = job.failures.max(GIVEN_UP);
        tx.replace(job, &Job { dead: false, failures, ..job.due(now, now) })?;
        tx.signal(ENQUEUED);
    }
    Ok(SweepProgress::Clean)
}
