//! What a task waits for: one row for each task that it depends on and that is not done
//! (reference: teams-and-wakes, "Dependencies").
//!
//! The row goes when that task is done, and does not come back if it is reopened. A closed task waits
//! for nothing. So whether a task waits is one look into an index, and what a task holds back is a range
//! of keys.

use bincode::{Decode, Encode};

use super::task::Task;
use super::team::Team;
use crate::base::{Id, Result};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, View,
};

crate::base::portable! {
/// That a task waits until another one is done.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct OpenDependency {
    pub team: Id<Team>,
    /// What it waits for.
    pub on: Id<Task>,
    /// What waits.
    pub task: Id<Task>,
}
}

/// By the task that waits.
pub static BY_TASK: Index<OpenDependency, Id<Task>> =
    Index::non_unique("tasks.dependencies.by_task", |dependency| Some(dependency.task));

static TEAM: Reference<OpenDependency, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |dependency: &OpenDependency, _| vec![dependency.team.to_bytes()],
)
.deferred();

impl Record for OpenDependency {
    const TABLE: &'static str = "tasks.dependencies";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TASK];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("on", "a task is removed with its team alone, and this with it"),
        ("task", "a task is removed with its team alone, and this with it"),
    ];
    type Key = (Id<Team>, Id<Task>, Id<Task>); // So that what waits for a task is together.
    fn key(&self) -> Self::Key {
        (self.team, self.on, self.task)
    }
}

/// Whether a task waits for another one.
pub fn is_waiting(view: &View, task: Id<Task>) -> Result<bool> {
    Ok(view.count::<OpenDependency>(&BY_TASK, &task, 1)? > 0)
}

/// Whether other tasks wait for a task.
pub fn is_awaited(view: &View, (team, task): (Id<Team>, Id<Task>)) -> Result<bool> {
    let source = ListSource::<OpenDependency>::TABLE;
    Ok(view.count(source, &(team, task), 1)? > 0)
}
