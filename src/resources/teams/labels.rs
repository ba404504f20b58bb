//! Words to find tasks by (reference: teams-and-wakes, "Tasks").

use bincode::{Decode, Encode};

use super::task::{Task, TaskLabel};
use super::team::Team;
use crate::api::Resource;
use crate::base::{Id, Result};
use crate::store::{
    AnyReference, Export, Key, ListSource, Order, Page, PageRequest, Record, Reference, TableInfo,
    Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<Label>()], ..Resource::EMPTY };

/// A task has at most so many labels.
pub const MAX_LABELS: usize = 20;

/// That a task has a label.
#[derive(Clone, Debug, Encode, Decode)]
struct Label {
    team: Id<Team>,
    label: TaskLabel,
    task: Id<Task>,
}
crate::base::portable!(Label { team, label, task });

static TEAM: Reference<Label, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |label: &Label, _| vec![label.team.to_bytes()],
)
.deferred();

impl Record for Label {
    const TABLE: &'static str = "tasks.labels";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("task", "a task is removed with its team alone, and this with it")];
    type Key = (Id<Team>, TaskLabel, Id<Task>);
    fn key(&self) -> Self::Key {
        (self.team, self.label.clone(), self.task)
    }
}

/// Has a task found by the labels that it has now, and not by those that it had.
pub fn index(tx: &mut Tx, old: Option<&Task>, new: &Task) -> Result<()> {
    let before: &[TaskLabel] = old.map_or(&[], |old| &old.labels);
    let row = |label: &TaskLabel| Label { team: new.team_id, label: label.clone(), task: new.id };
    for gone in before.iter().filter(|label| !new.labels.contains(label)) {
        tx.remove(&row(gone))?;
    }
    for added in new.labels.iter().filter(|label| !before.contains(label)) {
        tx.insert(&row(added))?;
    }
    Ok(())
}

/// Lists the tasks of a team with a label that `keep` keeps, newest first, each as `show` shows it.
pub fn list<T>(
    view: &View,
    (team, label): (Id<Team>, &TaskLabel),
    page: &PageRequest,
    keep: impl Fn(&Task) -> bool,
    show: impl Fn(&View, Task) -> Result<T>,
) -> Result<Page<T>> {
    let prefix = (team, label.clone());
    let table = ListSource::<Label>::TABLE;
    let found = view.page_map(table, &prefix, Order::Descending, page, |_| true, |view, row| {
        let task = view.get::<Task>(&(row.team, row.task))?.filter(&keep);
        task.map(|task| show(view, task)).transpose()
    })?;
    let Page { items, next } = found;
    Ok(Page { items: items.into_iter().flatten().collect(), next })
}
