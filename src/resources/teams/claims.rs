//! Claiming tasks, also for one process of an agent
//! (reference: teams-and-wakes, "Claims of workers").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes;
use super::claim::{TaskClaim, WorkerName};
use super::holds::require_active;
use super::lease::{Lease, LeaseSecs, MAX_LEASES, give, leases_of, renew};
use super::member::{self, Member};
use super::parts::TaskInfo;
use super::task::{Task, TaskStatus, assignee, current_assignee, fetch_task};
use super::team::{TEAM_IN_PATH, Team, require_team};
use super::usable::AgentRef;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Id, Issue, Result, Time};
use crate::store::{Record as _, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

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

/// A task that an agent has claimed, and until when its lease is.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimedTask {
    #[serde(flatten)]
    pub task: TaskInfo,
    /// When it is open again, unless the worker gives a sign of life before; null without a lease.
    pub lease_ends_at: Option<Time>,
}

impl Output for ClaimedTask {
    fn resource(&self) -> Option<ResourceRef> {
        self.task.resource()
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
/// workers, changes nothing but its lease.
///
/// # Errors
/// 409 if the task is closed, another agent or worker has it, or the agent is paused.
pub fn claim(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), ClaimTask>) -> Result<ClaimedTask> {
    let (team, id) = req.params;
    require_team(&tx.view(), team)?;
    let old = fetch_task(&tx.view(), team, id)?;
    let agent = req.input.agent_id.open(&tx.view(), req.caller(), team)?;
    require_active(&tx.view(), &agent)?;
    if old.is_closed() {
        return Err(Error::conflict("task_closed", "the task is closed; reopen it to claim it"));
    }
    let worker = req.input.worker.as_ref();
    require_free(&tx.view(), &old, &agent, worker)?;
    let claim = worker.map(|worker| granted(tx, &old, req, worker)).transpose()?;
    if let Some(TaskClaim { worker, lease_secs: Some(_), .. }) = &claim {
        require_few(tx, &old, &agent, worker)?;
    }
    let status = match old.status {
        TaskStatus::Open => TaskStatus::InProgress,
        other => other,
    };
    let mut task = Task { assignee_agent_id: Some(agent.id), status, claim, ..old.clone() };
    if task != old {
        (task.updated_at, task.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&old, &task)?;
        changes::note(tx, &old, &task, (Some(agent.id), Some(req.caller().user())))?;
    }
    let lease = give(tx, &task)?;
    renew(tx, &agent, worker)?;
    let task = TaskInfo::of(&tx.view(), task)?;
    Ok(ClaimedTask { task, lease_ends_at: lease.map(|lease| lease.ends_at) })
}

/// Returns the claim that a worker is given, or its own.
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
        by: req.caller().user(),
        was_free,
    });
    Ok(TaskClaim { lease_secs: secs.or(claim.lease_secs), ..claim })
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
        Some(TaskClaim { worker, since, .. }) => {
            let lease = view.get::<Lease>(&task.key())?;
            let until = lease.map_or(String::new(), |lease| format!(" until {}", lease.ends_at));
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

/// Requires that a worker has fewer leases than it may, beside that of this task.
fn require_few(tx: &Tx, task: &Task, agent: &Member, worker: &WorkerName) -> Result<()> {
    let others = leases_of(tx, agent, worker)?.into_iter().filter(|other| other.task != task.id);
    if others.count() < MAX_LEASES {
        return Ok(());
    }
    let message = format!(
        "the worker has {MAX_LEASES} tasks with a lease, and may have no more; finish or release \
         some, or claim without leaseSecs"
    );
    Err(Error::conflict("too_many_leases", message))
}

/// Returns a task as it is after a change, without a claim that the change has ended.
pub fn with_claim_kept(old: &Task, new: Task) -> Task {
    let is_kept = new.is_begun() && new.assignee_agent_id == old.assignee_agent_id;
    let claim = new.claim.clone().filter(|_| is_kept);
    Task { claim, ..new }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post("/teams/{teamId}/tasks/{taskId}/claim", MEMBER, "task.claim", op::write(claim))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Claim a task for an agent"),
    ]
}

#[cfg(test)]
mod tests;
