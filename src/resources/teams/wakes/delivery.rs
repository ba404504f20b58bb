//! Delivery of wakes: leasing, merging, dropping and acknowledging them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::failed::{self, enqueue_fail, is_exhausted, set_aside};
use super::wake::{
    BY_ID, DroppedWakes, LEASE_SECS, Wake, WakeReason, merge, pause_after, same_subject,
};
use crate::api::{Input, Output, Readiness, Req, ResourceRef};
use crate::auth::Caller;
use crate::base::{BoundedList, Id, Result};
use crate::resources::teams::claim::WorkerName;
use crate::resources::teams::dependency;
use crate::resources::teams::lease::renew;
use crate::resources::teams::member::{self, Member, scrum_master};
use crate::resources::teams::message;
use crate::resources::teams::peer;
use crate::resources::teams::task::{self, Task, TaskStatus};
use crate::resources::teams::team::{Team, require_team};
use crate::resources::teams::usable::UsableMember;
use crate::store::{Key, ListSource, Order, Page, PageRequest, Record, Tx, View};

/// At most 1,000 wakes are scanned in one transaction, even if all of them are dropped.
pub const MAX_SCANNED: usize = 1000;

/// Several times the number delivered at once.
const MAX_ACKED: usize = 1000;

// ── What callers send and see ────────────────────────────────────────────────

/// Options of fetching wakes.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WakeFilter {
    /// True: list the wakes without leasing them.
    peek: Option<bool>,
}
impl Input for WakeFilter {}

/// The wakes to acknowledge; unknown ids are ignored.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"wakeIds": ["01890a5d-ac96-774b-bcce-b302099a8057"]}],
))]
pub struct AckWakes {
    /// The wakes to acknowledge; unknown ones are ignored.
    wake_ids: BoundedList<Id<Wake>, 0, MAX_ACKED>,
    /// The process of the agent that acknowledges them, whose leases it renews.
    worker: Option<WorkerName>,
}
impl Input for AckWakes {}

/// The number of wakes acknowledged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckedWakes {
    /// Unknown ids are not counted.
    acknowledged: usize,
}

impl Output for AckedWakes {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Returns whether an agent has a wake that is not leased, and if not, when the next lease ends.
pub fn look(view: &View, req: &Req<(Id<Team>, Id<Member>), WakeFilter>) -> Result<Readiness> {
    let member = fetch_agent(view, req.caller(), req.params)?;
    let agent = member.id;
    let mut look = Readiness { topic: agent.uuid(), ready: false, again_at: None };
    if is_held(view, &member, &req.input)? {
        return Ok(look);
    }
    view.for_each(ListSource::TABLE, &agent, Order::Ascending, |wake: Wake| {
        let held_until = wake.held_until(view.now());
        look.ready = held_until.is_none();
        if look.ready {
            return Ok(ControlFlow::Break(()));
        }
        look.again_at = look.again_at.into_iter().chain(held_until).min();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(look)
}

/// Leases and returns an agent's wakes, oldest first.
pub fn take(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), WakeFilter>) -> Result<Page<Wake>> {
    let member = fetch_agent(&tx.view(), req.caller(), req.params)?;
    if is_held(&tx.view(), &member, &req.input)? {
        return Ok(Page { items: Vec::new(), next: None });
    }
    let agent = member.id;
    let lease = if req.input.peek == Some(true) { None } else { Some(&member) };
    let limit = req.page.limit;
    let mut handed: Vec<Wake> = Vec::new();
    let mut after = req.page.after.clone();
    let mut scanned = 0;
    loop {
        // One more than wanted, to know whether there is a next page.
        let wanted = limit - handed.len() + 1;
        let part = PageRequest { limit: wanted.min(MAX_SCANNED - scanned), after };
        let now = tx.now();
        let free = |wake: &Wake| match lease {
            Some(_) => wake.held_until(now).is_none(),
            None => !wake.is_leased(now),
        };
        let rows = tx.page(ListSource::TABLE, &agent, Order::Ascending, &part, free)?;
        scanned += rows.items.len();
        for wake in &rows.items {
            let is_enough = handed.len() == limit;
            let how = match lease {
                Some(member) if !is_enough => HandOut::Lease(member),
                _ => HandOut::Peek,
            };
            let Some(wake) = offer(tx, wake, how)? else { continue };
            if is_enough {
                let next = handed.last().map(|last| last.key().to_bytes());
                return Ok(Page { items: handed, next });
            }
            handed.push(wake);
        }
        if rows.next.is_none() {
            return Ok(Page { items: handed, next: None });
        }
        if scanned == MAX_SCANNED {
            // Long polls check again at once.
            tx.signal(agent.uuid());
            return Ok(Page { items: handed, next: rows.next });
        }
        after = rows.next;
    }
}

/// Deletes acknowledged wakes; unknown ids are ignored, and so are those of wakes that a later cause
/// has joined, which have another id.
pub fn acknowledge(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), AckWakes>) -> Result<AckedWakes> {
    let agent = fetch_agent(&tx.view(), req.caller(), req.params)?;
    renew(tx, &agent, req.input.worker.as_ref())?;
    let (agent, mut acknowledged) = (agent.id, 0);
    for id in req.input.wake_ids.iter() {
        let key = (agent, *id);
        if let Some(wake) = tx.find(&BY_ID, &key)? {
            tx.remove(&wake)?;
            acknowledged += 1;
        } else if failed::acknowledge(tx, &key)? {
            acknowledged += 1;
        }
    }
    Ok(AckedWakes { acknowledged })
}

/// Whether an agent is paused: its wakes are kept, and can be seen, but none is handed out.
fn is_held(view: &View, member: &Member, filter: &WakeFilter) -> Result<bool> {
    Ok(filter.peek != Some(true) && member::pause_of(view, member)?.is_some())
}

/// Returns the agent whose wakes a path names.
pub(super) fn fetch_agent(
    view: &View,
    caller: &Caller,
    (team, agent): (Id<Team>, Id<Member>),
) -> Result<UsableMember> {
    require_team(view, team)?;
    UsableMember::fetch(view, caller, (team, agent))
}

// ── One wake ─────────────────────────────────────────────────────────────────

/// What a wake is looked at for.
#[derive(Clone, Copy)]
pub enum HandOut<'a> {
    /// To be shown, and left as it is.
    Peek,
    /// To be handed to this agent, which asks for it.
    Lease(&'a Member),
    /// To be posted.
    Post,
}

/// Returns a wake that is not leased, merged with the older ones of its subject, and leases it unless it is
/// only shown, under a new id if others were merged. `None` if it is merged into a newer one, if it fails
/// since its agent was handed it too often, or if its reason no longer holds: then it is dropped.
pub fn offer(tx: &mut Tx, wake: &Wake, how: HandOut<'_>) -> Result<Option<Wake>> {
    let now = tx.now();
    let mut rows = match wake.subject() {
        Some(_) => same_subject(&tx.view(), wake)?,
        None => vec![wake.clone()],
    };
    rows.retain(|row| !row.is_leased(now));
    let Some((newest, older)) = rows.split_last().filter(|(newest, _)| newest.id == wake.id) else {
        return Ok(None);
    };
    let merged = older.iter().rev().fold(newest.clone(), |merged, older| merge(older, &merged));
    if !has_reason(&tx.view(), &merged)? {
        rows.iter().try_for_each(|row| tx.remove(row))?;
        count_dropped(tx)?;
        return Ok(None);
    }
    match how {
        HandOut::Peek => return Ok(Some(merged)),
        // A cause that has joined since is news: it is handed out once at least.
        HandOut::Lease(member) if is_exhausted(newest, member) => {
            set_aside(tx, member, &rows, &merged)?;
            return Ok(None);
        }
        HandOut::Lease(_) | HandOut::Post => {}
    }
    older.iter().try_for_each(|row| tx.remove(row))?;
    // Who holds the newest from a lease that has ended has not seen the others.
    let id = if older.is_empty() { merged.id } else { tx.new_id() };
    let attempts = merged.attempts + 1;
    let leased_until = Some(now.plus_secs(LEASE_SECS));
    let mut leased = Wake { id, attempts, leased_until, again_at: None, ..merged };
    if let HandOut::Lease(member) = how
        && leased.posting_since.is_none()
    {
        if is_exhausted(&leased, member) {
            enqueue_fail(tx, &leased)?;
        } else if let pause @ 1.. = pause_after(attempts) {
            leased.again_at = Some(now.plus_secs(LEASE_SECS + pause));
        }
    }
    tx.replace(newest, &leased)?;
    Ok(Some(leased))
}

/// Whether the reason of a wake still holds
/// (reference: teams-and-wakes, "Joining and dropping").
pub(super) fn has_reason(view: &View, wake: &Wake) -> Result<bool> {
    let task = match wake.task_id {
        Some(id) => view.get::<Task>(&(wake.team, id))?,
        None => None,
    };
    match (wake.reason, task) {
        (WakeReason::DirectMessage, _) => match wake.message_id {
            Some(message) => message::is_unread(view, wake.team, message),
            None => Ok(false),
        },
        (WakeReason::TaskAssigned, Some(task)) => {
            // One that waits for others wakes when it may be begun.
            let is_agents = task.assignee_agent_id == Some(wake.agent);
            Ok(!closed_since(wake, &task) && !task.is_waiting && is_agents)
        }
        (WakeReason::TaskNote, Some(task)) => {
            let agent = task::assignee_or_scrum_master(view, &task)?.map(|member| member.id);
            Ok(!closed_since(wake, &task)
                && agent == Some(wake.agent)
                && message::has_unread_note(view, &task, wake.agent, wake.created_at)?)
        }
        (WakeReason::TaskUnblocked | WakeReason::TaskReopened, Some(task)) => {
            Ok(task.is_workable() && task.assignee_agent_id == Some(wake.agent))
        }
        // Of a free task the Scrum Master is told, or who had it. A blocked one wakes its agent later.
        (WakeReason::ClaimExpired, Some(task)) => Ok(match task::current_assignee(view, &task)? {
            Some(agent) => agent == wake.agent && task.status == TaskStatus::Open,
            None => {
                let master = scrum_master(view, task.team_id)?;
                !task.is_closed() && master.is_none_or(|master| master.id == wake.agent)
            }
        }),
        (WakeReason::DependencyDone, Some(task)) => {
            let agent = task::assignee_or_scrum_master(view, &task)?.map(|member| member.id);
            Ok(task.is_workable() && agent == Some(wake.agent))
        }
        (WakeReason::DependencyCancelled, Some(task)) => Ok(task.status == TaskStatus::Cancelled
            && dependency::is_awaited(view, (wake.team, task.id))?),
        (WakeReason::TaskOverdue, Some(task)) => {
            // By the clock of the server that told it.
            Ok(!task.is_closed() && task.due_at.is_some_and(|due| !due.is_beyond(view.now(), 0)))
        }
        (
            WakeReason::TaskAssigned
            | WakeReason::TaskNote
            | WakeReason::TaskUnblocked
            | WakeReason::TaskReopened
            | WakeReason::ClaimExpired
            | WakeReason::DependencyDone
            | WakeReason::DependencyCancelled
            | WakeReason::TaskOverdue,
            None,
        ) => Ok(false),
        (WakeReason::ExternalRequest, _) => match wake.peer_id {
            Some(peer) => peer::is_accepted(view, wake.team, peer),
            None => Ok(false),
        },
        (WakeReason::WakeFailed, _) => match wake.failed_agent {
            Some(agent) => failed::has_failed(view, agent),
            None => Ok(false),
        },
        (WakeReason::Notification | WakeReason::ApprovalDecided | WakeReason::Schedule, _) => {
            Ok(true)
        }
    }
}

/// Whether the task was closed after the wake's latest cause. A note on a task that was already
/// closed still wakes.
fn closed_since(wake: &Wake, task: &Task) -> bool {
    task.is_closed() && !wake.while_closed
}

pub(super) fn count_dropped(tx: &mut Tx) -> Result<()> {
    let DroppedWakes { count } = tx.get(&())?.unwrap_or_default();
    tx.put(&DroppedWakes { count: count + 1 })
}
