//! The product: one file a resource, one line each here, in order of use. A resource may use those
//! above it.

mod agents;
mod environments;
pub mod organizations;
mod tools;

#[cfg(test)]
mod testing;

use crate::api::{Resource, Route, ledger};
use crate::outbox::{Job, Sweep};
use crate::store::TableInfo;
use crate::{auth, outbox};

/// Every resource there is.
pub const ALL: &[Resource] =
    &[environments::RESOURCE, organizations::RESOURCE, tools::RESOURCE, agents::RESOURCE];

/// The routes of all of them.
pub fn routes() -> Vec<Route> {
    ALL.iter().flat_map(|resource| (resource.routes)()).collect()
}

/// The whole catalogue of tables: theirs and those of the rooms below.
pub fn tables() -> Vec<TableInfo> {
    let below = auth::TABLES.iter().chain(outbox::TABLES).chain(ledger::TABLES);
    below.chain(ALL.iter().flat_map(|resource| resource.tables)).copied().collect()
}

/// The jobs of all of them.
pub fn jobs() -> Vec<&'static Job> {
    ALL.iter().flat_map(|resource| resource.jobs).collect()
}

/// The sweeps of all of them and of the rooms below.
pub fn sweeps() -> Vec<&'static Sweep> {
    ledger::SWEEPS.iter().chain(ALL.iter().flat_map(|resource| resource.sweeps)).collect()
}
