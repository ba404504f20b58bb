//! The state of the server, for admins: version, storage, retention, the last backup, and the figures
//! of the last hour (reference: command-line, "State of the server").
//!
//! It is that of the whole installation, and open to those who may read `/metrics` with a credential of
//! an organization: beside those figures it says where the servers of the installation run, and
//! nothing of any one organization.

use crate::api::{Output, Req, Resource, ResourceRef, Route, SystemStatus, op};
use crate::auth::{ADMIN, ScopeName};
use crate::base::Result;
use crate::store::View;

/// Reading it; it is measured by `app`.
pub const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

impl Output for SystemStatus {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

fn get(_: &View, req: &Req) -> Result<SystemStatus> {
    Ok(req.system.status())
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/system", ADMIN, "system.get", op::read(get))
            .needs(ScopeName::MetricsRead)
            .about("Get the state of the server"),
    ]
}
