//! Changing a task, and what follows from the change (reference: teams-and-wakes, "Tasks").

use super::{TaskPatch, distinct, priority_of, wake_assignee};
use crate::api::Req;
use crate::base::{Id, Nullable, Result};
use crate::resources::teams::claims::{require_held, with_claim_kept};
use crate::resources::teams::holds::require_active;
use crate::resources::teams::lease::{give, renew};
use crate::resources::teams::member::Member;
use crate::resources::teams::parts::{self, TaskInfo};
use crate::resources::teams::task::{
    Task, TaskStatus, assignee as assignee_of, assignee_or_scrum_master, current_assignee,
    fetch_task,
};
use crate::resources::teams::team::{Team, require_team};
use crate::resources::teams::usable::{AgentRef, open_optional};
use crate::resources::teams::wakes::{self, WakeCause};
use crate::resources::teams::{changes, dependencies, due, labels, people};
use crate::store::Tx;

/// Updates a task and wakes a new assignee, or the one that it has if it can be worked on again. A
/// reopened task loses an assignee that has left.
///
/// # Errors
/// 409 if a paused agent takes it, the worker that makes the change does not have it, or what it depends
/// on or is a part of does not allow it.
pub fn update(tx: &mut Tx, req: &Req<(Id<Team>, Id<Task>), TaskPatch>) -> Result<TaskInfo> {
    let (team, id) = req.params;
    require_team(&tx.view(), team)?;
    let old = fetch_task(&tx.view(), team, id)?;
    let patch = &req.input;
    let is_same = |named: &&AgentRef| old.assignee_agent_id.is_some_and(|id| named.is(id));
    let named = patch.assignee_agent_id.value().filter(|named| !is_same(named));
    let assignee = open_optional(&tx.view(), req.caller(), team, named)?;
    let acting = open_optional(&tx.view(), req.caller(), team, patch.from_agent_id.as_ref())?;
    if let (Some(acting), Some(worker)) = (&acting, &patch.worker) {
        require_held(&tx.view(), &old, acting, worker)?;
        renew(tx, acting, Some(worker))?;
    }
    let mut task = patched(&old, patch, assignee.as_deref());
    if old.is_closed() && !task.is_closed() {
        task.assignee_agent_id = current_assignee(&tx.view(), &task)?;
    }
    let task = people::checked(&tx.view(), Some(&old), task)?;
    let mut task = with_dependencies(tx, &old, with_claim_kept(&old, task))?;
    if let Some(acting) = &acting
        && takes(&old, &task, acting)
    {
        require_active(&tx.view(), acting)?;
    }
    if task.parent_task_id != old.parent_task_id {
        parts::put_in(tx, &task)?;
    }
    if task != old {
        (task.updated_at, task.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&old, &task)?;
        let by = (acting.as_ref().map(|acting| acting.id), Some(req.caller().user()));
        changes::note(tx, &old, &task, by)?;
        follow(tx, &old, &task, acting.as_deref())?;
        people::tell(tx, Some(&old), &task, (acting.as_deref(), by.1))?;
    }
    wake(tx, (&old, &task), assignee.as_deref(), acting.as_deref())?;
    TaskInfo::of(&tx.view(), task)
}

/// Returns a task with the changes of a patch.
fn patched(old: &Task, patch: &TaskPatch, assignee: Option<&Member>) -> Task {
    let mut task = old.clone();
    if let Some(title) = &patch.title {
        task.title = title.clone();
    }
    if let Some(status) = patch.status {
        task.status = status;
    }
    if patch.priority.is_some() {
        task.priority = priority_of(patch.priority);
    }
    if patch.depends_on.is_some() {
        task.depends_on = distinct(patch.depends_on.as_deref());
    }
    if patch.labels.is_some() {
        task.labels = distinct(patch.labels.as_deref());
    }
    patch.description.clone().apply(&mut task.description);
    match (&patch.assignee_agent_id, assignee) {
        (Nullable::Clear, _) => task.assignee_agent_id = None,
        (_, Some(assignee)) => task.assignee_agent_id = Some(assignee.id),
        _ => {}
    }
    patch.project_id.clone().apply(&mut task.project_id);
    patch.assignee_user_id.clone().apply(&mut task.assignee_user_id);
    patch.parent_task_id.clone().apply(&mut task.parent_task_id);
    patch.due_at.clone().apply(&mut task.due_at);
    task
}

/// Returns a task in the status that what it depends on allows: it is blocked while it waits, and opens when
/// a change has it wait no longer.
///
/// # Errors
/// 409 if it is to be worked on while it waits, or would wait for itself.
fn with_dependencies(tx: &mut Tx, old: &Task, task: Task) -> Result<Task> {
    let is_moved = task.status != old.status;
    if task.depends_on == old.depends_on && (task.depends_on.is_empty() || !is_moved) {
        return Ok(task);
    }
    let waits = dependencies::set(tx, Some(old), &task)?;
    Ok(match (waits, task.status) {
        (true, TaskStatus::InProgress) if is_moved => {
            return Err(dependencies::is_open(&tx.view(), &task)?);
        }
        // Reopened, released, or not blocked by hand any more: it opens when it may.
        (true, TaskStatus::Open | TaskStatus::InProgress) => {
            Task { status: TaskStatus::Blocked, is_waiting: true, ..task }
        }
        (false, TaskStatus::Blocked) if old.is_waiting => task.freed(),
        // One that is blocked by the change with which it comes to wait does so for that.
        (waits, status) => {
            let is_waiting = waits && status == TaskStatus::Blocked && (old.is_waiting || is_moved);
            Task { is_waiting, ..task }
        }
    })
}

/// Does what follows from a change of a task besides wakes of its agent.
fn follow(tx: &mut Tx, old: &Task, task: &Task, acting: Option<&Member>) -> Result<()> {
    if task.claim != old.claim {
        give(tx, task)?; // None: the change has ended the claim.
    }
    labels::index(tx, Some(old), task)?;
    due::tell_of_change(tx, Some(old), task, acting)?;
    dependencies::follow(tx, old, task, acting)
}

/// Wakes who has to go on with a task after a change, unless it has made the change itself: a new assignee,
/// or who is responsible for a task that can be worked on again.
fn wake(
    tx: &mut Tx,
    (old, task): (&Task, &Task),
    assignee: Option<&Member>,
    acting: Option<&Member>,
) -> Result<()> {
    if task.is_waiting {
        return Ok(()); // It wakes when it waits no longer.
    }
    if task.assignee_agent_id != old.assignee_agent_id && assignee.is_some() {
        return wake_assignee(tx, task, assignee, acting);
    }
    if old.is_workable() || !task.is_workable() {
        return Ok(());
    }
    // The agent has acknowledged what it was told of the task before.
    let (agent, cause) = if old.is_waiting {
        (assignee_or_scrum_master(&tx.view(), task)?, WakeCause::DependencyDone(task))
    } else if old.is_closed() {
        (assignee_of(&tx.view(), task)?, WakeCause::TaskReopened(task))
    } else {
        (assignee_of(&tx.view(), task)?, WakeCause::TaskUnblocked(task))
    };
    match agent.filter(|agent| acting.is_none_or(|acting| acting.id != agent.id)) {
        Some(agent) => wakes::wake(tx, &agent, &cause),
        None => Ok(()),
    }
}

/// Whether an agent does with its own change what a claim does: it has the task from now on, or begins it.
fn takes(old: &Task, new: &Task, acting: &Member) -> bool {
    let begins = |task: &Task| task.status == TaskStatus::InProgress;
    let has = |task: &Task| task.assignee_agent_id == Some(acting.id);
    has(new) && (!has(old) || (begins(new) && !begins(old)))
}
