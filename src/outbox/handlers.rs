//! Enqueuing of jobs, and their handlers, which prepare the effect of a job and settle its result.

use super::deliveries::DeliveryAttempt;
use super::effects::{Effect, EffectResult};
use super::jobs::{ENQUEUED, Job, Target, readable};
use crate::base::{Error, Id, Result, Time};
use crate::store::Tx;

/// Enqueues a job that `handler` executes at or after `due_at`; returns its id.
pub fn enqueue(
    tx: &mut Tx,
    handler: &JobHandler,
    target: Id<Target>,
    concurrency_key: Option<Id<Target>>,
    due_at: Time,
) -> Result<Id<Job>> {
    let job = Job {
        id: tx.new_id(),
        org: tx.org(),
        kind: handler.kind.into(),
        target,
        concurrency_key,
        due_at,
        attempts: 0,
        created_at: tx.now(),
        failing_since: None,
        failures: 0,
        dead: false,
        trace: tx.trace(),
        scheduled_at: Some(tx.now()),
        effect_done: false,
    };
    tx.signal(ENQUEUED);
    tx.insert(&job)?;
    Ok(job.id)
}

/// Whether a job was given up before, and is tried once more: its failures are known.
pub(super) fn was_given_up(job: &Job) -> bool {
    job.failures >= GIVEN_UP
}

/// More failures than a job has before it is given up: those of one that is tried once more.
pub(super) const GIVEN_UP: u32 = 1_000_000;

/// Takes a job back, unless it is done. One that is being executed has no effect on rows any more.
pub fn cancel(tx: &mut Tx, id: Id<Job>) -> Result<()> {
    match readable(&tx.view(), &id)? {
        Some(job) => tx.remove(&job),
        None => Ok(()),
    }
}

/// A handler of the jobs of a kind. Both functions run in a transaction of the job's organization
/// and may run again; between them the runner executes the effect.
pub struct JobHandler {
    /// Its name in the rows. Stored: it never changes.
    pub kind: &'static str,
    /// Reads the state and decides what to do. Its own writes are committed together with the end
    /// of the job, or before the effect.
    pub prepare: fn(&mut Tx, &Job) -> Result<Prepared>,
    /// Stores the result of the effect.
    pub settle: fn(&mut Tx, &Job, &EffectResult) -> Result<Settled>,
}

/// The decision of a handler about a job.
pub enum Prepared {
    /// The job is done.
    Done,
    /// The job is prepared again at this time.
    RetryAt(Time),
    /// An effect to execute.
    Effect(Effect),
    /// The effect of a channel's workflow for an event.
    Delivery(Box<DeliveryAttempt>),
}

/// The state of a job after its effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is done, or given up.
    Done,
    /// It is done, and found something that the operator should know: a sentence for the log.
    Warning(String),
    /// It is retried at this time.
    RetryAt(Time),
}

/// The back-off after each failed attempt: about 23 hours in total, as is usual for webhooks.
const DELAYS_SECS: [i64; 8] = [5, 300, 1800, 7200, 18_000, 18_000, 18_000, 18_000];

/// No job is put off for longer than 5 hours at once.
pub const MAX_DELAY_SECS: i64 = DELAYS_SECS[DELAYS_SECS.len() - 1];

/// Returns when to retry after the `attempts`-th attempt failed at `now`, or none if that is more
/// than 24 hours after `since`, the start of the attempts. If the clock was ahead then, it counts what the
/// attempts have waited.
pub fn retry_at(now: Time, since: Time, attempts: u32) -> Option<Time> {
    const MAX_RETRY_SECS: i64 = 24 * 3600;
    let delay = |attempt: usize| DELAYS_SECS[attempt.min(DELAYS_SECS.len() - 1)];
    let before = attempts.max(1) as usize - 1;
    let next = now.plus_secs(delay(before));
    let end = if since.is_beyond(now, 0) {
        // More of them have waited longer than that.
        let waited: i64 = (0..before.min(MAX_RETRY_SECS as usize)).map(delay).sum();
        now.plus_secs(MAX_RETRY_SECS - waited)
    } else {
        since.plus_secs(MAX_RETRY_SECS)
    };
    (next <= end).then_some(next)
}

/// Settles a job whose effect is one mail, of use before `end` if that is given: it is retried as
/// [`retry_at`] says, and then the operator is told that `failed`, the beginning of a sentence.
pub fn settle_mail(
    tx: &Tx,
    job: &Job,
    result: &EffectResult,
    end: Option<Time>,
    failed: &str,
) -> Settled {
    let Some(why) = result.failure("the mail server") else { return Settled::Done };
    let again = retry_at(tx.now(), job.created_at, job.attempts);
    match again.filter(|at| end.is_none_or(|end| *at < end)) {
        Some(at) => Settled::RetryAt(at),
        None => Settled::Warning(format!("{failed}: {why}")),
    }
}

/// Settles a job whose handler prepares no effect, which nothing asks for.
pub fn no_effect(_: &mut Tx, job: &Job, _: &EffectResult) -> Result<Settled> {
    Err(Error::internal(format!("the job {} of the kind {} has no effect", job.id, job.kind)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How long attempts go on if each fails at once.
    fn tried_for(now: Time, since: Time) -> i64 {
        let (mut at, mut attempts) = (now, 1);
        while let Some(next) = retry_at(at, since, attempts) {
            (at, attempts) = (next, attempts + 1);
            assert!(attempts < 100, "it ends");
        }
        at.secs() - now.secs()
    }

    #[test]
    fn what_fails_is_retried_for_a_day_also_if_the_clock_was_a_year_ahead_when_it_began() {
        let now = Time::parse("2026-03-01T00:00:00Z").unwrap();
        let waited: i64 = DELAYS_SECS.iter().sum();
        for since in [now, now.plus_secs(365 * 24 * 3600)] {
            assert_eq!(tried_for(now, since), waited);
        }
        assert_eq!(retry_at(now.plus_secs(24 * 3600), now, 1), None);
    }
}
