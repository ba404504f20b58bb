//! Teams: agents that work together, with their tasks, mail and wakes (contract §6).
//!
//! Every organization member works in every team. A path names the team first, and every operation
//! asks for it first: nothing of a team that was deleted can be reached, though removing what it had
//! takes a while.

mod approvals;
mod lists;
mod members;
mod memories;
mod messages;
mod runs;
mod tasks;
mod team;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
mod timeline;
mod wakes;

use crate::api::Resource;

/// Everything about teams.
pub const RESOURCE: Resource = Resource {
    children: &[
        &team::RESOURCE,
        &members::RESOURCE,
        &tasks::RESOURCE,
        &messages::RESOURCE,
        &wakes::RESOURCE,
        &memories::RESOURCE,
        &runs::RESOURCE,
        &approvals::RESOURCE,
        &timeline::RESOURCE,
    ],
    ..Resource::EMPTY
};

/// An outside agent that writes to a team; what the exchange calls a peer.
pub enum Peer {}
