//! That something has happened in a team: the signal for those who follow its activity, and the changes of
//! tasks, which leave no other row (reference: teams-and-wakes, "Activity").

use bincode::{Decode, Encode};

use super::member::Member;
use super::task::{Task, TaskStatus};
use super::team::Team;
use crate::api::Resource;
use crate::auth::User;
use crate::base::{Id, Result, Time};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, TableInfo, Topic, Tx,
};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<TaskChange>()], ..Resource::EMPTY };

crate::base::portable! {
/// A change of a task: what it was, and what it is.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct TaskChange {
    pub id: Id<TaskChange>,
    pub team: Id<Team>,
    pub task: Id<Task>,
    /// The agent that made it, if it said so.
    pub agent: Option<Id<Member>>,
    /// The user who made it, also through a key; null if the service did.
    pub by: Option<Id<User>>,
    pub old_status: TaskStatus,
    pub new_status: TaskStatus,
    pub old_assignee: Option<Id<Member>>,
    pub new_assignee: Option<Id<Member>>,
    pub created_at: Time,
}
}

/// Changes by task.
pub static BY_TASK: Index<TaskChange, Id<Task>> =
    Index::non_unique("tasks.changes.by_task", |change| Some(change.task));

static TEAM: Reference<TaskChange, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |change: &TaskChange, _| vec![change.team.to_bytes()],
)
.deferred();

impl Record for TaskChange {
    const TABLE: &'static str = "tasks.changes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TASK];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("task", "a task is removed with its team alone, and this with it"),
        ("agent", "history: the agent may have left"),
        ("by", "history: who made it may have left"),
        ("old_assignee", "history: the agent may have left"),
        ("new_assignee", "history: the agent may have left"),
    ];
    type Key = (Id<Team>, Id<TaskChange>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
}

/// The topic that is signalled when something has happened in a team.
pub fn topic(team: Id<Team>) -> Topic {
    team.uuid()
}

/// Wakes those who follow what happens in a team. Whatever inserts a row that is part of its activity
/// does it.
pub fn tell(tx: &mut Tx, team: Id<Team>) {
    tx.signal(topic(team));
}

/// Notes a change of a task that was made by this agent and this user.
pub fn note(
    tx: &mut Tx,
    old: &Task,
    new: &Task,
    (agent, by): (Option<Id<Member>>, Option<Id<User>>),
) -> Result<()> {
    let change = TaskChange {
        id: tx.new_id(),
        team: new.team_id,
        task: new.id,
        agent,
        by,
        old_status: old.status,
        new_status: new.status,
        old_assignee: old.assignee_agent_id,
        new_assignee: new.assignee_agent_id,
        created_at: tx.now(),
    };
    tell(tx, new.team_id);
    tx.insert(&change)
}
