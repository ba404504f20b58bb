//! Jobs that are due later than any can be. The clock was ahead when they were written, and has been set
//! right since: they would wait until it shows that time again.
//!
//! It may also be the clock that is behind now, for a while after the start of a machine whose clock is
//! set over the network. So jobs are made due only after they have been seen for ten minutes, and
//! nothing else of them is changed.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use super::handlers::MAX_DELAY_SECS;
use super::jobs::{BY_DUE, DueKey, ENQUEUED, Job};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Store, Tx, View};

/// So many jobs are made due in one transaction.
const PART: usize = 500;

/// How long such jobs are seen before the clock counts as right.
pub const CONFIRM_TIME: Duration = Duration::from_secs(600);

/// Looks for such jobs from time to time.
#[derive(Default)]
pub struct Misdated {
    /// Since when there have been some at each look.
    seen_since: Option<Instant>,
}

impl Misdated {
    /// Looks now; makes them due if they have been seen for long enough. Returns how many.
    pub async fn look(&mut self, store: &Store, now: Instant) -> Result<usize> {
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
fn find(view: &View) -> Result<Vec<Id<Job>>> {
    let (start, end) = (latest(view.now()).plus_millis(1), Time::from_millis(i64::MAX));
    let mut found = Vec::new();
    let start: (DueKey, Id<Job>) = ((start, None, Id::NIL), Id::NIL);
    view.entries(&BY_DUE, &start, &end, Order::Ascending, |_, id| {
        found.push(id);
        let is_full = found.len() == PART;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// The latest time at which a job can be due that was written now, by a server whose clock differs.
fn latest(now: Time) -> Time {
    now.plus_secs(MAX_DELAY_SECS + Time::CLOCK_DIFFERENCE_SECS)
}

fn make_due(tx: &mut Tx, jobs: &[Id<Job>]) -> Result<usize> {
    let (now, mut corrected) = (tx.now(), 0);
    for id in jobs {
        let Some(old) = tx.get::<Job>(id)?.filter(|job| job.due_at > latest(now)) else { continue };
        tx.replace(&old, &Job { due_at: now, ..old.clone() })?;
        corrected += 1;
    }
    tx.signal(ENQUEUED);
    Ok(corrected)
}
