//! Jobs that are due later than any can be, or whose time was decided later than now. The clock was ahead
//! then, and has been set right since: they would wait until it shows that time again.
//!
//! It may also be the clock that is behind now, for a while after the start of a machine whose clock is
//! set over the network. So jobs are made due only after they have been seen for ten minutes, and
//! nothing else of them is changed.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::handlers::MAX_DELAY_SECS;
use super::jobs::{BY_DUE, DueKey, ENQUEUED, Job};
use crate::base::{Id, Kind, Result, Time};
use crate::store::{Order, Store, Tx, View};

/// So many jobs are made due in one transaction.
const PART: usize = 500;

/// How long such jobs are seen before the clock counts as right.
pub const CONFIRM_TIME: Duration = Duration::from_secs(600);

/// Of so many jobs the row is read at each look, for the time at which theirs was decided.
const MAX_LOOKED: usize = PART;

/// Looks for such jobs from time to time.
#[derive(Default)]
pub struct Misdated {
    /// Since when there have been some at each look.
    seen_since: Option<Instant>,
}

impl Misdated {
    /// Looks now; makes them due if they have been seen for long enough. Returns how many.
    pub async fn look(&mut self, store: &Store, now: Instant) -> Result<usize> {
        // Rows are read only if ids are ahead of the clock, too.
        let is_set_back = store.clock().is_set_back();
        let find = |view: &View| find(view, is_set_back);
        let mut found = store.read(Id::NIL, find).await?;
        if found.is_empty() {
            self.seen_since = None;
            return Ok(0);
        }
        let since = *self.seen_since.get_or_insert(now);
        if now.duration_since(since) < CONFIRM_TIME {
            return Ok(0);
        }
        let mut corrected = 0;
        while !found.is_empty() {
            let count = store.write(Id::NIL, move |tx| make_due(tx, &found)).await?;
            if count == 0 {
                break;
            }
            corrected += count;
            found = store.read(Id::NIL, find).await?;
        }
        self.seen_since = None;
        Ok(corrected)
    }
}

/// Returns the first of them.
fn find(view: &View, is_set_back: bool) -> Result<Vec<Id<Job>>> {
    let (now, mut found) = (view.now(), Vec::new());
    due_from(view, latest(now), |id| {
        found.push(id);
        found.len() < PART
    })?;
    if is_set_back && found.is_empty() {
        let mut looked = Vec::new();
        due_from(view, now, |id| {
            looked.push(id);
            looked.len() < MAX_LOOKED
        })?;
        for id in looked {
            match view.fetch(&id) {
                Ok(job) => found.extend(is_misdated(&job, now).then_some(id)),
                // One that cannot be read hides no other.
                Err(error) if error.kind() == Kind::Internal => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(found)
}

/// Calls `each` with the jobs that are due after a time, until it returns false.
fn due_from(view: &View, after: Time, mut each: impl FnMut(Id<Job>) -> bool) -> Result<()> {
    let start: (DueKey, Id<Job>) = ((after.plus_millis(1), None, Id::NIL), Id::NIL);
    let end = Time::from_millis(i64::MAX);
    view.entries(&BY_DUE, &start, &end, Order::Ascending, |_, id| {
        Ok(if each(id) { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })
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
        let Some(old) = tx.get::<Job>(id)?.filter(|job| is_misdated(job, now)) else { continue };
        tx.replace(&old, &old.due(now, now))?;
        corrected += 1;
    }
    tx.signal(ENQUEUED);
    Ok(corrected)
}
