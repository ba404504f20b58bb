//! Ends of attempts: what becomes of a job that was leased. Each is written by the attempt that still has
//! the lease, and by no other.

use std::ops::ControlFlow;

use super::effects::EffectResult;
use super::handlers::{JobHandler, Settled, retry_at};
use super::jobs::{BY_DUE, ENQUEUED, Job, LEASE_SECS, readable};
use super::sweeps::{SWEEP_ROWS, SweepProgress};
use crate::base::Result;
use crate::store::{Order, Tx};

/// How long a job waits if the store is overloaded.
const BUSY_SECS: i64 = 5;

/// Makes jobs due that were tried before and are due within a lease: leased ones, since no other
/// process executes any, and a few that merely pause.
pub fn end_old_leases(tx: &mut Tx) -> Result<SweepProgress> {
    let (now, mut leased) = (tx.now(), Vec::new());
    let (start, end) = (now.plus_millis(1), now.plus_secs(LEASE_SECS).plus_millis(1));
    tx.view().entries(&BY_DUE, &start, &end, Order::Ascending, |_, id| {
        leased.extend(readable(&tx.view(), &id)?.filter(|job| job.attempts > 0));
        let is_enough = leased.len() == SWEEP_ROWS;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for job in &leased {
        tx.replace(job, &job.due(now, now))?;
    }
    Ok(SweepProgress::after(leased.len()))
}

/// Returns the current row of a job, or none if it was leased again after its lease expired, or is
/// done.
pub fn leased(tx: &Tx, job: &Job) -> Result<Option<Job>> {
    Ok(tx.get::<Job>(&job.id)?.filter(|now| now.attempts == job.attempts))
}

/// Stores the result of an effect through the handler, and returns what became of the job; nothing
/// if the lease was lost.
///
/// # Errors
/// Those of the handler.
pub fn settle(
    tx: &mut Tx,
    handler: &JobHandler,
    job: &Job,
    result: &EffectResult,
) -> Result<Option<Settled>> {
    tx.set_trace(job.trace);
    if leased(tx, job)?.is_none() {
        return Ok(None);
    }
    let settled = (handler.settle)(tx, job, result)?;
    finish(tx, job, &settled)?;
    Ok(Some(settled))
}

/// Removes a job that is done, or makes it due again.
pub fn finish(tx: &mut Tx, job: &Job, settled: &Settled) -> Result<()> {
    let Some(now) = leased(tx, job)? else { return Ok(()) };
    match settled {
        Settled::Done | Settled::Warning(_) => tx.remove(&now),
        Settled::RetryAt(due_at) => {
            if *due_at <= tx.now() {
                tx.signal(ENQUEUED);
            }
            let again = now.due(*due_at, tx.now());
            tx.replace(&now, &Job { failing_since: None, failures: 0, ..again })
        }
    }
}

/// Lets a job wait that could not be executed now; it is not dead.
pub fn wait(tx: &mut Tx, job: &Job) -> Result<bool> {
    let Some(now) = leased(tx, job)? else { return Ok(false) };
    tx.replace(&now, &now.due(tx.now().plus_secs(BUSY_SECS), tx.now()))?;
    Ok(false)
}

/// Postpones a job whose execution failed, or marks it dead; returns whether it is. With `is_done`, its
/// effect was done, and only its result could not be stored.
pub fn postpone(tx: &mut Tx, job: &Job, is_done: bool) -> Result<bool> {
    let Some(now) = leased(tx, job)? else { return Ok(false) };
    let since = now.failing_since.unwrap_or(tx.now());
    let failures = now.failures.saturating_add(1);
    let again = retry_at(tx.now(), since, failures);
    let failed = Job {
        failing_since: Some(since),
        failures,
        dead: again.is_none(),
        effect_done: is_done,
        ..now.due(again.unwrap_or(now.due_at), tx.now())
    };
    tx.replace(&now, &failed)?;
    Ok(failed.dead)
}
