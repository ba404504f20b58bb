//! Notifications: channels with their subscriptions, and the log of events and deliveries
//! (reference: notifications). The records belong to the outbox, which delivers.

mod channels;
mod config;
mod guards;
mod logs;
mod recipients;
mod redelivery;
mod senders;
mod subscriptions;
#[cfg(test)]
mod testing;
mod text;
mod workflow_key;
mod workflows;

use schemars::json_schema;
use serde_json::Value;

use crate::api::{Resource, Route, Webhook, op};
use crate::auth::{CREDENTIAL, MEMBER, ScopeName};
use crate::base::Result;
use crate::outbox::{EventType, RETRY_DEAD, TEST_TYPE, check_deliveries, mend_deliveries};
use workflow_key::WorkflowKey;

/// Channels, subscriptions, the log and the workflows.
pub const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[logs::DELETE_EXPIRED, RETRY_DEAD],
    checks: &[check_deliveries],
    mends: &[mend_deliveries],
    workflows: senders::WORKFLOWS,
    webhooks: &[EVENT_WEBHOOK],
    children: &[
        &channels::RESOURCE,
        &recipients::RESOURCE,
        &subscriptions::RESOURCE,
        &redelivery::RESOURCE,
    ],
    ..Resource::EMPTY
};

/// Checks the configuration of a channel of this workflow; a workflow that there is not has none.
///
/// # Errors
/// 400 with every problem.
pub fn check_config(workflow: &str, config: &Value) -> Result<()> {
    let known = WorkflowKey::ALL.into_iter().find(|known| known.name() == workflow);
    known.map_or(Ok(()), |workflow| config::read_value(workflow, config).map(drop))
}

const EVENT_WEBHOOK: Webhook = Webhook {
    name: "event",
    about: "Report an event to a channel",
    description: "Posted to the `url` of a channel with the workflow `webhook`, signed with its \
                  secret, for each event to which the channel is subscribed; `webhook-id` is the id \
                  of the log entry. After an answer other than 2xx, or none within 10 seconds, it is \
                  posted again with growing delays for about 24 hours; then the entry is `dead`. A \
                  410 disables the channel. Delivery is at least once, in no particular order.",
    kind: |generator| {
        json_schema!({
            "anyOf": [
                generator.subschema_for::<EventType>(),
                {"const": TEST_TYPE, "description": "A test of the channel."},
            ],
        })
    },
    data: |_| {
        json_schema!({
            "type": "object",
            "description": "The ids and names of what the event is about, as in its log entry."
        })
    },
};

fn routes() -> Vec<Route> {
    vec![
        Route::get("/notifications/logs", MEMBER, "notification.list", op::read(logs::list))
            .needs(ScopeName::NotificationRead)
            .about("List notifications, newest first"),
        Route::get(
            "/notifications/action-workflows",
            CREDENTIAL,
            "action_workflow.list",
            op::list(workflows::list),
        )
        .needs(ScopeName::ChannelRead)
        .about("List the action workflows of channels"),
    ]
}
