//! The lease of a worker's claim: a small row beside its task, so that signs of life cost little and
//! leave the task as it is (reference: teams-and-wakes, "Claims of workers").

use bincode::{Decode, Encode};

use super::claim::WorkerName;
use super::member::Member;
use super::task::Task;
use super::team::Team;
use crate::base::{Id, Int, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, PageRequest, Record, Reference, Tx,
};

/// So many leases one worker may have: each sign of life renews them all.
pub const MAX_LEASES: usize = 100;

const LEAST_SECS: u32 = 10;
const MOST_SECS: u32 = 86_400;

/// A lease is renewed at least within a day, and at most every few seconds.
pub type LeaseSecs = Int<{ LEAST_SECS as i64 }, { MOST_SECS as i64 }>;

/// A sign of life so soon after another renews nothing.
const MIN_RENEWED_MILLIS: i64 = 1000;

crate::base::portable! {
/// The lease of the claim of a task. There is one exactly while the claim has `lease_secs`, which are
/// its own, except while an agent that has left is being removed.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Lease {
    pub team: Id<Team>,
    pub task: Id<Task>,
    pub agent: Id<Member>,
    pub worker: WorkerName,
    pub secs: u32,
    /// When the task is open again, unless it is renewed before.
    pub ends_at: Time,
}
}

impl Lease {
    /// Returns the lease that the claim of a task has from `now` on, if it has one.
    fn of(task: &Task, now: Time) -> Option<Self> {
        let (claim, agent) = (task.claim.as_ref()?, task.assignee_agent_id?);
        // One of a file that was edited may be any number.
        let secs = claim.lease_secs?.clamp(LEAST_SECS, MOST_SECS);
        let worker = claim.worker.clone();
        let (team, task, ends_at) = (task.team_id, task.id, now.plus_secs(secs.into()));
        Some(Lease { team, task, agent, worker, secs, ends_at })
    }

    /// Returns it as it is if it is renewed at `at`.
    pub fn renewed(&self, at: Time) -> Self {
        Lease { ends_at: at.plus_secs(self.secs.into()), ..self.clone() }
    }

    /// Whether it ends later than it can: it was given while the clock was ahead.
    pub fn is_misdated(&self, now: Time) -> bool {
        self.ends_at.is_beyond(now, self.secs.into())
    }

    /// Whether it is that of the claim that the task has now.
    pub fn is_of(&self, task: &Task) -> bool {
        Lease::of(task, self.ends_at.minus_secs(self.secs.into())).as_ref() == Some(self)
    }
}

/// Leases by the worker that has them.
pub static BY_WORKER: Index<Lease, (Id<Member>, WorkerName)> =
    Index::non_unique("tasks.leases.by_worker", |lease| Some((lease.agent, lease.worker.clone())));

/// Leases by their end.
pub static BY_END: Index<Lease, Time> =
    Index::non_unique("tasks.leases.by_end", |lease| Some(lease.ends_at));

static TASK: Reference<Lease, Task> = Reference::cascade(
    &["team", "task"],
    |task: &Task| task.key().to_bytes(),
    |lease: &Lease, _| vec![lease.key().to_bytes()],
);

static AGENT: Reference<Lease, Member> = Reference::cascade(
    &["agent"],
    |member: &Member| member.id.to_bytes(),
    |lease: &Lease, _| vec![(lease.team, lease.agent).to_bytes()],
)
.by(&BY_WORKER)
.deferred();

impl Record for Lease {
    const TABLE: &'static str = "tasks.leases";
    const EXPORT: Export<Self> = Export::WHOLE
        .normalized(|lease| Lease { ends_at: Time::from_millis(0), ..lease })
        .inserted_by(insert_moved);
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_WORKER, &BY_END];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TASK, &AGENT];
    type Key = (Id<Team>, Id<Task>);
    fn key(&self) -> Self::Key {
        (self.team, self.task)
    }
}

/// Inserts the lease of a task that has moved with its organization, before it: one that ends later than any
/// can begins anew once the organization is served, when it can be renewed.
pub fn insert_moved(tx: &mut Tx, moved: &Lease) -> Result<()> {
    const YEAR_SECS: i64 = 365 * 24 * 3600;
    let Some(task) = tx.get::<Task>(&moved.key())? else { return Ok(()) };
    match Lease::of(&task, tx.now().plus_secs(YEAR_SECS)) {
        Some(lease) => tx.insert(&lease),
        None => Ok(()),
    }
}

/// Returns the leases that a worker has.
pub fn leases_of(tx: &Tx, agent: &Member, worker: &WorkerName) -> Result<Vec<Lease>> {
    let part = PageRequest { limit: MAX_LEASES, after: None };
    let key = (agent.id, worker.clone());
    Ok(tx.page(&BY_WORKER, &key, Order::Ascending, &part, |_| true)?.items)
}

/// Renews the leases of a worker, if a request names one, and returns them.
pub fn renew(tx: &mut Tx, agent: &Member, worker: Option<&WorkerName>) -> Result<Vec<Lease>> {
    let Some(worker) = worker else { return Ok(Vec::new()) };
    let now = tx.now();
    let mut leases = leases_of(tx, agent, worker)?;
    for lease in &mut leases {
        *lease = renew_one(tx, lease, lease.renewed(now))?;
    }
    Ok(leases)
}

/// Gives a task the lease that its claim has from now on, or none; returns it.
pub fn give(tx: &mut Tx, task: &Task) -> Result<Option<Lease>> {
    let old = tx.get::<Lease>(&task.key())?;
    match (old, Lease::of(task, tx.now())) {
        (None, None) => Ok(None),
        (Some(old), None) => tx.remove(&old).map(|_| None),
        (None, Some(new)) => tx.insert(&new).map(|()| Some(new)),
        (Some(old), Some(new)) => renew_one(tx, &old, new).map(Some),
    }
}

/// Stores a lease in the place of another one, unless only its end is another one by a moment; returns
/// what is stored then.
fn renew_one(tx: &mut Tx, old: &Lease, new: Lease) -> Result<Lease> {
    let moved = (new.ends_at.millis() - old.ends_at.millis()).abs();
    if moved < MIN_RENEWED_MILLIS && (Lease { ends_at: old.ends_at, ..new.clone() }) == *old {
        return Ok(old.clone());
    }
    tx.replace(old, &new)?;
    Ok(new)
}
