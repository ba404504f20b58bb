//! Jobs whose times lie further ahead than they can. The clock was ahead when they were written, and has
//! been set right since: they would wait until it shows that time again.

use std::ops::ControlFlow;

use super::handlers::MAX_DELAY_SECS;
use super::jobs::{BY_DUE, DueKey, ENQUEUED, Job, LEASE_SECS};
use crate::base::{Id, Result, Time};
use crate::store::{Order, Store, Tx, View};

/// So many jobs are looked at in a row.
const PART: usize = 500;

type Place = (DueKey, Id<Job>);

/// Corrects the times of such jobs, so that they are due; returns how many there were.
///
/// # Errors
/// If the store fails.
pub async fn correct(store: &Store) -> Result<usize> {
    let (mut corrected, mut from) = (0, None);
    loop {
        let (found, next) = store.read(Id::NIL, |view| find(view, from)).await?;
        if !found.is_empty() {
            corrected += store.write(Id::NIL, move |tx| correct_all(tx, &found)).await?;
        }
        let Some(next) = next else { return Ok(corrected) };
        from = Some(next);
    }
}

/// Returns those among the next jobs that are due later, and where to go on.
fn find(view: &View, from: Option<Place>) -> Result<(Vec<Id<Job>>, Option<Place>)> {
    let now = view.now();
    let start = ((now.plus_millis(1), None, Id::NIL), Id::NIL);
    let end = Time::from_millis(i64::MAX);
    let (mut found, mut looked_at, mut next) = (Vec::new(), 0, None);
    view.entries(&BY_DUE, &from.unwrap_or(start), &end, Order::Ascending, |entry, id| {
        if looked_at == PART {
            next = Some((entry, id));
            return Ok(ControlFlow::Break(()));
        }
        looked_at += 1;
        if view.get::<Job>(&id)?.is_some_and(|job| is_misdated(&job, now)) {
            found.push(id);
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((found, next))
}

fn is_misdated(job: &Job, now: Time) -> bool {
    job.due_at.is_beyond(now, MAX_DELAY_SECS) || job.created_at.is_beyond(now, 0)
}

fn correct_all(tx: &mut Tx, jobs: &[Id<Job>]) -> Result<usize> {
    let (now, mut corrected) = (tx.now(), 0);
    for id in jobs {
        let Some(old) = tx.get::<Job>(id)?.filter(|job| is_misdated(job, now)) else { continue };
        // One that may be running is due soon in any case.
        let is_soon = old.due_at <= now.plus_secs(LEASE_SECS);
        let job = Job {
            due_at: if is_soon { old.due_at } else { now },
            created_at: old.created_at.min(now),
            failing_since: old.failing_since.map(|since| since.min(now)),
            ..old.clone()
        };
        tx.replace(&old, &job)?;
        corrected += 1;
    }
    tx.signal(ENQUEUED);
    Ok(corrected)
}
