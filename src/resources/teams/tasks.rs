//! Tasks: what a team has to do, and who does it (interface §1.1, contract §6).

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::leftovers;
use super::lists::merged;
use super::members::{Member, fetch_member, scrum_master};
use super::team::{Team, must_exist};
use super::wakes::{self, Cause};
use crate::api::{Input, Req, Route};
use crate::auth::{Rule, User};
use crate::base::{Error, Field, Id, Int, Result, Text, Time, Title};
use crate::store::{AnyIndex, Index, Order, Page, Part, Record, Source, Tx, View};

/// What a task has when nobody says.
const DEFAULT_PRIORITY: u8 = 2;

type TaskDescription = Text<0, 100_000>;
type ProjectId = Text<0, 200>;
type Priority = Int<0, 4>;

// ── Records ──────────────────────────────────────────────────────────────────

/// How far a task has come. Any may follow any other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Nobody has begun.
    Open,
    /// Somebody is at it.
    InProgress,
    /// Something stands in the way.
    Blocked,
    /// Closed: it is done.
    Done,
    /// Closed: it will not be done.
    Cancelled,
}
crate::store::stored_enum!(TaskStatus {
    Open = 0,
    InProgress = 1,
    Blocked = 2,
    Done = 3,
    Cancelled = 4,
});

impl TaskStatus {
    const ALL: [Self; 5] =
        [Self::Open, Self::InProgress, Self::Blocked, Self::Done, Self::Cancelled];

    fn is_closed(self) -> bool {
        matches!(self, TaskStatus::Done | TaskStatus::Cancelled)
    }
}

/// A task.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    /// Its id.
    pub id: Id<Task>,
    /// The team that has it.
    pub team_id: Id<Team>,
    /// 1, 2, … in the team, without gaps.
    pub number: u32,
    /// What it is called.
    pub title: Title,
    /// What is to be done.
    pub description: Option<TaskDescription>,
    /// A word of the client's own.
    pub project_id: Option<ProjectId>,
    /// Who has it; without one the whole team sees it as free.
    pub assignee_agent_id: Option<Id<Member>>,
    /// From 0 to 4.
    pub priority: u8,
    /// How far it has come.
    pub status: TaskStatus,
    /// On whose behalf it was made; none if the service itself made it.
    pub created_by: Option<Id<User>>,
    /// When it was made.
    pub created_at: Time,
    /// When it was last changed.
    pub updated_at: Time,
}

impl Task {
    /// Whether nobody need do anything more.
    pub fn is_closed(&self) -> bool {
        self.status.is_closed()
    }
}

static BY_STATUS: Index<Task, TaskStatus> =
    Index::many("tasks.by_status", |task| Some(task.status));

// The status is in it so that open tasks are found among many closed ones.
static BY_ASSIGNEE: Index<Task, (Option<Id<Member>>, TaskStatus)> =
    Index::many("tasks.by_assignee", |task| Some((task.assignee_agent_id, task.status)));

impl Record for Task {
    const TABLE: &'static str = "tasks";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_STATUS, &BY_ASSIGNEE];
    type Key = (Id<Team>, Id<Task>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.id)
    }
}

/// The number of a team's last task. Apart from the team, so that a task changes no team.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Counter {
    team: Id<Team>,
    last: u32,
}

impl Record for Counter {
    const TABLE: &'static str = "tasks.counters";
    type Key = Id<Team>;
    fn key(&self) -> Self::Key {
        self.team
    }
}

/// The task of this team with this id, or 404. Whether the team exists is the caller's to ask.
pub fn fetch_task(view: &View, team: Id<Team>, id: Id<Task>) -> Result<Task> {
    view.fetch(&(team, id))
}

/// The agent whose business a task is: its assignee, or the Scrum Master when it has none
/// (interface §1.3).
pub fn responsible(view: &View, task: &Task) -> Result<Option<Member>> {
    match assignee(view, task)? {
        Some(assignee) => Ok(Some(assignee)),
        None => scrum_master(view, task.team_id),
    }
}

/// The agent that has a task. One that has left the team counts as none: closed tasks keep their
/// assignee, and open ones for as long as it takes to clear after an agent.
fn assignee(view: &View, task: &Task) -> Result<Option<Member>> {
    match task.assignee_agent_id {
        Some(id) => view.get(&(task.team_id, id)),
        None => Ok(None),
    }
}

fn still_there(view: &View, task: &Task) -> Result<Option<Id<Member>>> {
    Ok(assignee(view, task)?.map(|assignee| assignee.id))
}

/// Takes open tasks from an agent that leaves its team, at most so many; says how many.
pub fn unassign(tx: &mut Tx, team: Id<Team>, member: Id<Member>, at_most: usize) -> Result<usize> {
    let open = TaskStatus::ALL.into_iter().filter(|status| !status.is_closed());
    let places: Vec<_> = open.map(|status| (Some(member), status)).collect();
    let mut cleared = 0;
    while cleared < at_most {
        let part = Part { limit: at_most - cleared, after: None };
        let page = merged(&tx.view(), &BY_ASSIGNEE, &places, team, &part, |_| true)?;
        for old in &page.items {
            let task = Task { assignee_agent_id: None, updated_at: tx.now(), ..old.clone() };
            tx.replace(old, &task)?;
        }
        cleared += page.items.len();
        // A page may end early; what was cleared is no longer in these places.
        if page.next.is_none() {
            break;
        }
    }
    Ok(cleared)
}

/// Removes the tasks of a team that was deleted, at most so many; says how many.
pub fn clear(tx: &mut Tx, team: Id<Team>, at_most: usize) -> Result<usize> {
    let tasks = leftovers::remove_first::<Task>(tx, &team, at_most)?;
    Ok(tasks + leftovers::remove_first::<Counter>(tx, &team, at_most - tasks)?)
}

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
    let team = must_exist(view, req.at)?;
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
            merged(view, &BY_ASSIGNEE, &[(assignee, *status)], team, &req.part, keep)
        }
        (Some(assignee), None) => {
            let places = TaskStatus::ALL.map(|status| (assignee, status));
            merged(view, &BY_ASSIGNEE, &places, team, &req.part, keep)
        }
        (None, Some(status)) => merged(view, &BY_STATUS, &[*status], team, &req.part, keep),
        (None, None) => view.page(Source::TABLE, &team, Order::Descending, &req.part, keep),
    }
}

/// Makes a task.
pub fn create(tx: &mut Tx, req: &Req<Id<Team>, NewTask>) -> Result<Task> {
    make(tx, req.at, &req.input, Some(req.caller().user()))
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
    let team = must_exist(&tx.view(), team)?;
    let assignee = fetch_if_named(&tx.view(), team, new.assignee_agent_id)?;
    let acting = fetch_if_named(&tx.view(), team, new.from_agent_id)?;
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

fn show(view: &View, req: &Req<(Id<Team>, Id<Task>)>) -> Result<Task> {
    let (team, id) = req.at;
    must_exist(view, team)?;
    fetch_task(view, team, id)
}

/// Changes a task.
pub fn change(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), TaskPatch>) -> Result<Task> {
    let (team, id) = req.at;
    must_exist(&tx.view(), team)?;
    let old = fetch_task(&tx.view(), team, id)?;
    let patch = &req.input;
    let assignee = fetch_if_named(&tx.view(), team, patch.assignee_agent_id.value().copied())?;
    let acting = fetch_if_named(&tx.view(), team, patch.from_agent_id)?;

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
    let (team, id) = req.at;
    must_exist(&tx.view(), team)?;
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

/// The member that a request names, if it names one.
pub fn fetch_if_named(
    view: &View,
    team: Id<Team>,
    id: Option<Id<Member>>,
) -> Result<Option<Member>> {
    id.map(|id| fetch_member(view, team, id)).transpose()
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

fn next_number(tx: &mut Tx, team: Id<Team>) -> Result<u32> {
    let last = tx.get::<Counter>(&team)?.map_or(0, |counter| counter.last);
    tx.put(&Counter { team, last: last + 1 })?;
    Ok(last + 1)
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of tasks.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/tasks";
    const ONE: &str = "/teams/{teamId}/tasks/{taskId}";
    vec![
        Route::list(ALL, Rule::Member, "task.list", list).about("List a team's tasks"),
        Route::post(ALL, Rule::Member, "task.create", create)
            .about("Make a task; without an assignee the whole team sees it as free"),
        Route::get(ONE, Rule::Member, "task.show", show).about("Show a task"),
        Route::patch(ONE, Rule::Member, "task.update", change).about("Change a task"),
        Route::post("/teams/{teamId}/tasks/{taskId}/claim", Rule::Member, "task.claim", claim)
            .about("Take a task for an agent; one of many that try gets it"),
    ]
}

#[cfg(test)]
mod tests;
