//! Heartbeats: what agents report about what they run. A different hash is drift; silence, for an agent
//! that has reported before, makes it stale.
//!
//! An event is published when such a state begins, and not again while it lasts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::access;
use super::events;
use super::live::{BY_REPORT, LiveDeployment, live, set_live};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Result, Text};
use crate::outbox::{EventType, RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::agents;
use crate::resources::environments;
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[FIND_SILENT],
    events: &[EventType::AgentStale, EventType::AgentDrifted, EventType::AgentError],
    ..Resource::EMPTY
};

/// Finds agents that have become silent. It reads only these.
const FIND_SILENT: Sweep =
    Sweep { name: "silent agents", every_secs: 5, run: find_silent, installation: false };

/// A heartbeat that repeats one less than a second old is not stored: it tells nothing new.
const MIN_INTERVAL_MILLIS: i64 = 1000;

// ── What callers send and see ────────────────────────────────────────────────

/// What an agent reports about itself.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"environment": "production", "hash": "the hash of the deployment that it runs",
        "error": "out of memory"}],
))]
pub struct Heartbeat {
    /// The environment that it runs in, by id or slug.
    environment: String,
    /// The hash of the deployment that it runs.
    hash: Text<0, 200>,
    /// What is wrong with it, if anything is.
    error: Option<Text<0, 10_000>>,
}

impl Input for Heartbeat {}

/// The answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAnswer {
    /// Whether the agent should run something else.
    drifted: bool,
    /// Hash of the live deployment; null if there is none.
    expected_hash: Option<String>,
}

impl Output for HeartbeatAnswer {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn report(tx: &mut Tx, req: &Req<String, Heartbeat>) -> Result<HeartbeatAnswer> {
    let view = tx.view();
    let agent = agents::fetch(&view, req.caller(), &req.params)?;
    let environment = access::environment(&view, req.caller(), &req.input.environment)?;
    let Some(old) = live(&view, agent.id, environment.id)? else {
        return Ok(HeartbeatAnswer { drifted: false, expected_hash: None });
    };
    let drifted = req.input.hash.as_str() != old.hash;
    let answer = HeartbeatAnswer { drifted, expected_hash: Some(old.hash.clone()) };
    let new = LiveDeployment {
        reported_at: Some(tx.now()),
        drifted,
        stale: false,
        error: req.input.error.as_ref().map(|error| error.to_string()),
        ..old.clone()
    };
    if is_repeated(&old, &new) {
        return Ok(answer);
    }
    set_live(tx, &new)?;
    let at = (new.agent, new.environment);
    if drifted && !old.drifted {
        let mut more = events::of_live(&new);
        let hashes = [("hash", json!(req.input.hash)), ("expectedHash", json!(new.hash))];
        more.extend(hashes);
        events::publish_agent(tx, EventType::AgentDrifted, at, &more)?;
    }
    if let (Some(error), None) = (&new.error, &old.error) {
        let mut more = events::of_live(&new);
        more.push(("error", json!(error)));
        events::publish_agent(tx, EventType::AgentError, at, &more)?;
    }
    Ok(answer)
}

/// Whether a heartbeat says the same as one just before it.
fn is_repeated(old: &LiveDeployment, new: &LiveDeployment) -> bool {
    let (Some(before), Some(now)) = (old.reported_at, new.reported_at) else { return false };
    let is_soon = now.millis() - before.millis() < MIN_INTERVAL_MILLIS;
    is_soon && LiveDeployment { reported_at: old.reported_at, ..new.clone() } == *old
}

/// Marks agents as stale that have been silent for too long. Silence counts from the start of the
/// server at the earliest: nobody could report while it was down.
fn find_silent(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let limit = tx.now().minus_secs(settings.stale_after_secs);
    if settings.started_at > limit {
        return Ok(SweepProgress::Clean);
    }
    let is_due = |live: &LiveDeployment| live.reported_at.is_some_and(|at| at <= limit);
    let (silent, progress) = due(&tx.view(), &BY_REPORT, is_due)?;
    for old in &silent {
        let new = LiveDeployment { stale: true, ..old.clone() };
        set_live(tx, &new)?;
        let mut more = events::of_live(&new);
        more.push(("reportedAt", json!(new.reported_at)));
        events::publish_agent(tx, EventType::AgentStale, (new.agent, new.environment), &more)?;
    }
    Ok(progress)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post("/agents/{stableKey}/heartbeat", MEMBER, "agent.heartbeat", op::write(report))
            .unaudited()
            .needs_for(ScopeName::DeploymentReport, &environments::NAMED_ENVIRONMENT)
            .about("Report what an agent runs"),
    ]
}
