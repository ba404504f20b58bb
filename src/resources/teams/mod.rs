//! Teams: agents that work together, with their tasks, mail and wakes
//! (reference: teams-and-wakes, "Teams").
//!
//! Every organization member works in every team. A path names the team first, and every operation
//! checks it first: nothing of a deleted team can be reached, although deleting its rows takes a
//! while.

mod accounts;
mod activity;
mod approvals;
mod budget;
mod budgets;
mod changes;
mod claim;
mod claims;
mod dependencies;
mod dependency;
mod due;
mod exchange;
mod holds;
mod labels;
mod lease;
mod leases;
mod lists;
mod manage;
mod member;
mod members;
mod memories;
mod message;
mod messages;
pub mod notices;
mod parts;
mod pausing;
mod peer;
mod people;
mod rousing;
mod runs;
mod schedule;
mod schedules;
mod spending;
mod task;
mod tasks;
mod team;
mod team_changes;
#[cfg(test)]
pub mod testing;
#[cfg(test)]
mod tests;
mod timeline;
mod usable;
mod usage;
mod waiting;
mod wakes;
mod words;
mod zone;

use crate::api::Resource;

pub use member::{Member, team_of};
pub use people::count_assigned;
pub use task::{Task, TaskStatus};
pub use team::Team;
pub use waiting::count_waiting;

/// Everything about teams.
pub const RESOURCE: Resource = Resource {
    children: &[
        &team::RESOURCE,
        &manage::RESOURCE,
        &spending::RESOURCE,
        &budgets::RESOURCE,
        &members::RESOURCE,
        &tasks::RESOURCE,
        &claims::RESOURCE,
        &leases::RESOURCE,
        &dependencies::RESOURCE,
        &due::RESOURCE,
        &people::RESOURCE,
        &labels::RESOURCE,
        &messages::RESOURCE,
        &wakes::RESOURCE,
        &memories::RESOURCE,
        &runs::RESOURCE,
        &usage::RESOURCE,
        &approvals::RESOURCE,
        &timeline::RESOURCE,
        &changes::RESOURCE,
        &team_changes::RESOURCE,
        &activity::RESOURCE,
        &exchange::RESOURCE,
        &waiting::RESOURCE,
        &schedules::RESOURCE,
        &rousing::RESOURCE,
        &pausing::RESOURCE,
    ],
    ..Resource::EMPTY
};
