//! Notifications: the log of events and deliveries, and the workflows of channels
//! (reference: events, "The log"). The records belong to the outbox.

mod logs;
mod workflows;

use crate::api::{Resource, Route, op};
use crate::auth::{CREDENTIAL, MEMBER};
use crate::outbox::check_deliveries;

/// The log and the workflows.
pub const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[logs::DELETE_EXPIRED],
    checks: &[check_deliveries],
    workflows: &[workflows::IN_APP],
    ..Resource::EMPTY
};

fn routes() -> Vec<Route> {
    vec![
        Route::get("/notifications/logs", MEMBER, "notification.list", op::read(logs::list))
            .about("List notifications, newest first"),
        Route::get(
            "/notifications/action-workflows",
            CREDENTIAL,
            "action_workflow.list",
            op::list(workflows::list),
        )
        .about("List the action workflows of channels"),
    ]
}
