//! How much waits for the caller, for a figure beside a link (reference: teams-and-wakes, "What waits
//! for people").

use schemars::JsonSchema;
use serde::Serialize;

use super::{artifacts, deployments, teams};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::SESSION_MEMBER;
use crate::base::Result;
use crate::store::View;

/// Counting what waits.
pub const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Of each kind no more are counted: pages ask for it again and again.
const MAX_COUNTED: usize = 10;

/// How much waits for the caller: at most 10 of each kind are counted.
#[derive(Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WaitingCounts {
    /// Deployment jobs that the caller is asked to approve, and can.
    deployments: usize,
    /// Changes of protected labels that the caller is asked to approve, and can.
    label_changes: usize,
    /// Pending approvals of teams.
    approvals: usize,
    /// Unread messages to the humans.
    messages: usize,
    /// Outside agents that wait for a decision.
    peers: usize,
    /// Open tasks of the caller.
    tasks: usize,
}

impl Output for WaitingCounts {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

fn count(view: &View, req: &Req) -> Result<WaitingCounts> {
    let caller = req.caller();
    let [messages, approvals, peers] = teams::count_waiting(view, caller, MAX_COUNTED)?;
    let deployments = deployments::count_waiting(view, caller, MAX_COUNTED)?;
    let label_changes = artifacts::count_waiting(view, caller, MAX_COUNTED)?;
    let tasks = teams::count_assigned(view, caller, MAX_COUNTED)?;
    Ok(WaitingCounts { deployments, label_changes, approvals, messages, peers, tasks })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/waiting", SESSION_MEMBER, "waiting.count", op::read(count))
            .about("Count what waits for the caller"),
    ]
}
