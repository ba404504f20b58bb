//! The people that have tasks (reference: teams-and-wakes, "Tasks of people").

use serde_json::json;

use super::member::Member;
use super::parts::TaskInfo;
use super::task::{BY_PERSON, Task};
use super::team::{Team, fetch_team, reaches};
use super::waiting::count_in;
use crate::api::{Req, Resource, Route, op};
use crate::auth::{Caller, MEMBER, Membership, ScopeName, User};
use crate::base::{Error, Id, Result};
use crate::outbox::{About, EventType, publish};
use crate::store::{Order, Page, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::TeamTaskAssigned], ..Resource::EMPTY };

/// A person has at most so many open tasks: when they leave, all lose them, with texts of up to 100,000
/// characters, those of some in the background.
const MAX_OF_PERSON: usize = 200;

/// Returns a task that is about to be stored, with a person who may have it: every member of the organization
/// reads all teams. An open one loses a person who has left meanwhile.
///
/// # Errors
/// 404 for who is no member, 400 for a service account, 409 for who has too many open tasks.
pub fn checked(view: &View, old: Option<&Task>, task: Task) -> Result<Task> {
    let Some(person) = task.assignee_user_id else { return Ok(task) };
    let is_new = old.is_none_or(|old| old.assignee_user_id != Some(person));
    let is_opened = !task.is_closed() && old.is_none_or(|old| is_new || old.is_closed());
    if is_new {
        require_person(view, person)?;
    } else if !task.is_closed() && !is_member(view, person)? {
        return Ok(Task { assignee_user_id: None, ..task });
    }
    if is_opened && count_open(view, person, MAX_OF_PERSON)? == MAX_OF_PERSON {
        let message = "this person has 200 open tasks, and may have no more; close some of them, or name \
                       somebody else";
        return Err(Error::conflict("too_many_tasks", message).at(FIELD));
    }
    Ok(task)
}

/// The field of a task that names a person.
const FIELD: &str = "assigneeUserId";

/// Whether a person has not left: open tasks keep who has until the removal is complete, closed ones as
/// history.
pub fn is_member(view: &View, person: Id<User>) -> Result<bool> {
    view.has::<Membership>(&(person, view.org()))
}

fn require_person(view: &View, person: Id<User>) -> Result<()> {
    view.fetch::<Membership>(&(person, view.org())).map_err(|error| error.at(FIELD))?;
    if view.fetch::<User>(&person)?.is_service() {
        return Err(Error::invalid_at(FIELD, "must be a person, not a service account"));
    }
    Ok(())
}

/// Tells of an open task that a person has from now on, unless they took it themselves.
pub fn tell(
    tx: &mut Tx,
    old: Option<&Task>,
    task: &Task,
    (acting, by): (Option<&Member>, Option<Id<User>>),
) -> Result<()> {
    let Some(person) = task.assignee_user_id.filter(|_| !task.is_closed()) else { return Ok(()) };
    // Who has a closed task has not heard of it as work to do.
    let is_same = old.is_some_and(|old| old.assignee_user_id == Some(person) && !old.is_closed());
    if is_same || (acting.is_none() && by == Some(person)) {
        return Ok(());
    }
    let team = fetch_team(&tx.view(), task.team_id)?;
    let payload = json!({
        "teamId": team.id,
        "teamName": team.name,
        "taskId": task.id,
        "number": task.number,
        "title": task.title,
        "userId": person,
        "userName": tx.fetch::<User>(&person)?.name,
        "agentId": acting.map(|agent| agent.id),
        "assignedBy": by,
    });
    publish(tx, EventType::TeamTaskAssigned, About::resource("task", task.id), payload)
}

/// Counts the open tasks of a person, to `at_most`, without those of teams that are gone.
fn count_open(view: &View, person: Id<User>, at_most: usize) -> Result<usize> {
    let is_listed = |team| view.has::<Team>(&team).unwrap_or(true);
    count_in(view, &BY_PERSON, &(person, false), at_most, is_listed)
}

/// Counts the open tasks that are listed for a caller, to `at_most`.
pub fn count_assigned(view: &View, caller: &Caller, at_most: usize) -> Result<usize> {
    let is_listed = |team| reaches(view, caller, ScopeName::TeamRead, team);
    count_in(view, &BY_PERSON, &(caller.user(), false), at_most, is_listed)
}

/// Lists the open tasks of the caller in all teams: those that are blocked, then those that are worked on,
/// then the others.
pub fn list(view: &View, req: &Req) -> Result<Page<TaskInfo>> {
    let is_listed = |task: &Task| reaches(view, req.caller(), ScopeName::TeamRead, task.team_id);
    let open = (req.caller().user(), false);
    let page = view.page(&BY_PERSON, &open, Order::Descending, &req.page, is_listed)?;
    page.try_map(|task| TaskInfo::of(view, task))
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams/assigned", MEMBER, "assigned_task.list", op::list(list))
            .needs_listed(ScopeName::TeamRead)
            .about("List your open tasks in all teams"),
    ]
}

#[cfg(test)]
mod tests;
