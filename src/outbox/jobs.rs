//! Jobs: work to do after a commit, one row with a due time for each.
//!
//! A job is leased by moving its due time to the end of the lease and counting the attempt; if the
//! process dies, it becomes due again. An attempt that comes back after its lease finds another
//! count and changes nothing. A job that cannot be carried out at all (its handler fails, or there
//! is none) is tried again with growing delays and, after a day of that, is dead: kept to be looked
//! at, never due.

use bincode::{Decode, Encode};
use uuid::Uuid;

use crate::base::{Id, Time};
use crate::store::{AnyIndex, Index, Org, Record};

/// Something to be done at or after its due time, at least once.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Job {
    /// Its id.
    pub id: Id<Job>,
    /// For which organization.
    pub org: Id<Org>,
    /// The [kind](super::JobHandler::kind) of its handler.
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
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("org", "organizations are not removed"),
        ("target", "of any table: a handler that finds its target missing ends the job"),
        ("concurrency_key", "of any table: only compared with the keys of jobs in flight"),
    ];
    type Key = Id<Job>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The signal that a job was enqueued.
pub const ENQUEUED: Uuid = Uuid::from_u128(0x0b0a_2026_0000_7000_8000_0000_0000_0001);
