//! The state of the server: version, storage, retention, the last backup, and the figures
//! of the last hour (reference: command-line, "State of the server").
//!
//! It is that of the whole installation, and so for those who administer it, as `/metrics` with a
//! credential is: any user can create an organization, and is an admin there.

use crate::api::{Metric, Output, Req, Resource, ResourceRef, Route, SystemStatus, op};
use crate::auth::{INSTALLATION_ADMIN, ScopeName};
use crate::base::Result;
use crate::base::metrics::FamilyKind;
use crate::outbox::dead_jobs;
use crate::store::View;

/// Reading it; it is measured by `app`.
pub const RESOURCE: Resource = Resource { routes, metrics: &[DEAD_JOBS], ..Resource::EMPTY };

/// What will not be done any more.
const DEAD_JOBS: Metric = Metric {
    name: "roadstead_jobs_dead",
    kind: FamilyKind::Gauge,
    help: "Background jobs that were given up after a day of failures of this server, the last of \
           them in the last 30 days; the log has them",
    read: dead_jobs,
    installation: true,
};

impl Output for SystemStatus {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

fn get(_: &View, req: &Req) -> Result<SystemStatus> {
    Ok(req.server.system.status())
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/system", INSTALLATION_ADMIN, "system.get", op::read(get))
            .needs(ScopeName::MetricsRead)
            .about("Get the state of the server"),
    ]
}
