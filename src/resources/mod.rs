//! The product: one file a resource, one line each here, in order of use. A resource may use those
//! above it.

mod agents;
mod notifications;
mod teams;
#[cfg(test)]
mod testing;

use crate::api::Resource;

/// Every resource there is.
pub const ALL: &[Resource] = &[
    agents::RESOURCE,
    teams::RESOURCE,
    teams::memories::RESOURCE,
    teams::runs::RESOURCE,
    teams::approvals::RESOURCE,
    teams::timeline::RESOURCE,
    notifications::RESOURCE,
];
