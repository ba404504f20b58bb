//! A team's tasks as they are stored, and whose business one is.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::member::{Member, scrum_master};
use super::team::Team;
use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{Id, Result, Text, Time, Title};
use crate::store::{AnyIndex, AnyReference, Index, Key, Record, Reference, Tx, View};

/// What is to be done, at length.
pub type TaskDescription = Text<0, 100_000>;
/// A word of the client's own.
pub type ProjectId = Text<0, 200>;

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
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Open, Self::InProgress, Self::Blocked, Self::Done, Self::Cancelled];

    /// Whether nobody need do anything more.
    pub fn is_closed(self) -> bool {
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

impl Output for Task {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl Task {
    /// Whether nobody need do anything more.
    pub fn is_closed(&self) -> bool {
        self.status.is_closed()
    }
}

/// Tasks by status; each team's stand together in it.
pub static BY_STATUS: Index<Task, TaskStatus> =
    Index::many("tasks.by_status", |task| Some(task.status));

/// Tasks by assignee. The status is in it so that open tasks are found among many closed ones.
pub static BY_ASSIGNEE: Index<Task, (Option<Id<Member>>, bool, TaskStatus)> =
    Index::many("tasks.by_assignee", |task| Some(place(task.assignee_agent_id, task.status)));

/// Where the tasks of an assignee with this status stand in [`BY_ASSIGNEE`].
pub fn place(
    assignee: Option<Id<Member>>,
    status: TaskStatus,
) -> (Option<Id<Member>>, bool, TaskStatus) {
    (assignee, status.is_closed(), status)
}

static TEAM: Reference<Task, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |task: &Task, _| vec![task.team_id.to_bytes()],
)
.deferred();

/// Only of open tasks: closed ones keep their assignee, who may have left since.
static ASSIGNEE: Reference<Task, Member> = Reference::clear(
    &["assignee_agent_id"],
    |tx: &Tx, task: &Task, _| {
        Ok(Task { assignee_agent_id: None, updated_at: tx.now(), ..task.clone() })
    },
    |member: &Member| (Some(member.id), false).to_bytes(),
    |task: &Task, _| {
        let assignee = task.assignee_agent_id.filter(|_| !task.is_closed());
        assignee.iter().map(|assignee| (task.team_id, *assignee).to_bytes()).collect()
    },
)
.by(&BY_ASSIGNEE)
.deferred();

impl Record for Task {
    const TABLE: &'static str = "tasks";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_STATUS, &BY_ASSIGNEE];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM, &ASSIGNEE];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("created_by", "history: who made it may have left")];
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

static COUNTED: Reference<Counter, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |counter: &Counter, _| vec![counter.team.to_bytes()],
);

impl Record for Counter {
    const TABLE: &'static str = "tasks.counters";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&COUNTED];
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
/// (reference: teams-and-wakes, "Wakes").
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

/// The id of the agent that has a task, if it is still in the team.
pub fn still_there(view: &View, task: &Task) -> Result<Option<Id<Member>>> {
    Ok(assignee(view, task)?.map(|assignee| assignee.id))
}

/// Counts one more task of a team.
pub fn next_number(tx: &mut Tx, team: Id<Team>) -> Result<u32> {
    let last = tx.get::<Counter>(&team)?.map_or(0, |counter| counter.last);
    tx.put(&Counter { team, last: last + 1 })?;
    Ok(last + 1)
}
