//! Jobs: work to do after a commit, one row with a due time for each.
//!
//! A job is leased by moving its due time to the end of the lease and counting the attempt; after a
//! crash it becomes due again, at the latest at the next start. The count is the fencing token: an
//! attempt that ends after its lease finds another count and changes nothing. A job that cannot be
//! executed at all (its handler fails, or there is none) is retried with back-off and, after a day of
//! that, is [dead](super::dead): not due, but for a try from time to time.

use bincode::{Decode, Encode};
use uuid::Uuid;

use crate::base::{Id, Kind, Result, Time, TraceParent};
use crate::outside::Call;
use crate::store::{AnyIndex, Export, Index, Org, Record, View, upgrade_shorter};

crate::base::portable! {
/// A unit of work executed at least once, at or after its due time.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Job {
    pub id: Id<Job>,
    /// The organization that it runs for.
    pub org: Id<Org>,
    /// The [kind](super::JobHandler::kind) of its handler.
    pub kind: String,
    /// The record it is about, of a type known to its handler.
    pub target: Id<Target>,
    /// The owner of the target (an agent, a channel). The number of concurrent jobs with the same
    /// key is limited, so that a slow one does not delay the others; a handler may need it to find
    /// the target.
    pub concurrency_key: Option<Id<Target>>,
    /// When it is due; while it runs, when its lease ends.
    pub due_at: Time,
    /// The number of leases so far.
    pub attempts: u32,
    /// When it was enqueued.
    pub created_at: Time,
    /// Since when its execution fails; none while it does not.
    pub failing_since: Option<Time>,
    /// The number of failures since then.
    pub failures: u32,
    /// Whether it was given up.
    pub dead: bool,
    /// The trace of the request that caused it.
    pub trace: Option<TraceParent>,
    /// When `due_at` was decided; unknown of jobs that an earlier version wrote.
    pub scheduled_at: Option<Time>,
    /// Whether its last attempt has had its effect, and failed to store the result.
    pub effect_done: bool,
}
}

/// A lease lasts a minute: longer than the longest effect, short enough for a quick retry after a
/// crash.
pub const LEASE_SECS: i64 = 60;

impl Job {
    /// Returns the job with another time at which it is due, as is decided now.
    pub fn due(&self, due_at: Time, now: Time) -> Self {
        Job { due_at, scheduled_at: Some(now), ..self.clone() }
    }

    /// Returns a call that it makes, with the trace that it belongs to.
    pub fn traced(&self, mut call: Call) -> Call {
        // The end of an id is random, and attempts of one job are told apart.
        let span = u128::from_be_bytes(*self.id.bytes()) as u64 ^ u64::from(self.attempts);
        let header = self.trace.map(|trace| trace.of_span(span.to_be_bytes()).to_string());
        call.headers.extend(header.map(|value| ("traceparent".into(), value)));
        call
    }

    /// Returns when the attempt under way began.
    pub fn leased_at(&self) -> Time {
        self.due_at.minus_secs(LEASE_SECS)
    }
}

/// The record that a job is about, of a type known to its handler.
pub enum Target {}

/// Jobs by due time, without dead ones. The concurrency key and the organization are in the entry, so
/// that jobs are skipped without being read.
pub static BY_DUE: Index<Job, DueKey> = Index::non_unique("jobs.by_due", |job| {
    (!job.dead).then_some((job.due_at, job.concurrency_key, job.org))
});

/// Dead jobs by the time of the last attempt.
pub static DEAD: Index<Job, Time> =
    Index::non_unique("jobs.dead", |job: &Job| job.dead.then_some(job.due_at)).version(2);

/// When a job is due, its concurrency key, and its organization.
pub type DueKey = (Time, Option<Id<Target>>, Id<Org>);

impl Record for Job {
    const TABLE: &'static str = "jobs";
    const EXPORT: Export<Self> = Export::of(|job: &Self| job.org);
    const ORG_SCOPED: bool = false;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_DUE, &DEAD];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("org", "organizations are not removed"),
        ("target", "of any table: a handler that finds its target missing ends the job"),
        ("concurrency_key", "of any table: only compared with the keys of jobs in flight"),
    ];
    const VERSION: u8 = 3;
    type Key = Id<Job>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 2, body)
    }
}

/// Returns a job that is to be done; none if it is done, dead or lost. One that cannot be read is lost: it has
/// been noted as damage, and is in the way of no other.
pub fn pending_job(view: &View, id: &Id<Job>) -> Result<Option<Job>> {
    Ok(readable(view, id)?.filter(|job| !job.dead))
}

/// Returns a job, dead or not; none if it is gone, or cannot be read.
pub fn readable(view: &View, id: &Id<Job>) -> Result<Option<Job>> {
    match view.get(id) {
        Err(error) if error.kind() == Kind::Internal => Ok(None),
        job => job,
    }
}

/// The signal that a job was enqueued, or is due again at once.
pub const ENQUEUED: Uuid = Uuid::from_u128(0x0b0a_2026_0000_7000_8000_0000_0000_0001);
