//! Tasks whose time has passed: the Scrum Master is woken once, and people find them together
//! (reference: teams-and-wakes, "Due tasks").

use std::ops::ControlFlow;

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::member::{Member, scrum_master};
use super::parts::TaskInfo;
use super::task::{BY_DUE, Due, Task, due_of};
use super::team::{Team, reaches};
use super::wakes::{self, WakeCause};
use crate::api::{Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Id, Result, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress};
use crate::store::{Export, Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<ToldDue>()],
    sweeps: &[TELL_DUE],
    ..Resource::EMPTY
};

/// Tells of the open tasks whose time has passed since the last step.
const TELL_DUE: Sweep =
    Sweep { name: "tasks that are due", every_secs: 5, run: tell_due, installation: false };

/// So many are told of in one transaction: servers that share a store tell each other of so many wakes at
/// once.
const AT_ONCE: usize = 50;

/// Until where in [`BY_DUE`] the open tasks have been told of, this place included.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct ToldDue {
    until: Due,
}

impl Record for ToldDue {
    const TABLE: &'static str = "tasks.told_due";
    const EXPORT: Export<Self> = Export::LeftOut("where it arrives, people are told anew");
    type Key = ();
    fn key(&self) -> Self::Key {}
}

fn tell_due(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let now = tx.now();
    let told = tx.get::<ToldDue>(&())?.map(|told| told.until);
    // By a clock that was ahead, tasks were told of that are due again when their time comes.
    let is_ahead = told.is_some_and(|until| until.0 > now);
    let from =
        if is_ahead { end_of(now) } else { told.unwrap_or(start_of(Time::from_millis(i64::MIN))) };
    let mut over: Vec<Due> = Vec::new();
    tx.view().entries(&BY_DUE, &from, &end_of(now), Order::Ascending, |due, _| {
        if due > from || told.is_none() {
            over.push(due);
        }
        let is_enough = over.len() == AT_ONCE;
        Ok(if is_enough { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    for (_, team, task) in &over {
        // One that is being removed with its team has nobody to tell.
        if tx.get::<Team>(team)?.is_some()
            && let Some(agent) = scrum_master(&tx.view(), *team)?
        {
            tx.unmark_deletion(); // A wake is for a disk that has place.
            wakes::wake(tx, &agent, &WakeCause::TaskOverdue(*task))?;
        }
    }
    match over.last() {
        Some(last) => tx.put(&ToldDue { until: *last })?,
        None if is_ahead => tx.put(&ToldDue { until: from })?,
        None => {}
    }
    Ok(if over.len() == AT_ONCE { SweepProgress::More } else { SweepProgress::Clean })
}

fn start_of(time: Time) -> Due {
    (time, Id::NIL, Id::NIL)
}

/// After all tasks that are due at this time.
fn end_of(time: Time) -> Due {
    (time, Id::new(Uuid::max()), Id::new(Uuid::max()))
}

/// Tells of a task that a change has put where the others have been told of: it was reopened, or is to be
/// done at a time that has passed. An agent does not hear of its own act.
pub fn tell_of_change(
    tx: &mut Tx,
    old: Option<&Task>,
    new: &Task,
    acting: Option<&Member>,
) -> Result<()> {
    let due = due_of(new);
    if due == old.and_then(due_of) {
        return Ok(());
    }
    let Some(due) = due else { return Ok(()) };
    let is_told = tx.get::<ToldDue>(&())?.is_some_and(|told| due <= told.until);
    match scrum_master(&tx.view(), new.team_id)? {
        Some(agent) if is_told && acting.is_none_or(|acting| acting.id != agent.id) => {
            wakes::wake(tx, &agent, &WakeCause::TaskOverdue(new.id))
        }
        _ => Ok(()),
    }
}

/// Lists the open tasks of all teams whose time has passed, what passed last first.
pub fn list(view: &View, req: &Req) -> Result<Page<TaskInfo>> {
    let is_listed = |task: &Task| reaches(view, req.caller(), ScopeName::TeamRead, task.team_id);
    let span = (&start_of(Time::from_millis(i64::MIN)), &end_of(view.now()));
    view.page_map_between(&BY_DUE, span, &req.page, is_listed, TaskInfo::of)
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams/overdue", MEMBER, "overdue_task.list", op::list(list))
            .needs_listed(ScopeName::TeamRead)
            .about("List the overdue tasks of all teams"),
    ]
}
