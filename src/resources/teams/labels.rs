//! Words to find tasks by (reference: teams-and-wakes, "Tasks").

use bincode::{Decode, Encode};

use super::task::{Task, TaskLabel};
use super::team::Team;
use crate::api::Resource;
use crate::base::{Id, Issue, Result};
use crate::store::{
    AnyReference, Export, Key, ListSource, Order, Page, PageRequest, Record, Reference, TableInfo,
    Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<LabelledTask>()], ..Resource::EMPTY };

/// A task has at most so many labels.
pub const MAX_LABELS: usize = 20;

crate::base::portable! {
/// That a task has a label.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct LabelledTask {
    team: Id<Team>,
    label: TaskLabel,
    task: Id<Task>,
    /// Whether that is closed: open ones are found among many that are.
    is_closed: bool,
}
}

static TEAM: Reference<LabelledTask, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |label: &LabelledTask, _| vec![label.team.to_bytes()],
)
.deferred();

impl Record for LabelledTask {
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

/// Says which labels have what would make several of them, or another one, of a text of labels with commas.
pub fn check(labels: Option<&[TaskLabel]>, issues: &mut Vec<Issue>) {
    for (n, label) in labels.unwrap_or_default().iter().enumerate() {
        let text = label.as_str();
        if text.contains(',') || text.trim() != text {
            let message = "must have no comma, and no blank at its ends";
            issues.push(Issue::new(format!("labels[{n}]"), message));
        }
    }
}

/// Has a task found by the labels that it has now, and not by those that it had.
pub fn index(tx: &mut Tx, old: Option<&Task>, new: &Task) -> Result<()> {
    let (before, after) = (old.map(rows).unwrap_or_default(), rows(new));
    for gone in before.iter().filter(|row| after.iter().all(|one| one.label != row.label)) {
        tx.remove(gone)?;
    }
    for row in after.iter().filter(|row| !before.contains(row)) {
        tx.put(row)?;
    }
    Ok(())
}

fn rows(task: &Task) -> Vec<LabelledTask> {
    let row = |label: &TaskLabel| LabelledTask {
        team: task.team_id,
        label: label.clone(),
        task: task.id,
        is_closed: task.is_closed(),
    };
    task.labels.iter().map(row).collect()
}

/// Lists the tasks of a team with a label that `keep` keeps, newest first, each as `show` shows it; only
/// those that are closed, or that are not, if that is known.
pub fn list<T>(
    view: &View,
    (team, label, is_closed): (Id<Team>, &TaskLabel, Option<bool>),
    page: &PageRequest,
    keep: impl Fn(&Task) -> bool,
    show: impl Fn(&View, Task) -> Result<T>,
) -> Result<Page<T>> {
    let prefix = (team, label.clone());
    let table = ListSource::<LabelledTask>::TABLE;
    let found_in = |view: &View, row: &LabelledTask| -> Result<Option<Task>> {
        Ok(view.get::<Task>(&(row.team, row.task))?.filter(&keep))
    };
    let may_be = |row: &LabelledTask| {
        is_closed.is_none_or(|is_closed| row.is_closed == is_closed)
            // What is counted is not shown, so that it would not be looked at further on.
            && (!view.is_counting() || found_in(view, row).is_ok_and(|task| task.is_some()))
    };
    let found = view.page_map(table, &prefix, Order::Descending, page, may_be, |view, row| {
        let task = found_in(view, &row)?;
        task.map(|task| show(view, task)).transpose()
    })?;
    let Page { items, next } = found;
    Ok(Page { items: items.into_iter().flatten().collect(), next })
}
