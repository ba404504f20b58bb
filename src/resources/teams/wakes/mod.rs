//! Wakes: notices that an agent has something to do
//! (reference: teams-and-wakes, "Wakes", "Joining and dropping").
//!
//! A wake is written in the transaction that causes it and stays until it is acknowledged or its
//! reason no longer holds. Delivery leases it; an unacknowledged wake is delivered again after the
//! lease. So delivery is at least once.
//!
//! A wake never changes under its id: if a newer cause joins it, it continues with a new one. So an
//! acknowledgement takes only what its sender has seen, in a delivery or a peek.

mod causes;
mod delivery;
mod failed;
mod failed_wake;
mod fetching;
mod reasons;
mod wake;
mod webhooks;

use schemars::json_schema;

use super::team::TEAM_IN_PATH;
use crate::api::{Metric, Resource, Route, Webhook, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::Result;
use crate::base::metrics::FamilyKind;
use crate::outbox::EventType;
use crate::store::{TableInfo, View};

pub use causes::{WakeCause, wake};
pub use failed::fail_exhausted;
pub use failed_wake::failed_of;
#[cfg(test)]
pub use fetching::{acknowledge, take};
use wake::DroppedWakes;
pub use wake::Wake;
#[cfg(test)]
pub use wake::WakeReason;
pub use webhooks::enqueue_pending_posts;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Wake>(), TableInfo::of::<DroppedWakes>()],
    jobs: webhooks::JOBS,
    metrics: &[Metric {
        name: "roadstead_wakes_dropped",
        kind: FamilyKind::Counter,
        help: "Wakes dropped because their reason no longer held",
        read: dropped_wakes,
        installation: false,
    }],
    events: &[EventType::TeamRunFailed],
    webhooks: &[WAKE_WEBHOOK],
    children: &[&failed::RESOURCE],
    ..Resource::EMPTY
};

const WAKE_WEBHOOK: Webhook = Webhook {
    name: "wake",
    about: "Wake an agent at its `wakeUrl`",
    description: "Posted to the `wakeUrl` of a team agent, signed with its `wakeSecret`, as soon as \
                  there is a wake. A 2xx acknowledges the wake. After any other answer, or none \
                  within 10 seconds, the wake is posted again with growing delays for 24 hours; \
                  then `team.run_failed` is published. A 410 removes the `wakeUrl`. A wake that is \
                  not acknowledged can be fetched.",
    kind: |_| json_schema!({"const": "wake", "description": "What the message is."}),
    data: |generator| generator.subschema_for::<Wake>(),
};

/// Returns the number of dropped wakes of the view's organization, for the metrics.
pub fn dropped_wakes(view: &View) -> Result<u64> {
    Ok(view.get::<DroppedWakes>(&())?.map_or(0, |dropped| dropped.count))
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of wakes.
pub fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/teams/{teamId}/agents/{agentId}/wakes",
            MEMBER,
            "wake.take",
            op::take("wake", fetching::look, fetching::take),
        )
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Lease an agent's wakes, oldest first"),
        Route::post(
            "/teams/{teamId}/agents/{agentId}/wakes/ack",
            MEMBER,
            "wake.acknowledge",
            op::write(fetching::acknowledge),
        )
        .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
        .about("Acknowledge wakes"),
    ]
}

#[cfg(test)]
mod tests;
