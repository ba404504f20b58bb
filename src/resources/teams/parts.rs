//! Tasks that are parts of another one, their parent (reference: teams-and-wakes, "Parts of tasks").
//!
//! A parent does not store how many parts it has: they are counted in an index when it is shown, so that
//! what becomes of a part leaves the parent's row alone.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;
use uuid::Uuid;

use super::task::{BY_PARENT, Task, TaskStatus, fetch_task};
use super::team::Team;
use crate::api::{Output, ResourceRef};
use crate::base::{Error, Id, Result};
use crate::store::{Order, Tx, View};

/// A task has at most so many parts itself.
const MAX_PARTS: usize = 1000;

/// A task is in at most so many others, one in the other.
const MAX_LEVELS: usize = 20;

/// A task with more parts, one in the other, does not become a part itself: they would all be looked at.
const MAX_MOVED: usize = 2000;

/// How many tasks are parts of one, and how many of those are closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct TaskChildren {
    /// All of them, whatever their status.
    pub total: u32,
    /// Those closed as done.
    pub done: u32,
    /// Those closed without being done.
    pub cancelled: u32,
}

/// A task, with how far its parts are.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Task")]
pub struct TaskInfo {
    #[serde(flatten)]
    pub task: Task,
    /// How far the tasks are that are parts of it.
    pub children: TaskChildren,
}

impl TaskInfo {
    /// Returns what is shown of a task.
    pub fn of(view: &View, task: Task) -> Result<Self> {
        Ok(TaskInfo { children: children(view, &task)?, task })
    }
}

impl Output for TaskInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.task.id)
    }
}

/// Counts the parts of a task.
pub fn children(view: &View, task: &Task) -> Result<TaskChildren> {
    let mut children = TaskChildren::default();
    if task.has_parts {
        each(view, task.id, |status, _| {
            children.total += 1;
            children.done += u32::from(status == TaskStatus::Done);
            children.cancelled += u32::from(status == TaskStatus::Cancelled);
        })?;
    }
    Ok(children)
}

/// Calls `each` with the status and the id of every part of a task.
fn each(view: &View, task: Id<Task>, mut each: impl FnMut(TaskStatus, Id<Task>)) -> Result<()> {
    const LAST: TaskStatus = TaskStatus::ALL[TaskStatus::ALL.len() - 1];
    let end = (task, LAST, Id::<Team>::new(Uuid::max()));
    view.entries(&BY_PARENT, &task, &end, Order::Ascending, |(_, status), (_, id)| {
        each(status, id);
        Ok(ControlFlow::Continue(()))
    })
}

/// Makes a task a part of another one, or of none, before it is stored so.
///
/// # Errors
/// 404 if that is not in the team; 409 if it is itself a part of the task, is in too many others, or has
/// too many parts.
pub fn put_in(tx: &mut Tx, task: &Task) -> Result<()> {
    let Some(parent) = task.parent_task_id else { return Ok(()) };
    let parent = fetch_task(&tx.view(), task.team_id, parent)?;
    if levels_above(&tx.view(), task, &parent)? + levels_below(&tx.view(), task)? > MAX_LEVELS {
        let message = "the task would be in more than 20 others, one in the other; name a parent \
                       further up";
        return Err(Error::conflict("too_many_levels", message));
    }
    if tx.count::<Task>(&BY_PARENT, &parent.id, MAX_PARTS)? == MAX_PARTS {
        let message = "the parent has 1,000 parts, and may have no more; put some into another one";
        return Err(Error::conflict("too_many_parts", message));
    }
    if parent.has_parts {
        return Ok(());
    }
    tx.replace(&parent, &Task { has_parts: true, ..parent.clone() })
}

/// In how many others a task would be, with this parent.
///
/// # Errors
/// 409 if it would be in itself.
fn levels_above(view: &View, task: &Task, parent: &Task) -> Result<usize> {
    let (mut levels, mut next) = (1, parent.parent_task_id);
    if parent.id == task.id {
        return Err(cycle());
    }
    while let Some(id) = next
        && levels <= MAX_LEVELS
    {
        if id == task.id {
            return Err(cycle());
        }
        levels += 1;
        next = view.get::<Task>(&(task.team_id, id))?.and_then(|task| task.parent_task_id);
    }
    Ok(levels)
}

fn cycle() -> Error {
    Error::conflict("parent_cycle", "the task would be a part of itself; name another parent")
}

/// How many levels of parts are below a task.
///
/// # Errors
/// 409 if too many parts would have to be looked at.
fn levels_below(view: &View, task: &Task) -> Result<usize> {
    let (mut level, mut levels, mut seen) = (vec![task.id], 0, 0);
    if !task.has_parts {
        return Ok(0);
    }
    while levels <= MAX_LEVELS {
        let mut next = Vec::new();
        for one in level {
            each(view, one, |_, part| next.push(part))?;
            if seen + next.len() > MAX_MOVED {
                let message = "the task has more than 2,000 parts, one in the other; move some of them \
                               on their own";
                return Err(Error::conflict("too_many_parts", message));
            }
        }
        if next.is_empty() {
            break;
        }
        seen += next.len();
        levels += 1;
        level = next;
    }
    Ok(levels)
}
