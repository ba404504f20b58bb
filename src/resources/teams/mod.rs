//! Teams: agents that work together, with their tasks, mail and wakes (contract §6).
//!
//! Every organization member works in every team. A path names the team first, and every operation
//! fetches it first: nothing of a team that was deleted can be reached, though clearing away what
//! it left takes a while.

pub mod approvals;
mod leftovers;
mod members;
pub mod memories;
pub mod runs;
mod tasks;
mod team;
#[cfg(test)]
mod testing;
pub mod timeline;

use crate::api::{Resource, Route};
use crate::store::TableInfo;

pub use members::{Member, MemberRole, fetch_member};
pub use team::{Spending, Team, fetch_team};

/// Everything about teams.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Team>(), TableInfo::of::<Spending>(), TableInfo::of::<Member>()],
    jobs: &[],
    sweeps: &[],
};

fn routes() -> Vec<Route> {
    vec![]
}
