//! Notifications: the log of events and deliveries, and the workflows that channels can have
//! (reference: events, "The log"). The records themselves belong to the outbox.

mod logs;
mod workflows;

use crate::api::{Resource, Route, op};
use crate::auth::{CREDENTIAL, MEMBER};
use crate::outbox::check_deliveries;

/// Notifications.
pub const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[logs::FORGET],
    checks: &[check_deliveries],
    workflows: &[workflows::IN_APP],
    ..Resource::EMPTY
};

fn routes() -> Vec<Route> {
    vec![
        Route::get("/notifications/logs", MEMBER, "notification.list", op::read(logs::list))
            .about("List what happened and how far telling it has come, newest first"),
        Route::get(
            "/notifications/action-workflows",
            CREDENTIAL,
            "action_workflow.list",
            op::list(workflows::list),
        )
        .about("List the ways in which channels can tell of events"),
    ]
}
