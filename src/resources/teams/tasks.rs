//! Tasks: what a team has to do, and who does it (reference: teams-and-wakes, "Tasks").

use schemars::JsonSchema;
use serde::Deserialize;

use super::lists::merged;
use super::member::{Member, fetch_member, fetch_optional};
use super::task::{
    BY_ASSIGNEE, BY_STATUS, ProjectId, Task, TaskDescription, TaskStatus, fetch_task, next_number,
    place, still_there,
};
use super::team::{Team, require_team};
use super::wakes::{self, Cause};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, User};
use crate::base::{Error, Field, Id, Int, Result, Title};
use crate::store::{Order, Page, Source, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Task>(), TableInfo::of::<super::task::Counter>()],
    ..Resource::EMPTY
};

/// What a task has when nobody says.
const DEFAULT_PRIORITY: u8 = 2;

type Priority = Int<0, 4>;

// ── What callers send ────────────────────────────────────────────────────────

/// A task to be made.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTask {
    /// What it is called.
    pub title: Title,
    /// What is to be done.
    pub description: Option<TaskDescription>,
    /// A word of the client's own.
    pub project_id: Option<ProjectId>,
    /// Who shall do it.
    pub assignee_agent_id: Option<Id<Member>>,
    /// From 0 to 4; 2 when absent.
    pub priority: Option<Priority>,
    /// The agent of the team that makes it.
    pub from_agent_id: Option<Id<Member>>,
}
impl Input for NewTask {}

/// What to change of a task.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskPatch {
    title: Option<Title>,
    #[serde(default)]
    description: Field<TaskDescription>,
    status: Option<TaskStatus>,
    #[serde(default)]
    assignee_agent_id: Field<Id<Member>>,
    priority: Option<Priority>,
    #[serde(default)]
    project_id: Field<ProjectId>,
    from_agent_id: Option<Id<Member>>,
}
impl Input for TaskPatch {}

/// What an agent takes for its own: a task, or mail to read.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    /// The agent.
    pub agent_id: Id<Member>,
}
impl Input for Claim {}

#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TaskFilter {
    status: Option<TaskStatus>,
    assignee_agent_id: Option<Id<Member>>,
    unassigned: Option<bool>,
}
impl Input for TaskFilter {}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Team>, TaskFilter>) -> Result<Page<Task>> {
    let team = require_team(view, req.params)?;
    let TaskFilter { status, assignee_agent_id, unassigned } = &req.input;
    let assignee = match (assignee_agent_id, unassigned) {
        (Some(_), Some(true)) => return Ok(Page::whole(vec![])),
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
            let places = TaskStatus::ALL.map(|status| place(assignee, status));
            merged(view, &BY_ASSIGNEE, &places, team, &req.page, keep)
        }
        (None, Some(status)) => merged(view, &BY_STATUS, &[*status], team, &req.page, keep),
        (None, None) => view.page(Source::TABLE, &team, Order::Descending, &req.page, keep),
    }
}

/// Makes a task.
pub fn create(tx: &mut Tx, req: &Req<Id<Team>, NewTask>) -> Result<Task> {
    make(tx, req.params, &req.input, Some(req.caller().user()))
}

/// Makes a task on behalf of `created_by`, or of the service itself.
///
/// # Errors
/// 404 if the team, or an agent that is named, is not there.
pub fn make(
    tx: &mut Tx,
    team: Id<Team>,
    new: &NewTask,
    created_by: Option<Id<User>>,
) -> Result<Task> {
    let team = require_team(&tx.view(), team)?;
    let assignee = fetch_optional(&tx.view(), team, new.assignee_agent_id)?;
    let acting = fetch_optional(&tx.view(), team, new.from_agent_id)?;
    let task = Task {
        id: tx.new_id(),
        team_id: team,
        number: next_number(tx, team)?,
        title: new.title.clone(),
        description: new.description.clone(),
        project_id: new.project_id.clone(),
        assignee_agent_id: new.assignee_agent_id,
        priority: new.priority.map_or(DEFAULT_PRIORITY, |priority| priority.get() as u8),
        status: TaskStatus::Open,
        created_by,
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    tx.insert(&task)?;
    wake_assignee(tx, &task, assignee, acting)?;
    Ok(task)
}

fn get(view: &View, req: &Req<(Id<Team>, Id<Task>)>) -> Result<Task> {
    let (team, id) = req.params;
    require_team(view, team)?;
    fetch_task(view, team, id)
}

/// Changes a task.
pub fn update(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), TaskPatch>) -> Result<Task> {
    let (team, id) = req.params;
    require_team(&tx.view(), team)?;
    let old = fetch_task(&tx.view(), team, id)?;
    let patch = &req.input;
    let assignee = fetch_optional(&tx.view(), team, patch.assignee_agent_id.value().copied())?;
    let acting = fetch_optional(&tx.view(), team, patch.from_agent_id)?;

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
    patch.assignee_agent_id.clone().apply(&mut task.assignee_agent_id);
    patch.project_id.clone().apply(&mut task.project_id);
    if old.is_closed() && !task.is_closed() {
        task.assignee_agent_id = still_there(&tx.view(), &task)?;
    }
    if task != old {
        task.updated_at = tx.now();
        tx.replace(&old, &task)?;
    }
    if task.assignee_agent_id != old.assignee_agent_id {
        wake_assignee(tx, &task, assignee, acting)?;
    }
    Ok(task)
}

/// Takes a task for an agent.
pub fn claim(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), Claim>) -> Result<Task> {
    let (team, id) = req.params;
    require_team(&tx.view(), team)?;
    let old = fetch_task(&tx.view(), team, id)?;
    let agent = fetch_member(&tx.view(), team, req.input.agent_id)?.id;
    if old.is_closed() {
        return Err(Error::conflict("task_closed", "the task is closed; there is nothing to do"));
    }
    if still_there(&tx.view(), &old)?.is_some_and(|assignee| assignee != agent) {
        return Err(Error::conflict("task_claimed", "another agent has the task"));
    }
    let status = match old.status {
        TaskStatus::Open => TaskStatus::InProgress,
        other => other,
    };
    if old.assignee_agent_id == Some(agent) && old.status == status {
        return Ok(old); // It claimed it before.
    }
    let updated_at = tx.now();
    let task = Task { assignee_agent_id: Some(agent), status, updated_at, ..old.clone() };
    tx.replace(&old, &task)?;
    Ok(task)
}

/// Wakes who was given a task, unless they took it themselves.
fn wake_assignee(
    tx: &mut Tx,
    task: &Task,
    assignee: Option<Member>,
    acting: Option<Member>,
) -> Result<()> {
    match assignee {
        Some(assignee) if acting.is_none_or(|acting| acting.id != assignee.id) => {
            wakes::wake(tx, &assignee, &Cause::TaskAssigned(task))
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
        Route::get(ALL, MEMBER, "task.list", op::list(list)).about("List a team's tasks"),
        Route::post(ALL, MEMBER, "task.create", op::write(create))
            .about("Make a task; without an assignee the whole team sees it as free"),
        Route::get(ONE, MEMBER, "task.show", op::read(get)).about("Show a task"),
        Route::patch(ONE, MEMBER, "task.update", op::write(update)).about("Change a task"),
        Route::post("/teams/{teamId}/tasks/{taskId}/claim", MEMBER, "task.claim", op::write(claim))
            .about("Take a task for an agent; one of many that try gets it"),
    ]
}

#[cfg(test)]
mod tests;
