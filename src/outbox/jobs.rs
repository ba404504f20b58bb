//! Jobs: work to do after a commit, one row with a due time for each.
//!
//! A job is leased by moving its due time to the end of the lease and counting the attempt; if the
//! process dies, it becomes due again. An attempt that comes back after its lease finds another
//! count and changes nothing. A job that cannot be carried out at all (its handler fails, or there
//! is none) is tried again with growing delays and, after a day of that, is dead: kept to be looked
//! at, never due.

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::deliveries::DeliveryAttempt;
use super::effects::{Effect, EffectResult};
use crate::base::{Id, Result, Time};
use crate::store::{AnyIndex, Index, Org, Record, Tx};

/// Something to be done at or after its due time, at least once.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Job {
    /// Its id.
    pub id: Id<Job>,
    /// For which organization.
    pub org: Id<Org>,
    /// The [kind](JobHandler::kind) of its handler.
    pub kind: String,
    /// The record it is about, which its handler knows how to read.
    pub target: Id<Target>,
    /// What the target belongs to (an agent, a channel). Few jobs with the same key run at once, so
    /// that one that is slow does not hold up the others; a handler may need it to find the target.
    pub concurrency_key: Option<Id<Target>>,
    /// When it is due; while it runs, when its lease ends.
    pub due_at: Time,
    /// How often it was leased.
    pub attempts: u32,
    /// When it was enqueued.
    pub created_at: Time,
    /// Since when it cannot be carried out; none while it can.
    pub failing_since: Option<Time>,
    /// How often that was tried since then.
    pub failures: u32,
    /// Whether it was given up.
    pub dead: bool,
}

/// What a job is about: a record of its handler's.
pub enum Target {}

/// Jobs by due time; dead ones are never due. The concurrency key is in the entry, so that jobs are
/// passed over without being read.
pub static BY_DUE: Index<Job, (Time, Option<Id<Target>>)> =
    Index::many("jobs.by_due", |job| (!job.dead).then_some((job.due_at, job.concurrency_key)));

impl Record for Job {
    const TABLE: &'static str = "jobs";
    const OWNED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DUE];
    type Key = Id<Job>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The signal that a job was enqueued.
pub const ENQUEUED: Uuid = Uuid::from_u128(0x0b0a_2026_0000_7000_8000_0000_0000_0001);

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
    const GIVE_UP_SECS: i64 = 24 * 3600;
    let index = (attempts.max(1) as usize - 1).min(DELAYS_SECS.len() - 1);
    let next = now.plus_secs(DELAYS_SECS[index]);
    (next <= since.plus_secs(GIVE_UP_SECS)).then_some(next)
}
