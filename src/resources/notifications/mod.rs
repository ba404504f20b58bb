//! Notifications: the log of what happened and was told, and the ways there are to tell it
//! (interface §4 and §6, contract §9). The entries themselves are the outbox's.

mod logs;
mod workflows;

use crate::api::{Resource, Route, op};
use crate::auth::{CREDENTIAL, MEMBER};

/// Notifications.
pub const RESOURCE: Resource = Resource { routes, tables: &[], jobs: &[], sweeps: &[logs::FORGET] };

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
