//! Jobs that are due later than any can be, or whose time was decided later than now. The clock was ahead
//! then, and has been set right since: they would wait until it shows that time again.
//!
//! It may also be the clock that is behind now, for a while after the start of a machine whose clock is
//! set over the network. So jobs are made due only after they have been seen for ten minutes, and
//! nothing else of them is changed.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::handlers::MAX_DELAY_SECS;
use super::jobs::{BY_DUE, DueKey, ENQUEUED, Job, pending_job};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Store, Tx, View};

/// So many jobs are looked at in one snapshot, and made due in one transaction.
const PART: usize = 500;

/// How long such jobs are seen before the clock counts as right.
pub const CONFIRM_TIME: Duration = Duration::from_secs(600);

/// Looks for such jobs from time to time.
#[derive(Default)]
pub struct Misdated {
    /// Since when there have been some at each look.
    seen_since: Option<Instant>,
    /// The time of the newest id when all jobs were looked at and none was, and when that was. While the
    /// clock is behind, ids stay at about that time, and what is written since is right.
    none_at: Option<(Time, Instant)>,
}

impl Misdated {
    /// Looks now; makes them due if they have been seen for long enough. Returns how many.
    pub async fn look(&mut self, store: &Store, now: Instant) -> Result<usize> {
        let confirmed =
            self.seen_since.is_some_and(|since| now.duration_since(since) >= CONFIRM_TIME);
        // Ids that are ahead of the clock: so may be the times of jobs that are due soon.
        let current = store.clock().now();
        let newest = store.newest_id_at()?;
        let is_set_back = (store.clock().is_set_back()
            || newest.is_some_and(|at| at.is_beyond(current, 0)))
            && !self.none_at.is_some_and(|(at, looked)| {
                newest == Some(at) && now.duration_since(looked) < CONFIRM_TIME
            });
        let after = if is_set_back { current } else { latest(current) };
        let (mut next, mut corrected) = (Some(first_after(after)), 0);
        let mut is_any = false;
        while let Some(from) = next
            && (confirmed || !is_any)
        {
            let found;
            (found, next) = store.read(Id::NIL, |view| find(view, &from)).await?;
            is_any |= !found.is_empty();
            if confirmed && !found.is_empty() {
                corrected += store.write(Id::NIL, move |tx| make_due(tx, &found)).await?;
            }
        }
        if is_set_back && !is_any {
            self.none_at = newest.map(|at| (at, now));
        }
        let since = self.seen_since.unwrap_or(now);
        self.seen_since = (is_any && !confirmed).then_some(since);
        Ok(corrected)
    }
}

type Position = (DueKey, Id<Job>);

fn first_after(time: Time) -> Position {
    ((time.plus_millis(1), None, Id::NIL), Id::NIL)
}

/// Returns those among some jobs from a position on, and where the others begin.
fn find(view: &View, from: &Position) -> Result<(Vec<Id<Job>>, Option<Position>)> {
    let (mut looked, mut next) = (Vec::new(), None);
    let end = Time::from_millis(i64::MAX);
    view.entries(&BY_DUE, from, &end, Order::Ascending, |due, id| {
        if looked.len() == PART {
            next = Some((due, id));
            return Ok(ControlFlow::Break(()));
        }
        looked.push(id);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut found = Vec::new();
    for id in looked {
        let job = pending_job(view, &id)?.filter(|job| is_misdated(job, view.now()));
        found.extend(job.map(|job| job.id));
    }
    Ok((found, next))
}

/// Whether a job is due later than it can be.
fn is_misdated(job: &Job, now: Time) -> bool {
    job.due_at > latest(now) || job.scheduled_at.is_some_and(|at| at.is_beyond(now, 0))
}

/// The latest time at which a job can be due that was written now, by a server whose clock differs.
fn latest(now: Time) -> Time {
    now.plus_secs(MAX_DELAY_SECS + Time::CLOCK_DIFFERENCE_SECS)
}

fn make_due(tx: &mut Tx, jobs: &[Id<Job>]) -> Result<usize> {
    let (now, mut corrected) = (tx.now(), 0);
    for id in jobs {
        let Some(old) = pending_job(&tx.view(), id)?.filter(|job| is_misdated(job, now)) else {
            continue;
        };
        tx.replace(&old, &old.due(now, now))?;
        corrected += 1;
    }
    tx.signal(ENQUEUED);
    Ok(corrected)
}
