//! Fetching wakes and acknowledging them (reference: teams-and-wakes, "Fetching wakes").

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::delivery::{HandOut, Offered, fetch_agent, is_exhausted, offer};
use super::failed::{enqueue_fail, set_aside};
use super::failed_wake;
use super::wake::{BY_ID, Wake};
use crate::api::{Input, Output, Readiness, Req, ResourceRef};
use crate::base::{BoundedList, Id, Result};
use crate::resources::pauses::Pause;
use crate::resources::teams::claim::WorkerName;
use crate::resources::teams::holds;
use crate::resources::teams::lease::renew;
use crate::resources::teams::member::Member;
use crate::resources::teams::team::Team;
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
    if let Some(pause) = held(view, &member, &req.input)? {
        look.again_at = pause.ends_at;
        return Ok(look);
    }
    view.for_each(ListSource::TABLE, &agent, Order::Ascending, |wake: Wake| {
        let held_until = match req.input.peek {
            Some(true) => wake.leased_until.filter(|_| wake.is_leased(view.now())),
            _ => wake.held_until(view.now()),
        };
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
    if held(&tx.view(), &member, &req.input)?.is_some() {
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
            let wake = match offer(tx, wake, how)? {
                Offered::Wake(wake) => wake,
                Offered::Nothing => continue,
                Offered::Exhausted { rows, merged } => {
                    set_aside(tx, &member, &rows, &merged)?;
                    continue;
                }
            };
            if is_enough {
                let next = handed.last().map(|last| last.key().to_bytes());
                return Ok(Page { items: handed, next });
            }
            if lease.is_some() && is_exhausted(&wake, &member) {
                enqueue_fail(tx, &wake)?;
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
        } else if failed_wake::acknowledge(tx, &key)? {
            acknowledged += 1;
        }
    }
    Ok(AckedWakes { acknowledged })
}

/// What holds an agent back: its wakes are kept, and can be seen, but none is handed out.
fn held(view: &View, member: &Member, filter: &WakeFilter) -> Result<Option<Pause>> {
    if filter.peek == Some(true) { Ok(None) } else { holds::of_member(view, member) }
}
