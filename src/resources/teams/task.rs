//! The record of a task, its indexes, and who is responsible for one.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::claim::TaskClaim;
use super::member::{Member, scrum_master};
use super::team::Team;
use crate::api::{Output, ResourceRef};
use crate::auth::{Membership, User};
use crate::base::{Id, Result, Text, Time, Title};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Tx, View, upgrade_shorter,
};

/// The long text of a task.
pub type TaskDescription = Text<0, 100_000>;
/// A word to find tasks by.
pub type TaskLabel = Text<1, 64>;
/// A client's project id.
pub type ProjectId = Text<0, 200>;

/// The status of a task. Any status may follow any other, but a task that waits for others is not worked
/// on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TaskStatus {
    /// Not begun.
    Open,
    /// Being worked on.
    InProgress,
    /// Something prevents progress: it waits for others, or somebody said so.
    Blocked,
    /// Closed as done.
    Done,
    /// Closed without being done.
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
    /// All statuses.
    pub const ALL: [Self; 5] =
        [Self::Open, Self::InProgress, Self::Blocked, Self::Done, Self::Cancelled];

    /// Whether the task is done or cancelled.
    pub fn is_closed(self) -> bool {
        matches!(self, TaskStatus::Done | TaskStatus::Cancelled)
    }
}

crate::base::portable! {
/// A task.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: Id<Task>,
    /// The team it belongs to.
    pub team_id: Id<Team>,
    /// Number in the team: 1, 2, … without gaps.
    pub number: u32,
    /// A short summary.
    pub title: Title,
    /// What to do, at length.
    pub description: Option<TaskDescription>,
    /// Opaque identifier chosen by the client; not interpreted.
    pub project_id: Option<ProjectId>,
    /// The agent that has it; null if any agent may claim it.
    pub assignee_agent_id: Option<Id<Member>>,
    /// From 0 to 4; not interpreted.
    pub priority: u8,
    /// Its status; any may follow any other, unless it waits for others.
    pub status: TaskStatus,
    /// The user who created it, also through a key; null if the service did.
    pub created_by: Option<Id<User>>,
    pub created_at: Time,
    /// When any field last changed.
    pub updated_at: Time,
    /// The process that has it; null if its agent did not say which.
    pub claim: Option<TaskClaim>,
    /// The task that it is a part of.
    pub parent_task_id: Option<Id<Task>>,
    /// The tasks that have to be done before it can be begun.
    pub depends_on: Vec<Id<Task>>,
    /// When it is to be closed.
    pub due_at: Option<Time>,
    /// The client's own words to find it by.
    pub labels: Vec<TaskLabel>,
    /// Whether it is blocked only since it waits for others.
    #[serde(skip)]
    pub is_waiting: bool,
    /// Whether it has, or once had, parts.
    #[serde(skip)]
    pub has_parts: bool,
    /// The user who last changed it, also through a key; null if the change followed from another one, as
    /// when a task that it waited for is closed, was made by the server itself, or by an earlier release.
    pub updated_by: Option<Id<User>>,
    /// The person who has it, beside an agent or without one.
    pub assignee_user_id: Option<Id<User>>,
}
}

impl Output for Task {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl Task {
    /// Whether the task is done or cancelled.
    pub fn is_closed(&self) -> bool {
        self.status.is_closed()
    }

    /// Whether it can be worked on: it is neither closed nor blocked.
    pub fn is_workable(&self) -> bool {
        matches!(self.status, TaskStatus::Open | TaskStatus::InProgress)
    }

    /// Returns it as it is once it waits for nothing any more: a process that has it goes on.
    pub fn freed(self) -> Self {
        let status = if self.claim.is_some() { TaskStatus::InProgress } else { TaskStatus::Open };
        Task { status, is_waiting: false, ..self }
    }

    /// Whether it is begun and not closed, so that a process may have it.
    pub fn is_begun(&self) -> bool {
        matches!(self.status, TaskStatus::InProgress | TaskStatus::Blocked)
    }
}

/// Tasks by status, then by team.
pub static BY_STATUS: Index<Task, TaskStatus> =
    Index::non_unique("tasks.by_status", |task| Some(task.status));

/// Tasks by assignee. The status is included so that open tasks are found among many closed
/// ones.
pub static BY_ASSIGNEE: Index<Task, (Option<Id<Member>>, bool, TaskStatus)> =
    Index::non_unique("tasks.by_assignee", |task| Some(place(task.assignee_agent_id, task.status)));

/// Tasks of people, in the same way.
pub static BY_PERSON: Index<Task, (Id<User>, bool, TaskStatus)> =
    Index::non_unique("tasks.by_person", |task| {
        Some(place_of_person(task.assignee_user_id?, task.status))
    });

/// Tasks by their number in the team, by which people name them.
pub static BY_NUMBER: Index<Task, (Id<Team>, u32)> =
    Index::non_unique("tasks.by_number", |task| Some((task.team_id, task.number)));

/// Tasks that are parts of others, by those.
pub static BY_PARENT: Index<Task, (Id<Task>, TaskStatus)> =
    Index::non_unique("tasks.by_parent", |task| Some((task.parent_task_id?, task.status)));

/// The place of a task in [`BY_DUE`].
pub type Due = (Time, Id<Team>, Id<Task>);

/// Open tasks that are due at some time.
pub static BY_DUE: Index<Task, Due> = Index::non_unique("tasks.by_due", due_of);

/// Returns the place of a task in [`BY_DUE`].
pub fn due_of(task: &Task) -> Option<Due> {
    let due_at = task.due_at.filter(|_| !task.is_closed())?;
    Some((due_at, task.team_id, task.id))
}

/// Returns the key in [`BY_ASSIGNEE`] of an assignee's tasks with this status.
pub fn place(
    assignee: Option<Id<Member>>,
    status: TaskStatus,
) -> (Option<Id<Member>>, bool, TaskStatus) {
    (assignee, status.is_closed(), status)
}

/// Returns the key in [`BY_PERSON`] of a person's tasks with this status.
pub fn place_of_person(person: Id<User>, status: TaskStatus) -> (Id<User>, bool, TaskStatus) {
    (person, status.is_closed(), status)
}

static TEAM: Reference<Task, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |task: &Task, _| vec![task.team_id.to_bytes()],
)
.deferred();

/// For open tasks only: closed ones keep their assignee as history, even one that has left.
static ASSIGNEE: Reference<Task, Member> = Reference::clear(
    &["assignee_agent_id"],
    |tx: &Tx, task: &Task, _| {
        let (assignee_agent_id, claim, updated_at, updated_by) = (None, None, tx.now(), None);
        Ok(Task { assignee_agent_id, claim, updated_at, updated_by, ..task.clone() })
    },
    |member: &Member| (Some(member.id), false).to_bytes(),
    |task: &Task, _| {
        let assignee = task.assignee_agent_id.filter(|_| !task.is_closed());
        assignee.iter().map(|assignee| (task.team_id, *assignee).to_bytes()).collect()
    },
)
.by(&BY_ASSIGNEE)
.deferred();

/// For open tasks only, as with agents. A person has few of them (`people.rs`), but with long texts.
static PERSON: Reference<Task, Membership> = Reference::clear(
    &["assignee_user_id"],
    |tx: &Tx, task: &Task, _| {
        let (assignee_user_id, updated_at, updated_by) = (None, tx.now(), None);
        Ok(Task { assignee_user_id, updated_at, updated_by, ..task.clone() })
    },
    |member: &Membership| (member.user, false).to_bytes(),
    |task: &Task, org| {
        let person = task.assignee_user_id.filter(|_| !task.is_closed());
        person.iter().map(|person| (*person, org).to_bytes()).collect()
    },
)
.by(&BY_PERSON)
.deferred();

impl Record for Task {
    const TABLE: &'static str = "tasks";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_STATUS, &BY_ASSIGNEE, &BY_PERSON, &BY_NUMBER, &BY_PARENT, &BY_DUE];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM, &ASSIGNEE, &PERSON];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("claim.by", "history: who claimed it may have left"),
        ("parent_task_id", "a task is removed with its team alone, and this with it"),
        ("depends_on", "a task is removed with its team alone, and this with it"),
    ];
    const VERSION: u8 = 3;
    type Key = (Id<Team>, Id<Task>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 2, body)
    }
}

crate::base::portable! {
/// The number of a team's last task. A record of its own, so that creating a task does not change the
/// team.
#[derive(Clone, Debug, Encode, Decode)]
pub struct TaskCounter {
    team: Id<Team>,
    last: u32,
}
}

static COUNTED: Reference<TaskCounter, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |counter: &TaskCounter, _| vec![counter.team.to_bytes()],
);

impl Record for TaskCounter {
    const TABLE: &'static str = "tasks.counters";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&COUNTED];
    type Key = Id<Team>;
    fn key(&self) -> Self::Key {
        self.team
    }
}

/// Returns the task of this team with this id, or 404. The caller checks that the team exists.
pub fn fetch_task(view: &View, team: Id<Team>, id: Id<Task>) -> Result<Task> {
    view.fetch(&(team, id))
}

/// Returns the agent responsible for a task: its assignee, or the Scrum Master if it has none
/// (reference: teams-and-wakes, "Wakes").
pub fn assignee_or_scrum_master(view: &View, task: &Task) -> Result<Option<Member>> {
    match assignee(view, task)? {
        Some(assignee) => Ok(Some(assignee)),
        None => scrum_master(view, task.team_id),
    }
}

/// Returns the assignee if it is still in the team. Closed tasks keep an assignee that has left, and
/// open ones do until its removal is complete.
pub fn assignee(view: &View, task: &Task) -> Result<Option<Member>> {
    match task.assignee_agent_id {
        Some(id) => view.get(&(task.team_id, id)),
        None => Ok(None),
    }
}

/// Returns the id of the assignee if it is still in the team.
pub fn current_assignee(view: &View, task: &Task) -> Result<Option<Id<Member>>> {
    Ok(assignee(view, task)?.map(|assignee| assignee.id))
}

/// Increments a team's task counter and returns the new number.
pub fn next_number(tx: &mut Tx, team: Id<Team>) -> Result<u32> {
    let last = tx.get::<TaskCounter>(&team)?.map_or(0, |counter| counter.last);
    tx.put(&TaskCounter { team, last: last + 1 })?;
    Ok(last + 1)
}
