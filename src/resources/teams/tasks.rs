//! Operations on tasks: list, create, update (reference: teams-and-wakes, "Tasks").

use schemars::JsonSchema;
use serde::Deserialize;

use super::claim::WorkerName;
use super::claims::{check_worker, require_held, with_claim_kept};
use super::lease::{give, renew};
use super::lists::merged;
use super::member::{Member, require_active};
use super::task::{
    BY_ASSIGNEE, BY_NUMBER, BY_STATUS, ProjectId, Task, TaskDescription, TaskStatus,
    assignee as assignee_of, current_assignee, fetch_task, next_number, place,
};
use super::team::{TEAM_IN_PATH, Team, require_team};
use super::usable::{AgentRef, open_optional};
use super::wakes::{self, WakeCause};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{Error, Id, Int, Issue, Nullable, Result, Title};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Task>(), TableInfo::of::<super::task::TaskCounter>()],
    ..Resource::EMPTY
};

/// The priority of a task created without one: the middle.
const DEFAULT_PRIORITY: u8 = 2;

/// The priority of a task.
pub type Priority = Int<0, 4>;
type TaskNumber = Int<1, { u32::MAX as i64 }>;

// ── What callers send ────────────────────────────────────────────────────────

/// A task to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"title": "Write the release notes",
        "assigneeAgentId": "01890a5d-ac96-774b-bcce-b302099a8057", "priority": 2}],
    "if" = {"required": ["worker"], "properties": {"worker": {"type": "string"}}},
    "then" = {"required": ["fromAgentId"], "properties": {"fromAgentId": {"type": "string"}}},
))]
pub struct NewTask {
    /// A short summary.
    pub title: Title,
    /// What to do, at length.
    pub description: Option<TaskDescription>,
    /// Opaque identifier chosen by the client; not interpreted.
    pub project_id: Option<ProjectId>,
    /// The agent to assign it to; absent, any agent may claim it.
    pub assignee_agent_id: Option<AgentRef>,
    /// From 0 to 4, not interpreted; 2 if absent.
    pub priority: Option<Priority>,
    /// The agent of the team that creates it; it is not woken for its own action.
    pub from_agent_id: Option<AgentRef>,
    /// The process of the agent that creates it, whose leases it renews.
    pub worker: Option<WorkerName>,
}
impl Input for NewTask {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_worker(self.worker.as_ref(), self.from_agent_id.as_ref(), issues);
    }
}

/// Changes to a task; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"status": "done"}],
    "if" = {"required": ["worker"], "properties": {"worker": {"type": "string"}}},
    "then" = {"required": ["fromAgentId"], "properties": {"fromAgentId": {"type": "string"}}},
))]
pub struct TaskPatch {
    title: Option<Title>,
    #[serde(default)]
    description: Nullable<TaskDescription>,
    status: Option<TaskStatus>,
    #[serde(default)]
    assignee_agent_id: Nullable<AgentRef>,
    /// From 0 to 4; not interpreted.
    priority: Option<Priority>,
    #[serde(default)]
    project_id: Nullable<ProjectId>,
    /// The agent of the team that makes the change; it is not woken for its own action.
    from_agent_id: Option<AgentRef>,
    /// The process of the agent that makes the change; refused unless it has the task.
    worker: Option<WorkerName>,
}
impl Input for TaskPatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_worker(self.worker.as_ref(), self.from_agent_id.as_ref(), issues);
    }
}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskFilter {
    /// Only tasks with this status.
    status: Option<TaskStatus>,
    assignee_agent_id: Option<Id<Member>>,
    /// True: only tasks without an assignee; false: only tasks with one.
    unassigned: Option<bool>,
    /// Only the task with this number.
    number: Option<TaskNumber>,
}
impl Input for TaskFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Team>, TaskFilter>) -> Result<Page<Task>> {
    let team = require_team(view, req.params)?;
    let TaskFilter { status, assignee_agent_id, unassigned, number } = &req.input;
    if let Some(number) = number {
        return numbered(view, team, *number, &req.input);
    }
    let assignee = match (assignee_agent_id, unassigned) {
        (Some(_), Some(true)) => return Ok(Page::single(vec![])),
        (Some(id), _) => Some(Some(*id)),
        (None, Some(true)) => Some(None),
        (None, _) => None,
    };
    let keep = |task: &Task| *unassigned != Some(false) || task.assignee_agent_id.is_some();
    match (assignee, status) {
        (Some(assignee), Some(status)) => {
            merged(view, &BY_ASSIGNEE, &[place(assignee, *status)], team, &req.page, keep)
        }
        (Some(assignee), None) => {
            let keys = TaskStatus::ALL.map(|status| place(assignee, status));
            merged(view, &BY_ASSIGNEE, &keys, team, &req.page, keep)
        }
        (None, Some(status)) => merged(view, &BY_STATUS, &[*status], team, &req.page, keep),
        (None, None) => view.page(ListSource::TABLE, &team, Order::Descending, &req.page, keep),
    }
}

/// The task with this number, if it is one that the filter selects.
fn numbered(
    view: &View,
    team: Id<Team>,
    number: TaskNumber,
    filter: &TaskFilter,
) -> Result<Page<Task>> {
    let number = u32::try_from(number.get()).map_err(|_| Error::no_such("task"))?;
    let found: Option<Task> = view.first(&BY_NUMBER, &(team, number), Order::Ascending)?;
    let is_wanted = |task: &Task| {
        filter.status.is_none_or(|status| task.status == status)
            && filter.assignee_agent_id.is_none_or(|id| task.assignee_agent_id == Some(id))
            && filter.unassigned.is_none_or(|is_free| task.assignee_agent_id.is_none() == is_free)
    };
    Ok(Page::single(found.filter(is_wanted).into_iter().collect()))
}

/// Creates a task.
pub fn create(tx: &mut Tx, req: &Req<Id<Team>, NewTask>) -> Result<Task> {
    let (new, view) = (&req.input, tx.view());
    let team = require_team(&view, req.params)?;
    let open = |named: &Option<AgentRef>| open_optional(&view, req.caller(), team, named.as_ref());
    let (assignee, acting) = (open(&new.assignee_agent_id)?, open(&new.from_agent_id)?);
    if let (Some(assignee), Some(acting)) = (&assignee, &acting)
        && assignee.id == acting.id
    {
        require_active(&view, acting)?; // It takes the task.
    }
    if let Some(acting) = &acting {
        renew(tx, acting, new.worker.as_ref())?;
    }
    make(tx, team, new, (assignee.as_deref(), acting.as_deref()), Some(req.caller().user()))
}

/// Creates a task for `assignee` on behalf of `created_by`, or of the service itself. An assignee that
/// is `acting` itself is not woken.
pub fn make(
    tx: &mut Tx,
    team: Id<Team>,
    new: &NewTask,
    (assignee, acting): (Option<&Member>, Option<&Member>),
    created_by: Option<Id<User>>,
) -> Result<Task> {
    let task = Task {
        id: tx.new_id(),
        team_id: team,
        number: next_number(tx, team)?,
        title: new.title.clone(),
        description: new.description.clone(),
        project_id: new.project_id.clone(),
        assignee_agent_id: assignee.map(|agent| agent.id),
        priority: priority_of(new.priority),
        status: TaskStatus::Open,
        created_by,
        created_at: tx.now(),
        updated_at: tx.now(),
        claim: None,
    };
    tx.insert(&task)?;
    wake_assignee(tx, &task, assignee, acting)?;
    Ok(task)
}

/// Returns the priority that a new task has.
pub fn priority_of(given: Option<Priority>) -> u8 {
    given.map_or(DEFAULT_PRIORITY, |priority| priority.get() as u8)
}

fn get(view: &View, req: &Req<(Id<Team>, Id<Task>)>) -> Result<Task> {
    let (team, id) = req.params;
    require_team(view, team)?;
    fetch_task(view, team, id)
}

/// Updates a task and wakes a new assignee, or the one that it has if it can be worked on again. A
/// reopened task loses an assignee that has left.
///
/// # Errors
/// 409 if a paused agent takes it, or the worker that makes the change does not have it.
pub fn update(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), TaskPatch>) -> Result<Task> {
    let (team, id) = req.params;
    require_team(&tx.view(), team)?;
    let old = fetch_task(&tx.view(), team, id)?;
    let patch = &req.input;
    let is_same = |named: &&AgentRef| old.assignee_agent_id.is_some_and(|id| named.is(id));
    let named = patch.assignee_agent_id.value().filter(|named| !is_same(named));
    let assignee = open_optional(&tx.view(), req.caller(), team, named)?;
    let acting = open_optional(&tx.view(), req.caller(), team, patch.from_agent_id.as_ref())?;
    if let (Some(acting), Some(worker)) = (&acting, &patch.worker) {
        require_held(&tx.view(), &old, acting, worker)?;
        renew(tx, acting, Some(worker))?;
    }

    let mut task = old.clone();
    if let Some(title) = &patch.title {
        task.title = title.clone();
    }
    if let Some(status) = patch.status {
        task.status = status;
    }
    if let Some(priority) = patch.priority {
        task.priority = priority.get() as u8;
    }
    patch.description.clone().apply(&mut task.description);
    match (&patch.assignee_agent_id, &assignee) {
        (Nullable::Clear, _) => task.assignee_agent_id = None,
        (_, Some(assignee)) => task.assignee_agent_id = Some(assignee.id),
        _ => {}
    }
    patch.project_id.clone().apply(&mut task.project_id);
    if old.is_closed() && !task.is_closed() {
        task.assignee_agent_id = current_assignee(&tx.view(), &task)?;
    }
    let mut task = with_claim_kept(&old, task);
    if let Some(acting) = &acting
        && takes(&old, &task, acting)
    {
        require_active(&tx.view(), acting)?;
    }
    if task != old {
        task.updated_at = tx.now();
        tx.replace(&old, &task)?;
    }
    if task.claim != old.claim {
        give(tx, &task)?; // None: the change has ended the claim.
    }
    if task.assignee_agent_id != old.assignee_agent_id {
        wake_assignee(tx, &task, assignee.as_deref(), acting.as_deref())?;
    } else if let Some(cause) = resumption(&old, &task)
        && let Some(assignee) = assignee_of(&tx.view(), &task)?
        && acting.as_deref().is_none_or(|acting| acting.id != assignee.id)
    {
        wakes::wake(tx, &assignee, &cause)?;
    }
    Ok(task)
}

/// Whether an agent does with its own change what a claim does: it has the task from now on, or begins it.
fn takes(old: &Task, new: &Task, acting: &Member) -> bool {
    let begins = |task: &Task| task.status == TaskStatus::InProgress;
    let has = |task: &Task| task.assignee_agent_id == Some(acting.id);
    has(new) && (!has(old) || (begins(new) && !begins(old)))
}

/// Returns why the assignee of a task is to go on with it: it was blocked or closed and is not any
/// more. The agent has acknowledged what it was told of the task then.
fn resumption<'a>(old: &Task, task: &'a Task) -> Option<WakeCause<'a>> {
    if old.is_workable() || !task.is_workable() {
        return None;
    }
    Some(if old.is_closed() {
        WakeCause::TaskReopened(task)
    } else {
        WakeCause::TaskUnblocked(task)
    })
}

/// Wakes the new assignee of a task, unless it acted itself.
fn wake_assignee(
    tx: &mut Tx,
    task: &Task,
    assignee: Option<&Member>,
    acting: Option<&Member>,
) -> Result<()> {
    match assignee {
        Some(assignee) if acting.is_none_or(|acting| acting.id != assignee.id) => {
            wakes::wake(tx, assignee, &WakeCause::TaskAssigned(task))
        }
        _ => Ok(()),
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of tasks.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/tasks";
    const ONE: &str = "/teams/{teamId}/tasks/{taskId}";
    vec![
        Route::get(ALL, MEMBER, "task.list", op::list(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("List a team's tasks, newest first"),
        Route::post(ALL, MEMBER, "task.create", op::write(create))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Create a task"),
        Route::get(ONE, MEMBER, "task.get", op::read(get))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("Get a task"),
        Route::patch(ONE, MEMBER, "task.update", op::write(update))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Update a task"),
    ]
}

#[cfg(test)]
mod tests;
