//! Tasks that wait for others: setting what a task depends on, and opening it when the last is done
//! (reference: teams-and-wakes, "Dependencies").

use std::collections::BTreeSet;

use super::changes;
use super::dependency::{BY_TASK, OpenDependency, is_awaited, is_waiting};
use super::member::{Member, scrum_master};
use super::task::{Task, TaskStatus, assignee_or_scrum_master};
use super::team::Team;
use super::wakes::{self, WakeCause};
use crate::api::Resource;
use crate::base::{Error, Id, Result};
use crate::outbox::{Job, JobHandler, Prepared, enqueue, no_effect};
use crate::store::{ListSource, Order, PageRequest, Record as _, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<OpenDependency>()], jobs: &[RELEASE], ..Resource::EMPTY };

/// A task depends on at most so many others.
pub const MAX_DEPENDENCIES: usize = 50;

/// So many dependencies are followed at most to find out whether a task would wait for itself.
const MAX_FOLLOWED: usize = 2000;

/// So many tasks are told in one transaction that what they wait for is done: servers that share a store
/// tell each other of so many wakes at once.
const AT_ONCE: usize = 50;

/// No further task is opened in a transaction after so many bytes of their texts: each is written again.
const MAX_TASK_BYTES: usize = 1024 * 1024;

/// Tells the tasks that wait for one that is done; the target is that task, the concurrency key the team.
const RELEASE: JobHandler =
    JobHandler { kind: "task.release", prepare: release_more, settle: no_effect };

// ── Setting them ─────────────────────────────────────────────────────────────

/// Stores what a task waits for from now on, and returns whether that is anything: of what it waited for
/// and still depends on, and of what it did not depend on before, those that are not done. One that is
/// closed waits for nothing, and one that is reopened for all that is not done. The caller stores the
/// task.
///
/// # Errors
/// 404 if one that is new is not in the team; 409 if one is cancelled for which it did not wait before, or
/// the task would wait for itself.
pub fn set(tx: &mut Tx, old: Option<&Task>, task: &Task) -> Result<bool> {
    if task.depends_on.contains(&task.id) {
        return Err(cycle());
    }
    let before: &[Id<Task>] = old.map_or(&[], |old| &old.depends_on);
    if task.depends_on.is_empty() && before.is_empty() {
        return Ok(false); // Nothing is read for it.
    }
    let rows: Vec<OpenDependency> = tx.all(&BY_TASK, &task.id)?;
    let is_reopened = old.is_some_and(Task::is_closed);
    let (mut wanted, mut added) = (BTreeSet::new(), Vec::new());
    for on in &task.depends_on {
        let (is_new, is_held) = (!before.contains(on), rows.iter().any(|row| row.on == *on));
        if !is_new && (task.is_closed() || !(is_held || is_reopened)) {
            continue;
        }
        let Some(other) = tx.get::<Task>(&(task.team_id, *on))? else {
            if is_new {
                return Err(Error::no_such("task"));
            }
            continue; // It did not come with the others from where they were exported.
        };
        if other.status == TaskStatus::Cancelled && (is_new || is_reopened) {
            return Err(is_cancelled(&other));
        }
        if other.status != TaskStatus::Done && !task.is_closed() {
            wanted.insert(*on);
            added.extend((!is_held).then_some(*on));
        }
    }
    require_no_cycle(&tx.view(), task, &added)?;
    for row in rows.iter().filter(|row| !wanted.contains(&row.on)) {
        tx.remove(row)?;
    }
    for on in added {
        tx.insert(&OpenDependency { team: task.team_id, on, task: task.id })?;
    }
    Ok(!wanted.is_empty())
}

/// Requires that none of these tasks waits for this one, also through others.
///
/// # Errors
/// 409 if one does, or too many would have to be looked at.
fn require_no_cycle(view: &View, task: &Task, added: &[Id<Task>]) -> Result<()> {
    if added.is_empty() || !is_awaited(view, (task.team_id, task.id))? {
        return Ok(());
    }
    let (mut next, mut followed) = (added.to_vec(), 0);
    let mut seen: BTreeSet<Id<Task>> = added.iter().copied().collect();
    while let Some(one) = next.pop() {
        let rows: Vec<OpenDependency> = view.all(&BY_TASK, &one)?;
        followed += rows.len();
        if rows.iter().any(|row| row.on == task.id) {
            return Err(cycle());
        }
        if followed > MAX_FOLLOWED {
            let message = "more than 2,000 dependencies are behind these tasks; depend on fewer";
            return Err(Error::conflict("too_many_dependencies", message));
        }
        next.extend(rows.into_iter().map(|row| row.on).filter(|on| seen.insert(*on)));
    }
    Ok(())
}

fn is_cancelled(task: &Task) -> Error {
    let message = format!(
        "#{} is cancelled, and so is never done; leave it out of dependsOn, or reopen it",
        task.number
    );
    Error::conflict("dependency_cancelled", message)
}

fn cycle() -> Error {
    let message = "the task would wait for itself; take out of dependsOn what waits for it";
    Error::conflict("dependency_cycle", message)
}

/// Returns why a task that waits cannot be begun: names one for which it does.
pub fn is_open(view: &View, task: &Task) -> Result<Error> {
    let open: Option<OpenDependency> = view.first(&BY_TASK, &task.id, Order::Ascending)?;
    let number = match open {
        Some(open) => view.get::<Task>(&(open.team, open.on))?.map_or(0, |on| on.number),
        None => 0,
    };
    let message = format!(
        "the task waits for #{number}, which is not done, and cannot be begun before; to begin it now, take \
         that out of dependsOn"
    );
    Ok(Error::conflict("dependency_open", message))
}

// ── Ends ─────────────────────────────────────────────────────────────────────

/// Follows a change of status that `acting` makes, if an agent does: when a task is done, what waits for
/// it does so no longer; when it is cancelled, the Scrum Master is told of what would wait for ever.
pub fn follow(tx: &mut Tx, old: &Task, new: &Task, acting: Option<&Member>) -> Result<()> {
    if old.status == new.status {
        return Ok(());
    }
    match new.status {
        TaskStatus::Done => release(tx, new),
        TaskStatus::Cancelled if is_awaited(&tx.view(), new.key())? => {
            match scrum_master(&tx.view(), new.team_id)? {
                Some(agent) if acting.is_none_or(|acting| acting.id != agent.id) => {
                    wakes::wake(tx, &agent, &WakeCause::DependencyCancelled(new))
                }
                _ => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// Tells some of the tasks that wait for one that it is done, and has a job tell the others.
fn release(tx: &mut Tx, done: &Task) -> Result<()> {
    if release_some(tx, done.key())? {
        let now = tx.now();
        enqueue(tx, &RELEASE, done.id.cast(), Some(done.team_id.cast()), now)?;
    }
    Ok(())
}

fn release_more(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let team: Id<Team> = job.concurrency_key.map_or(Id::NIL, Id::cast);
    let task = tx.get::<Task>(&(team, job.target.cast()))?;
    // One that was reopened meanwhile holds the others back again.
    let Some(done) = task.filter(|task| task.status == TaskStatus::Done) else {
        return Ok(Prepared::Done);
    };
    if tx.get::<Team>(&team)?.is_none() {
        return Ok(Prepared::Done);
    }
    let is_more = release_some(tx, done.key())?;
    Ok(if is_more { Prepared::RetryAt(tx.now()) } else { Prepared::Done })
}

/// Returns whether there are more.
fn release_some(tx: &mut Tx, done: (Id<Team>, Id<Task>)) -> Result<bool> {
    let part = PageRequest { limit: AT_ONCE, after: None };
    let all = |_: &OpenDependency| true;
    let rows = tx.page(ListSource::TABLE, &done, Order::Ascending, &part, all)?;
    let mut bytes = 0;
    for row in &rows.items {
        if bytes >= MAX_TASK_BYTES {
            return Ok(true);
        }
        tx.remove(row)?;
        let task = tx.get::<Task>(&(row.team, row.task))?;
        if let Some(task) = task
            && !is_waiting(&tx.view(), row.task)?
        {
            bytes += open(tx, &task)?;
        }
    }
    Ok(rows.next.is_some())
}

/// Opens a task that waits no longer, and wakes who is responsible for it. One that somebody has blocked or
/// closed stays so. Returns how long its text is.
fn open(tx: &mut Tx, old: &Task) -> Result<usize> {
    if !old.is_waiting {
        return Ok(0);
    }
    let task = Task { updated_at: tx.now(), updated_by: None, ..old.clone().freed() };
    tx.replace(old, &task)?;
    changes::note(tx, old, &task, (None, None))?;
    if let Some(agent) = assignee_or_scrum_master(&tx.view(), &task)? {
        wakes::wake(tx, &agent, &WakeCause::DependencyDone(&task))?;
    }
    Ok(task.description.map_or(0, |text| text.as_str().len()))
}

#[cfg(test)]
mod tests;
