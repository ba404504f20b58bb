//! Teams: agents that work together, with their tasks, mail and wakes (contract §6).
//!
//! Every organization member works in every team. A path names the team first, and every operation
//! asks for it first: nothing of a team that was deleted can be reached, though removing what it had
//! takes a while.

pub mod approvals;
mod lists;
mod member;
mod members;
pub mod memories;
mod message;
mod messages;
pub mod runs;
mod task;
mod tasks;
mod team;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod tests;
pub mod timeline;
mod wakes;

use crate::api::{Resource, Route};
use crate::store::TableInfo;

pub use wakes::dropped_wakes;

/// Everything about teams.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[
        TableInfo::of::<team::Team>(),
        TableInfo::of::<team::Spending>(),
        TableInfo::of::<member::Member>(),
        TableInfo::of::<task::Task>(),
        TableInfo::of::<task::Counter>(),
        TableInfo::of::<message::Message>(),
        TableInfo::of::<wakes::Wake>(),
        TableInfo::of::<wakes::Dropped>(),
    ],
    jobs: wakes::JOBS,
    sweeps: &[],
};

fn routes() -> Vec<Route> {
    [team::routes(), members::routes(), tasks::routes(), messages::routes(), wakes::routes()]
        .into_iter()
        .flatten()
        .collect()
}
