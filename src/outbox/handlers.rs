//! How jobs are enqueued, and what their handlers say: what to do, and what becomes of a job after it.

use super::deliveries::DeliveryAttempt;
use super::effects::{Effect, EffectResult};
use super::jobs::{ENQUEUED, Job, Target};
use crate::base::{Error, Id, Result, Time};
use crate::store::Tx;

/// Enqueues a job that `handler` carries out at or after `due_at`; returns its id.
///
/// # Errors
/// If the store fails.
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
    };
    tx.signal(ENQUEUED);
    tx.insert(&job)?;
    Ok(job.id)
}

/// How jobs of a kind are carried out. Both functions run in a transaction of the job's
/// organization and may be run again; the effect between them is the runner's.
pub struct JobHandler {
    /// Its name in the rows; it never changes.
    pub kind: &'static str,
    /// Looks at the state and says what to do. Its own writes are committed together with what
    /// becomes of the job, or before the effect.
    pub prepare: fn(&mut Tx, &Job) -> Result<Prepared>,
    /// Writes down what came of the effect.
    pub settle: fn(&mut Tx, &Job, &EffectResult) -> Result<Settled>,
}

/// What a job needs.
pub enum Prepared {
    /// Nothing more.
    Done,
    /// Nothing before this time.
    RetryAt(Time),
    /// An effect.
    Effect(Effect),
    /// The effect that the workflow of a channel makes of an event.
    Delivery(Box<DeliveryAttempt>),
}

/// What becomes of a job after its effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    /// It is done, or given up.
    Done,
    /// It is tried again at this time.
    RetryAt(Time),
}

/// The delays after a failed attempt: about 23 hours in all, as users of webhooks know them.
const DELAYS_SECS: [i64; 8] = [5, 300, 1800, 7200, 18_000, 18_000, 18_000, 18_000];

/// When to try again after the `attempts`-th attempt failed at `now`; none to give up what began at
/// `since`, more than 24 hours before that time.
pub fn retry_at(now: Time, since: Time, attempts: u32) -> Option<Time> {
    const MAX_RETRY_SECS: i64 = 24 * 3600;
    let index = (attempts.max(1) as usize - 1).min(DELAYS_SECS.len() - 1);
    let next = now.plus_secs(DELAYS_SECS[index]);
    (next <= since.plus_secs(MAX_RETRY_SECS)).then_some(next)
}

/// What a handler that prepares no effect says if one is to be settled.
pub(super) fn no_effect(job: &Job) -> Error {
    Error::internal(format!("the job {} of the kind {} has no effect", job.id, job.kind))
}
