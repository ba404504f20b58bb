//! Operations on tasks: list, create, update (reference: teams-and-wakes, "Tasks").

mod update;

use schemars::JsonSchema;
use serde::Deserialize;

use super::changes;
use super::claim::WorkerName;
use super::claims::check_worker;
use super::dependencies::{self, MAX_DEPENDENCIES};
use super::holds::require_active;
use super::labels::{self, MAX_LABELS};
use super::lease::renew;
use super::lists::merged;
use super::member::Member;
use super::parts::{self, TaskInfo};
use super::task::{
    BY_ASSIGNEE, BY_NUMBER, BY_PARENT, BY_PERSON, BY_STATUS, ProjectId, Task, TaskDescription,
    TaskLabel, TaskStatus, fetch_task, next_number, place, place_of_person,
};
use super::team::{TEAM_IN_PATH, Team, require_team};
use super::usable::{AgentRef, open_optional};
use super::wakes::{self, WakeCause};
use super::{due, people, task};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{BoundedList, Error, Id, Int, Issue, Nullable, Result, Time, Title};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};
pub use update::update;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Task>(), TableInfo::of::<task::TaskCounter>()],
    ..Resource::EMPTY
};

/// The priority of a task created without one: the middle.
const DEFAULT_PRIORITY: u8 = 2;

/// The priority of a task.
pub type Priority = Int<0, 4>;
type TaskNumber = Int<1, { u32::MAX as i64 }>;
type DependsOn = BoundedList<Id<Task>, 0, MAX_DEPENDENCIES>;
type Labels = BoundedList<TaskLabel, 0, MAX_LABELS>;

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
    /// The person to assign it to, a member of the organization; beside an agent or without one.
    pub assignee_user_id: Option<Id<User>>,
    /// From 0 to 4, not interpreted; 2 if absent.
    pub priority: Option<Priority>,
    /// The task of the team that it is a part of.
    pub parent_task_id: Option<Id<Task>>,
    /// Tasks of the team that have to be done before; until then it is blocked.
    pub depends_on: Option<DependsOn>,
    /// When it is to be closed.
    pub due_at: Option<Time>,
    /// Words to find it by, without commas and without blanks at their ends; not interpreted.
    pub labels: Option<Labels>,
    /// The agent of the team that creates it; it is not woken for its own action.
    pub from_agent_id: Option<AgentRef>,
    /// The process of the agent that creates it, whose leases it renews.
    pub worker: Option<WorkerName>,
}
impl Input for NewTask {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_worker(self.worker.as_ref(), self.from_agent_id.as_ref(), issues);
        labels::check(self.labels.as_deref(), issues);
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
    /// A person, who is a member of the organization.
    #[serde(default)]
    assignee_user_id: Nullable<Id<User>>,
    /// From 0 to 4; not interpreted.
    priority: Option<Priority>,
    #[serde(default)]
    project_id: Nullable<ProjectId>,
    /// The task of the team that it is a part of.
    #[serde(default)]
    parent_task_id: Nullable<Id<Task>>,
    /// All tasks of the team that have to be done before; it is blocked while one is not.
    depends_on: Option<DependsOn>,
    /// When it is to be closed.
    #[serde(default)]
    due_at: Nullable<Time>,
    /// All words to find it by, without commas and without blanks at their ends.
    labels: Option<Labels>,
    /// The agent of the team that makes the change; it is not woken for its own action.
    from_agent_id: Option<AgentRef>,
    /// The process of the agent that makes the change; refused unless it has the task.
    worker: Option<WorkerName>,
}
impl Input for TaskPatch {
    fn check(&self, issues: &mut Vec<Issue>) {
        check_worker(self.worker.as_ref(), self.from_agent_id.as_ref(), issues);
        labels::check(self.labels.as_deref(), issues);
    }
}

/// Which tasks are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskFilter {
    /// Only tasks with this status.
    status: Option<TaskStatus>,
    assignee_agent_id: Option<Id<Member>>,
    /// Only tasks of this person.
    assignee_user_id: Option<Id<User>>,
    /// True: only tasks that neither an agent nor a person has; false: only the others.
    unassigned: Option<bool>,
    /// Only the task with this number.
    number: Option<TaskNumber>,
    /// Only parts of this task.
    parent_task_id: Option<Id<Task>>,
    /// Only tasks with this label.
    label: Option<TaskLabel>,
}
impl Input for TaskFilter {}

impl TaskFilter {
    /// Whether a task is one that it selects.
    fn selects(&self, task: &Task) -> bool {
        let TaskFilter { status, assignee_agent_id, assignee_user_id, unassigned, .. } = self;
        let TaskFilter { number, parent_task_id, label, .. } = self;
        let is_free = task.assignee_agent_id.is_none() && task.assignee_user_id.is_none();
        status.is_none_or(|status| task.status == status)
            && assignee_agent_id.is_none_or(|id| task.assignee_agent_id == Some(id))
            && assignee_user_id.is_none_or(|id| task.assignee_user_id == Some(id))
            && unassigned.is_none_or(|unassigned| unassigned == is_free)
            && number.is_none_or(|number| i64::from(task.number) == number.get())
            && parent_task_id.is_none_or(|parent| task.parent_task_id == Some(parent))
            && label.as_ref().is_none_or(|label| task.labels.contains(label))
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists the tasks of a team, newest first.
pub fn list(view: &View, req: &Req<Id<Team>, TaskFilter>) -> Result<Page<TaskInfo>> {
    let (team, filter) = (require_team(view, req.params)?, &req.input);
    // Who has left may have open tasks until the removal is complete.
    let is_gone = match filter.assignee_user_id {
        Some(person) => !people::is_member(view, person)?,
        None => false,
    };
    let keep = |task: &Task| filter.selects(task) && (task.is_closed() || !is_gone);
    if let Some(label) = &filter.label {
        let is_closed = filter.status.map(TaskStatus::is_closed);
        return labels::list(view, (team, label, is_closed), &req.page, keep, TaskInfo::of);
    }
    let Page { items, next } = list_tasks(view, team, req, keep)?;
    let items = items.into_iter().map(|task| TaskInfo::of(view, task));
    Ok(Page { items: items.collect::<Result<_>>()?, next })
}

/// Lists the tasks that a filter without a label selects.
fn list_tasks(
    view: &View,
    team: Id<Team>,
    req: &Req<Id<Team>, TaskFilter>,
    keep: impl Fn(&Task) -> bool,
) -> Result<Page<Task>> {
    let TaskFilter { status, assignee_agent_id, unassigned, .. } = &req.input;
    let TaskFilter { assignee_user_id, number, parent_task_id, .. } = &req.input;
    if let Some(number) = number {
        let number = u32::try_from(number.get()).map_err(|_| Error::no_such("task"))?;
        let found: Option<Task> = view.first(&BY_NUMBER, &(team, number), Order::Ascending)?;
        return Ok(Page::single(found.filter(keep).into_iter().collect()));
    }
    let statuses = status.map_or(TaskStatus::ALL.to_vec(), |status| vec![status]);
    if let Some(parent) = parent_task_id {
        let keys: Vec<_> = statuses.into_iter().map(|status| (*parent, status)).collect();
        return merged(view, &BY_PARENT, &keys, team, &req.page, keep);
    }
    if let Some(person) = assignee_user_id {
        let keys = statuses.into_iter().map(|status| place_of_person(*person, status));
        return merged(view, &BY_PERSON, &keys.collect::<Vec<_>>(), team, &req.page, keep);
    }
    let assignee = match (assignee_agent_id, unassigned) {
        (Some(_), Some(true)) => return Ok(Page::single(vec![])),
        (Some(id), _) => Some(Some(*id)),
        (None, Some(true)) => Some(None),
        (None, _) => None,
    };
    match (assignee, status) {
        (Some(assignee), _) => {
            let keys: Vec<_> = statuses.into_iter().map(|status| place(assignee, status)).collect();
            merged(view, &BY_ASSIGNEE, &keys, team, &req.page, keep)
        }
        (None, Some(status)) => merged(view, &BY_STATUS, &[*status], team, &req.page, keep),
        (None, None) => view.page(ListSource::TABLE, &team, Order::Descending, &req.page, keep),
    }
}

/// Creates a task.
pub fn create(tx: &mut Tx, req: &Req<Id<Team>, NewTask>) -> Result<TaskInfo> {
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
    let by = Some(req.caller().user());
    let task = make(tx, team, new, (assignee.as_deref(), acting.as_deref()), by)?;
    TaskInfo::of(&tx.view(), task)
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
    let mut task = Task {
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
        parent_task_id: new.parent_task_id,
        depends_on: distinct(new.depends_on.as_deref()),
        due_at: new.due_at,
        labels: distinct(new.labels.as_deref()),
        is_waiting: false,
        has_parts: false,
        updated_by: created_by,
        assignee_user_id: new.assignee_user_id,
    };
    task = people::checked(&tx.view(), None, task)?;
    if dependencies::set(tx, None, &task)? {
        task = Task { status: TaskStatus::Blocked, is_waiting: true, ..task };
    }
    parts::put_in(tx, &task)?;
    tx.insert(&task)?;
    changes::tell(tx, team);
    labels::index(tx, None, &task)?;
    due::tell_of_change(tx, None, &task, acting)?;
    people::tell(tx, None, &task, (acting, created_by))?;
    if !task.is_waiting {
        wake_assignee(tx, &task, assignee, acting)?;
    }
    Ok(task)
}

/// Returns the items of a list without repetitions.
fn distinct<T: Clone + PartialEq>(items: Option<&[T]>) -> Vec<T> {
    let mut distinct = Vec::new();
    for item in items.unwrap_or_default() {
        if !distinct.contains(item) {
            distinct.push(item.clone());
        }
    }
    distinct
}

/// Returns the priority that a new task has.
pub fn priority_of(given: Option<Priority>) -> u8 {
    given.map_or(DEFAULT_PRIORITY, |priority| priority.get() as u8)
}

fn get(view: &View, req: &Req<(Id<Team>, Id<Task>)>) -> Result<TaskInfo> {
    let (team, id) = req.params;
    require_team(view, team)?;
    TaskInfo::of(view, fetch_task(view, team, id)?)
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
        Route::get(ALL, MEMBER, "task.list", op::walk(list))
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
