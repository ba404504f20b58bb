//! Claiming tasks, also for one process of an agent, and leases of claims
//! (reference: teams-and-wakes, "Claims of workers").
//!
//! A sweep alone ends a lease: until then the worker has its task, however late it is. So a renewal
//! that comes just before has not lost a race, and a task is never two workers'.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::{TaskClaim, WorkerName};
use super::member::{self, Member, require_active};
use super::task::{
    BY_LEASE_END, BY_WORKER, Task, TaskStatus, assignee, assignee_or_scrum_master,
    current_assignee, fetch_task,
};
use super::team::{TEAM_IN_PATH, Team, require_team};
use super::timeline;
use super::usable::{AgentRef, UsableMember};
use super::wakes::{self, WakeCause};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Id, Int, Issue, Result, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress, due};
use crate::store::{Order, PageRequest, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, sweeps: &[END_LEASES], ..Resource::EMPTY };

/// Ends the leases that were not renewed.
const END_LEASES: Sweep =
    Sweep { name: "leases of tasks", every_secs: 5, run: end_leases, installation: false };

/// So many tasks with a lease one worker may have: each sign of life renews them all.
const MAX_LEASES: usize = 100;

/// A lease is renewed at least within a day, and at most every few seconds.
type LeaseSecs = Int<10, 86_400>;

/// So long after its start a server ends no lease: nobody could renew one before.
const GRACE_SECS: i64 = 60;

/// A sign of life so soon after another renews nothing.
const MIN_RENEWED_MILLIS: i64 = 1000;

// ── What callers send and see ────────────────────────────────────────────────

/// The agent that claims the task, and which of its processes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"agentId": "01890a5d-ac96-774b-bcce-b302099a8057", "worker": "host-1:4242",
        "leaseSecs": 300}],
    "if" = {"required": ["leaseSecs"], "properties": {"leaseSecs": {"type": "integer"}}},
    "then" = {"required": ["worker"], "properties": {"worker": {"type": "string"}}},
))]
pub struct ClaimTask {
    /// An agent of the team.
    agent_id: AgentRef,
    /// The process of the agent, as it calls itself; another one is refused then.
    worker: Option<WorkerName>,
    /// After so many seconds without a sign of life of the worker the task is open again.
    lease_secs: Option<LeaseSecs>,
}

impl Input for ClaimTask {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.lease_secs.is_some() && self.worker.is_none() {
            issues.push(Issue::new("worker", "is required with leaseSecs"));
        }
    }
}

/// A sign of life of a worker.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"worker": "host-1:4242"}],
))]
struct WorkerHeartbeat {
    /// The process of the agent, as it called itself when it claimed its tasks.
    worker: WorkerName,
}
impl Input for WorkerHeartbeat {}

/// The tasks whose leases a sign of life has renewed.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WorkerHeartbeatAnswer {
    /// Those that the worker has; one that is missing here it has no more.
    task_ids: Vec<Id<Task>>,
}

impl Output for WorkerHeartbeatAnswer {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Says that a worker is named without its agent, which a request names elsewhere.
pub fn check_worker(
    worker: Option<&WorkerName>,
    agent: Option<&AgentRef>,
    issues: &mut Vec<Issue>,
) {
    if worker.is_some() && agent.is_none() {
        issues.push(Issue::new("fromAgentId", "is required with worker"));
    }
}

// ── Claims ───────────────────────────────────────────────────────────────────

/// Assigns a task to the agent that claims it. A repetition by the same agent, or by the same of its
/// workers, changes nothing but the end of the lease.
///
/// # Errors
/// 409 if the task is closed, another agent or worker has it, or the agent is paused.
pub fn claim(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), ClaimTask>) -> Result<Task> {
    let (team, id) = req.params;
    require_team(&tx.view(), team)?;
    let agent = req.input.agent_id.open(&tx.view(), req.caller(), team)?;
    require_active(&tx.view(), &agent)?;
    let worker = req.input.worker.as_ref();
    renew(tx, &agent, worker)?;
    let old = fetch_task(&tx.view(), team, id)?;
    if old.is_closed() {
        return Err(Error::conflict("task_closed", "the task is closed; reopen it to claim it"));
    }
    require_free(&tx.view(), &old, &agent, worker)?;
    let claim = worker.map(|worker| granted(tx, &old, req, worker)).transpose()?;
    if claim.as_ref().is_some_and(|claim| claim.lease_secs.is_some()) {
        require_few(tx, &old, &agent, worker)?;
    }
    let status = match old.status {
        TaskStatus::Open => TaskStatus::InProgress,
        other => other,
    };
    let task = Task { assignee_agent_id: Some(agent.id), status, claim, ..old.clone() };
    save(tx, &old, task)
}

/// Returns the claim that a worker is given, or its own, renewed.
fn granted(
    tx: &Tx,
    task: &Task,
    req: &Req<(Id<Team>, Id<Task>), ClaimTask>,
    worker: &WorkerName,
) -> Result<TaskClaim> {
    let was_free = current_assignee(&tx.view(), task)?.is_none();
    let secs = req.input.lease_secs.and_then(|secs| u32::try_from(secs.get()).ok());
    // One that its agent has left with it is nobody's.
    let own = task.claim.clone().filter(|_| !was_free);
    let claim = own.unwrap_or_else(|| TaskClaim {
        worker: worker.clone(),
        since: tx.now(),
        lease_secs: None,
        lease_ends_at: None,
        by: req.caller().user(),
        was_free,
    });
    let is_kept = secs.is_none_or(|secs| claim.lease_secs == Some(secs));
    // What it has still got was renewed with all others.
    if is_kept { Ok(claim) } else { Ok(TaskClaim { lease_secs: secs, ..claim }.renewed(tx.now())) }
}

/// Stores a claimed task, if claiming has changed it.
fn save(tx: &mut Tx, old: &Task, mut task: Task) -> Result<Task> {
    if task != *old {
        task.updated_at = tx.now();
        tx.replace(old, &task)?;
    }
    Ok(task)
}

/// Requires that no other agent has the task, and no other process of this one.
///
/// # Errors
/// 409 that says who has it, and since when.
fn require_free(
    view: &View,
    task: &Task,
    agent: &Member,
    worker: Option<&WorkerName>,
) -> Result<()> {
    let Some(assignee) = assignee(view, task)? else { return Ok(()) };
    let holder = task.claim.as_ref();
    if assignee.id == agent.id && holder.is_none_or(|holder| Some(&holder.worker) == worker) {
        return Ok(());
    }
    let name = member::name(view, &assignee)?;
    let message = match holder {
        Some(TaskClaim { worker, since, lease_ends_at, .. }) => {
            let until = lease_ends_at.map_or(String::new(), |end| format!(" until {end}"));
            let worker = worker.as_str();
            format!("the worker {worker} of {} has the task since {since}{until}", name.as_str())
        }
        None => format!("another agent has the task: {}", name.as_str()),
    };
    Err(Error::conflict("task_claimed", message))
}

/// Requires that a worker has the task that it writes to.
///
/// # Errors
/// 409 if another one has it, or it has lost it.
pub fn require_held(view: &View, task: &Task, agent: &Member, worker: &WorkerName) -> Result<()> {
    require_free(view, task, agent, Some(worker))?;
    let is_agents = task.assignee_agent_id == Some(agent.id);
    if is_agents && task.claim.as_ref().is_some_and(|claim| claim.worker == *worker) {
        return Ok(());
    }
    let message = "the worker does not have the task: its claim has ended, or was never made; claim \
                   the task first";
    Err(Error::conflict("claim_ended", message))
}

/// Requires that a worker has fewer tasks with a lease than it may, beside this one.
fn require_few(tx: &Tx, task: &Task, agent: &Member, worker: Option<&WorkerName>) -> Result<()> {
    let Some(worker) = worker else { return Ok(()) };
    let others = leased(tx, agent, worker)?.into_iter().filter(|other| other.id != task.id);
    if others.count() < MAX_LEASES {
        return Ok(());
    }
    let message = "the worker has 100 tasks with a lease, and may have no more; finish or release \
                   some, or claim without leaseSecs";
    Err(Error::conflict("too_many_leases", message))
}

/// Returns a task as it is after a change, without a claim that the change has ended.
pub fn with_claim_kept(old: &Task, new: Task) -> Task {
    let is_kept = new.is_begun() && new.assignee_agent_id == old.assignee_agent_id;
    let claim = new.claim.clone().filter(|_| is_kept);
    Task { claim, ..new }
}

// ── Signs of life ────────────────────────────────────────────────────────────

/// Returns the tasks with a lease that a worker has.
fn leased(tx: &Tx, agent: &Member, worker: &WorkerName) -> Result<Vec<Task>> {
    let part = PageRequest { limit: MAX_LEASES, after: None };
    let key = (agent.id, worker.clone());
    Ok(tx.page(&BY_WORKER, &key, Order::Ascending, &part, |_| true)?.items)
}

/// Renews the leases of a worker, if a request names one, and returns its tasks.
pub fn renew(tx: &mut Tx, agent: &Member, worker: Option<&WorkerName>) -> Result<Vec<Id<Task>>> {
    let Some(worker) = worker else { return Ok(Vec::new()) };
    let (tasks, now) = (leased(tx, agent, worker)?, tx.now());
    for old in &tasks {
        let Some(claim) = &old.claim else { continue };
        let renewed = claim.renewed(now);
        if has_moved(claim.lease_ends_at, renewed.lease_ends_at) {
            tx.replace(old, &Task { claim: Some(renewed), ..old.clone() })?;
        }
    }
    Ok(tasks.into_iter().map(|task| task.id).collect())
}

/// Whether the end of a lease is another one, by more than a moment.
fn has_moved(old: Option<Time>, new: Option<Time>) -> bool {
    let millis = |at: Option<Time>| at.map_or(0, Time::millis);
    (millis(new) - millis(old)).abs() >= MIN_RENEWED_MILLIS
}

fn heartbeat(
    tx: &mut Tx,
    req: &Req<(Id<Team>, Id<Member>), WorkerHeartbeat>,
) -> Result<WorkerHeartbeatAnswer> {
    require_team(&tx.view(), req.params.0)?;
    let agent = UsableMember::fetch(&tx.view(), req.caller(), req.params)?;
    let task_ids = renew(tx, &agent, Some(&req.input.worker))?;
    Ok(WorkerHeartbeatAnswer { task_ids })
}

// ── Ends of leases ───────────────────────────────────────────────────────────

/// Ends the leases that are over, and begins anew those that were given while the clock was ahead.
fn end_leases(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let (now, started_at) = (tx.now(), settings.started_at);
    for old in misdated(&tx.view())? {
        let claim = old.claim.as_ref().map(|claim| claim.renewed(now));
        tx.replace(&old, &Task { claim, ..old.clone() })?;
    }
    if now < started_at.plus_secs(GRACE_SECS) && !started_at.is_beyond(now, 0) {
        return Ok(SweepProgress::Clean);
    }
    let is_over = |task: &Task| {
        let end = task.claim.as_ref().and_then(|claim| claim.lease_ends_at);
        end.is_some_and(|end| end <= now)
    };
    let (over, progress) = due(&tx.view(), &BY_LEASE_END, is_over)?;
    for task in &over {
        end_lease(tx, task)?;
    }
    Ok(progress)
}

/// Returns some of the tasks whose lease ends later than any can: those are the last by their end.
fn misdated(view: &View) -> Result<Vec<Task>> {
    let mut found = Vec::new();
    view.for_each(&BY_LEASE_END, &(), Order::Descending, |task: Task| {
        if found.len() == MAX_LEASES || !has_misdated_lease(&task, view.now()) {
            return Ok(ControlFlow::Break(()));
        }
        found.push(task);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(found)
}

fn has_misdated_lease(task: &Task, now: Time) -> bool {
    task.claim.as_ref().is_some_and(|claim| claim.is_misdated(now))
}

/// Opens a task again whose worker gives no sign of life. It is who had it before's, or nobody's.
fn end_lease(tx: &mut Tx, old: &Task) -> Result<()> {
    let Some(claim) = &old.claim else { return Ok(()) };
    let status = match old.status {
        TaskStatus::InProgress => TaskStatus::Open,
        other => other,
    };
    let assignee_agent_id = old.assignee_agent_id.filter(|_| !claim.was_free);
    let updated_at = tx.now();
    let task = Task { assignee_agent_id, status, claim: None, updated_at, ..old.clone() };
    tx.replace(old, &task)?;
    let Some(team) = tx.get::<Team>(&task.team_id)? else { return Ok(()) };
    let former: Option<Member> = match old.assignee_agent_id {
        Some(id) => tx.get(&(task.team_id, id))?,
        None => None,
    };
    note_end(tx, &team, (&task, claim), former.as_ref())?;
    if task.status != TaskStatus::Open {
        return Ok(()); // What is blocked wakes when it is unblocked.
    }
    match assignee_or_scrum_master(&tx.view(), &task)?.or(former) {
        Some(agent) => wakes::wake(tx, &agent, &WakeCause::ClaimExpired(&task)),
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
        Route::post("/teams/{teamId}/tasks/{taskId}/claim", MEMBER, "task.claim", op::write(claim))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Claim a task for an agent"),
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

#[cfg(test)]
mod tests;
