//! Handing wakes out, taking acknowledgements; what joins and what is dropped on the way.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::{Dropped, Wake, WakeReason, join, same_subject};
use crate::api::{Input, Output, Readiness, Req};
use crate::base::{Id, List, Result};
use crate::resources::teams::member::{Member, fetch_member};
use crate::resources::teams::message;
use crate::resources::teams::task::{self, Task};
use crate::resources::teams::team::{Team, require_team};
use crate::store::{Key, Order, Page, PageRequest, Record, Source, Tx, View};

/// How long a wake is in the hands of whoever took it
/// (reference: teams-and-wakes, "Fetching wakes").
const LEASE_SECS: i64 = 60;

/// So many are looked at in one transaction, though all of them be dropped.
pub const LOOKED_AT: usize = 1000;

/// Several times as many as are handed out at once.
const MAX_ACKED: usize = 1000;

// ── What callers send and see ────────────────────────────────────────────────

/// How wakes are handed out.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WakeFilter {
    peek: Option<bool>,
}
impl Input for WakeFilter {}

/// The wakes that were dealt with; unknown ids are passed over.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckWakes {
    wake_ids: List<Id<Wake>, 0, MAX_ACKED>,
}
impl Input for AckWakes {}

/// How many wakes were acknowledged.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AckedWakes {
    acknowledged: usize,
}

impl Output for AckedWakes {}

// ── Operations ───────────────────────────────────────────────────────────────

/// Whether an agent has a wake in nobody's hands, and if not, when the next lease ends.
pub fn look(view: &View, req: &Req<(Id<Team>, Id<Member>), WakeFilter>) -> Result<Readiness> {
    let agent = fetch_agent(view, req.params)?;
    let mut look = Readiness { topic: agent.uuid(), ready: false, again_at: None };
    view.each(Source::TABLE, &agent, Order::Ascending, |wake: Wake| {
        look.ready = !wake.is_leased(view.now());
        if look.ready {
            return Ok(ControlFlow::Break(()));
        }
        look.again_at = look.again_at.into_iter().chain(wake.leased_until).min();
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(look)
}

/// Hands out an agent's wakes, oldest first.
pub fn take(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), WakeFilter>) -> Result<Page<Wake>> {
    let agent = fetch_agent(&tx.view(), req.params)?;
    let lease = req.input.peek != Some(true);
    let limit = req.page.limit;
    let mut handed: Vec<Wake> = Vec::new();
    let mut after = req.page.after.clone();
    let mut looked_at = 0;
    loop {
        // One more than is wanted, so that it is known whether anything follows.
        let wanted = limit - handed.len() + 1;
        let part = PageRequest { limit: wanted.min(LOOKED_AT - looked_at), after };
        let now = tx.now();
        let free = |wake: &Wake| !wake.is_leased(now);
        let rows = tx.page(Source::TABLE, &agent, Order::Ascending, &part, free)?;
        looked_at += rows.items.len();
        for wake in &rows.items {
            let is_enough = handed.len() == limit;
            let Some(wake) = offer(tx, wake, lease && !is_enough)? else { continue };
            if is_enough {
                let next = handed.last().map(|last| last.key().to_bytes());
                return Ok(Page { items: handed, next });
            }
            handed.push(wake);
        }
        if rows.next.is_none() {
            return Ok(Page { items: handed, next: None });
        }
        if looked_at == LOOKED_AT {
            // Whoever waits shall look again at once.
            tx.signal(agent.uuid());
            return Ok(Page { items: handed, next: rows.next });
        }
        after = rows.next;
    }
}

/// Removes wakes that were attended to; unknown ids are passed over.
pub fn acknowledge(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), AckWakes>) -> Result<AckedWakes> {
    let agent = fetch_agent(&tx.view(), req.params)?;
    let mut acknowledged = 0;
    for id in req.input.wake_ids.iter() {
        if let Some(wake) = tx.get::<Wake>(&(agent, *id))? {
            tx.remove(&wake)?;
            acknowledged += 1;
        }
    }
    Ok(AckedWakes { acknowledged })
}

fn fetch_agent(view: &View, (team, agent): (Id<Team>, Id<Member>)) -> Result<Id<Member>> {
    require_team(view, team)?;
    Ok(fetch_member(view, team, agent)?.id)
}

// ── One wake ─────────────────────────────────────────────────────────────────

/// Hands out a wake that is in nobody's hands, with those that join it; with `lease` it is the
/// receiver's for a while. None if it joins an older one, or if its reason has gone away: then it
/// is dropped.
pub fn offer(tx: &mut Tx, wake: &Wake, lease: bool) -> Result<Option<Wake>> {
    let now = tx.now();
    let mut rows = match wake.subject() {
        Some(_) => same_subject(&tx.view(), wake)?,
        None => vec![wake.clone()],
    };
    rows.retain(|row| !row.is_leased(now));
    let Some((oldest, newer)) = rows.split_first().filter(|(oldest, _)| oldest.id == wake.id)
    else {
        return Ok(None);
    };
    let joined = newer.iter().fold(oldest.clone(), |joined, newer| join(&joined, newer));
    if !has_reason(&tx.view(), &joined)? {
        rows.iter().try_for_each(|row| tx.remove(row))?;
        count_dropped(tx)?;
        return Ok(None);
    }
    if !lease {
        return Ok(Some(joined));
    }
    newer.iter().try_for_each(|row| tx.remove(row))?;
    let attempts = joined.attempts + 1;
    let leased_until = Some(now.plus_secs(LEASE_SECS));
    let leased = Wake { attempts, leased_until, ..joined };
    tx.replace(oldest, &leased)?;
    Ok(Some(leased))
}

/// Whether what an agent was woken for still is there for it to do
/// (reference: teams-and-wakes, "Joining and dropping").
fn has_reason(view: &View, wake: &Wake) -> Result<bool> {
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
            Ok(!closed_since(wake, &task) && task.assignee_agent_id == Some(wake.agent))
        }
        (WakeReason::TaskNote, Some(task)) => {
            let agent = task::responsible(view, &task)?.map(|member| member.id);
            Ok(!closed_since(wake, &task)
                && agent == Some(wake.agent)
                && message::has_unread_note(view, &task, wake.agent, wake.created_at)?)
        }
        (WakeReason::TaskAssigned | WakeReason::TaskNote, None) => Ok(false),
        (WakeReason::ExternalRequest | WakeReason::Notification, _) => Ok(true),
    }
}

/// Whether the task was closed after the wake's latest cause. A note on a task that was closed
/// already is news.
fn closed_since(wake: &Wake, task: &Task) -> bool {
    task.is_closed() && !wake.while_closed
}

fn count_dropped(tx: &mut Tx) -> Result<()> {
    let Dropped { count } = tx.get(&())?.unwrap_or_default();
    tx.put(&Dropped { count: count + 1 })
}
