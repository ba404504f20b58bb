//! Who may use an agent that is known by its id. The agent itself, whose draft may be large, is not
//! read: what works as an agent in a team, and long polls for its wakes, ask this each time.

use std::ops::ControlFlow;

use super::agent::{Agent, FLEETS};
use crate::auth::{Access, Caller, Restrictable, Restricted, grant_required, was_restricted};
use crate::base::{Id, Result};
use crate::resources::fleet::Fleet;
use crate::store::{Order, View};

/// Requires that a caller may use an agent.
///
/// # Errors
/// 403 if its fleet is restricted and the caller has no grant.
pub fn require_usable(view: &View, caller: &Caller, agent: Id<Agent>) -> Result<()> {
    if is_usable(view, caller, agent)? { Ok(()) } else { Err(grant_required()) }
}

/// Whether a caller may use an agent. One that was deleted is as restricted as it was then.
pub fn is_usable(view: &View, caller: &Caller, agent: Id<Agent>) -> Result<bool> {
    if caller.is_admin() {
        return Ok(true);
    }
    match fleet(view, agent)? {
        Some(fleet) => Ok(fleet.open_if_usable(view, caller)?.is_some()),
        None => Ok(!was_restricted(view, agent)?),
    }
}

/// Whether every member may use an agent; also for one that was deleted.
pub fn is_open(view: &View, agent: Id<Agent>) -> Result<bool> {
    match fleet(view, agent)? {
        Some(fleet) => Ok(fleet.without_caller().access(view)? == Access::Organization),
        None => Ok(!was_restricted(view, agent)?),
    }
}

/// Whether there is an agent with this id.
pub fn exists(view: &View, agent: Id<Agent>) -> Result<bool> {
    view.has::<Restricted<Agent>>(&agent)
}

/// Returns the fleet of an agent; none also of one that is deleted and not taken from its agents yet.
fn fleet(view: &View, agent: Id<Agent>) -> Result<Option<Restricted<Fleet>>> {
    let mut found = None;
    view.entries(&FLEETS, &agent, &agent.successor(), Order::Ascending, |(_, fleet), _| {
        found = Some(fleet);
        Ok(ControlFlow::Break(()))
    })?;
    found.map_or(Ok(None), |fleet: Id<Fleet>| view.get(&fleet))
}
