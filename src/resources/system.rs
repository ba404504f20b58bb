//! The state of the server: version, storage, retention, the last backup, and the figures
//! of the last hour (reference: command-line, "State of the server").
//!
//! It is that of the whole installation, and so for those who administer it, as `/metrics` with a
//! credential is: any user can create an organization, and is an admin there.

use crate::api::{Output, Req, Resource, ResourceRef, Route, SystemStatus, op};
use crate::auth::{INSTALLATION_ADMIN, ScopeName};
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
        Route::get("/system", INSTALLATION_ADMIN, "system.get", op::read(get))
            .needs(ScopeName::MetricsRead)
            .about("Get the state of the server"),
    ]
}
