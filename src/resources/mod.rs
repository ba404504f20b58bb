//! The product: one file a resource, one line each here, in order of use. A resource may use those
//! above it.

mod environments;
pub mod organizations;
mod registries;
mod llm_providers;
mod governance;
mod artifacts;
mod tools;
mod variable_usage;
mod prompt_providers;
mod agents;
mod teams;
mod notifications;

#[cfg(test)]
mod testing;

use crate::api::{Resource, Route, ledger};
use crate::base::Result;
use crate::outbox::{Job, Sweep};
use crate::store::check::Findings;
use crate::store::{TableInfo, View};
use crate::{auth, outbox};

pub use teams::dropped_wakes;

/// Every resource there is, in order of use.
pub const ALL: &[Resource] = &[
    environments::RESOURCE,
    registries::RESOURCE,
    organizations::RESOURCE,
    llm_providers::RESOURCE,
    governance::RESOURCE,
    artifacts::RESOURCE,
    tools::RESOURCE,
    variable_usage::RESOURCE,
    prompt_providers::RESOURCE,
    agents::RESOURCE,
    teams::RESOURCE,
    teams::memories::RESOURCE,
    teams::runs::RESOURCE,
    teams::approvals::RESOURCE,
    teams::timeline::RESOURCE,
    notifications::RESOURCE,
];

/// The routes of all of them.
pub fn routes() -> Vec<Route> {
    ALL.iter().flat_map(|resource| (resource.routes)()).collect()
}

/// The whole catalogue of tables: theirs and those of the rooms below.
pub fn tables() -> Vec<TableInfo> {
    let below = auth::TABLES.iter().chain(outbox::TABLES).chain(ledger::TABLES);
    below.chain(ALL.iter().flat_map(|resource| resource.tables)).copied().collect()
}

/// Notes what is wrong between the records of an organization, beyond what each table's own check
/// sees.
///
/// # Errors
/// If a record does not read, or the store fails.
pub fn check(view: &View, findings: &mut Findings) -> Result<()> {
    artifacts::check(view, findings)
}

/// The jobs of all of them.
pub fn jobs() -> Vec<&'static Job> {
    ALL.iter().flat_map(|resource| resource.jobs).collect()
}

/// The sweeps of all of them and of the rooms below.
pub fn sweeps() -> Vec<&'static Sweep> {
    let below = ledger::SWEEPS.iter().chain([&outbox::COMPLETE_REMOVALS]);
    below.chain(ALL.iter().flat_map(|resource| resource.sweeps)).collect()
}
