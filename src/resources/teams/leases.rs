//! What renews the leases of workers, and what becomes of a task whose lease ends
//! (reference: teams-and-wakes, "Claims of workers").
//!
//! A sweep alone ends a lease: until then the worker has its task, however late it is. So a renewal
//! that comes just before has not lost a race, and a task is never two workers'. Nor does one end that
//! could not be renewed: while one is about to end, each step of the sweep stores that it has run, so that a
//! time without a server, or in which it could not write, is known afterwards.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes;
use super::claim::{TaskClaim, WorkerName};
use super::lease::{BY_END, Lease, renew};
use super::member::{Member, scrum_master};
use super::task::{Task, TaskStatus, assignee};
use super::team::{TEAM_IN_PATH, Team, require_team};
use super::timeline;
use super::usable::UsableMember;
use super::wakes::{self, WakeCause};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Id, Result, Time};
use crate::outbox::{RetentionSettings, SWEEP_ROWS, Sweep, SweepProgress, due};
use crate::store::{Export, Order, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Lease>(), TableInfo::of::<LeaseWatch>()],
    sweeps: &[END_LEASES],
    ..Resource::EMPTY
};

/// Ends the leases that were not renewed.
const END_LEASES: Sweep =
    Sweep { name: "leases of tasks", every_secs: 5, run: end_leases, installation: false };

/// A step ends so many leases at most: each end writes the task, a note, an event and a wake.
const MAX_ENDS: usize = 100;

/// A step ends no further lease after so many bytes of tasks: a transaction may write 8 MiB.
const MAX_TASK_BYTES: usize = 2 * 1024 * 1024;

// ── Signs of life ────────────────────────────────────────────────────────────

/// A sign of life of a worker.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"worker": "host-1:4242"}],
))]
pub struct WorkerHeartbeat {
    /// The process of the agent, as it called itself when it claimed its tasks.
    worker: WorkerName,
}
impl Input for WorkerHeartbeat {}

/// The leases that a sign of life has renewed.
#[derive(Debug, Serialize, JsonSchema)]
pub struct WorkerHeartbeatAnswer {
    /// Those that the worker has. It has lost a task that it claimed with `leaseSecs` and that is
    /// missing here.
    pub leases: Vec<RenewedLease>,
}

/// A lease of a task.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RenewedLease {
    pub task_id: Id<Task>,
    /// When the task is open again, unless the worker gives a sign of life before.
    pub lease_ends_at: Time,
}

impl Output for WorkerHeartbeatAnswer {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Renews the leases of a worker.
pub fn heartbeat(
    tx: &mut Tx,
    req: &Req<(Id<Team>, Id<Member>), WorkerHeartbeat>,
) -> Result<WorkerHeartbeatAnswer> {
    require_team(&tx.view(), req.params.0)?;
    let agent = UsableMember::fetch(&tx.view(), req.caller(), req.params)?;
    let leases = renew(tx, &agent, Some(&req.input.worker))?;
    let shown = |lease: Lease| RenewedLease { task_id: lease.task, lease_ends_at: lease.ends_at };
    Ok(WorkerHeartbeatAnswer { leases: leases.into_iter().map(shown).collect() })
}

// ── Ends of leases ───────────────────────────────────────────────────────────

/// A lease ends only if it could be renewed for so long before, or for its whole length.
const GRACE_SECS: i64 = 30;

/// Since when leases could be renewed without a gap, and when they were looked at last. While one is about
/// to end, each step stores it: what nobody can write is not written.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub(super) struct LeaseWatch {
    pub since: Time,
    pub last: Time,
}

impl LeaseWatch {
    /// A step that is later than this after another one comes after a gap; so does one before it, by a clock
    /// that was set back. The sweep runs every 5 s.
    const MAX_PAUSE_SECS: i64 = 15;

    /// Returns it as it is after a step at `now`.
    fn at(old: Option<Self>, now: Time) -> Self {
        let going_on =
            old.filter(|old| old.last <= now && now <= old.last.plus_secs(Self::MAX_PAUSE_SECS));
        LeaseWatch { since: going_on.map_or(now, |old| old.since), last: now }
    }
}

impl Record for LeaseWatch {
    const TABLE: &'static str = "tasks.lease_watch";
    const EXPORT: Export<Self> = Export::LeftOut("says what the server did where it comes from");
    type Key = ();
    fn key(&self) -> Self::Key {}
}

/// Ends the leases that are over. Begins anew those that were given while the clock was ahead, and
/// those that nobody could renew, since there was no server or it could not write.
fn end_leases(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let misdated = misdated(&tx.view())?;
    let first: Option<Lease> = tx.view().first(&BY_END, &(), Order::Ascending)?;
    let is_near = first.is_some_and(|first| first.ends_at <= now.plus_secs(GRACE_SECS));
    if misdated.is_empty() && !is_near {
        return Ok(SweepProgress::Clean);
    }
    let (over, progress) = due(&tx.view(), &BY_END, |lease: &Lease| lease.ends_at <= now)?;
    tx.unmark_deletion(); // What it writes is for a disk that has place.
    let watch = LeaseWatch::at(tx.get(&())?, now);
    tx.put(&watch)?;
    // Nobody could renew one before the server was started, by a clock that has not been set back since.
    let started_at = Some(settings.started_at).filter(|started_at| *started_at <= now);
    let since = started_at.map_or(watch.since, |started_at| watch.since.max(started_at));
    for lease in &misdated {
        tx.replace(lease, &lease.renewed(now))?;
    }
    let (mut ends, mut bytes) = (0, 0);
    for lease in &over {
        let ends_at = since.plus_secs(GRACE_SECS.min(lease.secs.into()));
        if ends_at > now {
            tx.replace(lease, &Lease { ends_at, ..lease.clone() })?;
            continue;
        }
        if ends == MAX_ENDS || bytes >= MAX_TASK_BYTES {
            return Ok(SweepProgress::More);
        }
        bytes += end_lease(tx, lease)?;
        ends += 1;
    }
    let of_misdated = SweepProgress::after(misdated.len());
    Ok(if of_misdated == SweepProgress::More { of_misdated } else { progress })
}

/// Returns the leases that end later than they can, as many as one step may have. Those are the last
/// by their end, but for short ones among longer ones, which are found a day later at the latest.
fn misdated(view: &View) -> Result<Vec<Lease>> {
    let mut found = Vec::new();
    view.for_each(&BY_END, &(), Order::Descending, |lease: Lease| {
        if found.len() == SWEEP_ROWS || !lease.is_misdated(view.now()) {
            return Ok(ControlFlow::Break(()));
        }
        found.push(lease);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

/// Ends a lease: opens the task again whose worker gives no sign of life. It is who had it before's, or
/// nobody's. Returns how long its text is.
fn end_lease(tx: &mut Tx, lease: &Lease) -> Result<usize> {
    tx.remove(lease)?;
    let team = tx.get::<Team>(&lease.team)?;
    let old = tx.get::<Task>(&(lease.team, lease.task))?.filter(|task| lease.is_of(task));
    // Without them it is a rest of what is being removed.
    let (Some(team), Some(old)) = (team, old) else { return Ok(0) };
    let Some(claim) = &old.claim else { return Ok(0) };
    let status = match old.status {
        TaskStatus::InProgress => TaskStatus::Open,
        other => other,
    };
    let assignee_agent_id = old.assignee_agent_id.filter(|_| !claim.was_free);
    let task = Task {
        assignee_agent_id,
        status,
        claim: None,
        updated_at: tx.now(),
        updated_by: None,
        ..old.clone()
    };
    tx.replace(&old, &task)?;
    changes::note(tx, &old, &task, (None, None))?;
    let former = assignee(&tx.view(), &old)?;
    note_end(tx, &team, (&task, claim), former.as_ref())?;
    wake_for_end(tx, &task, former)?;
    Ok(task.description.map_or(0, |text| text.as_str().len()))
}

/// Wakes who is responsible for a task whose lease has ended. An assignee of a blocked one is woken when it
/// is unblocked; a free one, for which nobody is then, becomes known now.
fn wake_for_end(tx: &mut Tx, task: &Task, former: Option<Member>) -> Result<()> {
    let assignee = assignee(&tx.view(), task)?;
    if assignee.is_some() && task.status != TaskStatus::Open {
        return Ok(());
    }
    let agent = match assignee {
        Some(assignee) => Some(assignee),
        None => scrum_master(&tx.view(), task.team_id)?.or(former),
    };
    match agent {
        Some(agent) => wakes::wake(tx, &agent, &WakeCause::ClaimExpired(task)),
        None => Ok(()),
    }
}

/// Notes in the timeline that the lease of a task has ended.
fn note_end(
    tx: &mut Tx,
    team: &Team,
    (task, claim): (&Task, &TaskClaim),
    agent: Option<&Member>,
) -> Result<()> {
    let TaskClaim { worker, lease_secs, by, .. } = claim;
    let (number, secs) = (task.number, lease_secs.unwrap_or_default());
    let state = if task.status == TaskStatus::Open { "is open again" } else { "has no worker" };
    let worker = worker.as_str();
    let title = format!("#{number} {state}: no sign of life of the worker {worker} for {secs} s");
    timeline::note_progress(tx, team, agent, *by, &title, task.title.as_str())
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/teams/{teamId}/agents/{agentId}/heartbeat",
            MEMBER,
            "team_agent.heartbeat",
            op::write(heartbeat),
        )
        .unaudited()
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Renew the leases of a worker"),
    ]
}
