//! Heartbeats: what agents report about what they run. A different hash is drift; silence, for an agent
//! that has reported before, makes it stale.
//!
//! An event is published when such a state begins, and not again while it lasts.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::access;
use super::events;
use super::live::live;
use super::reports::{self, AgentReport, BY_TIME, set_report};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, Restricted, ScopeName};
use crate::base::{Result, Text};
use crate::outbox::{EventType, RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::agents;
use crate::resources::environments::{self, Environment};
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
    let (view, input) = (tx.view(), &req.input);
    let agent = agents::fetch(&view, req.caller(), &req.params)?.id;
    let environment = access::environment(&view, req.caller(), &input.environment)?.id;
    let expected_hash = live(&view, agent, environment)?.map(|live| live.hash);
    let drifted = expected_hash.as_ref().is_some_and(|expected| *expected != *input.hash);
    let old = reports::report(&view, agent, environment)?;
    let new = AgentReport {
        agent,
        environment,
        reported_at: tx.now(),
        drifted,
        stale: false,
        error: input.error.as_ref().map(|error| error.to_string()),
        hash: Some(input.hash.to_string()),
    };
    let answer = HeartbeatAnswer { drifted, expected_hash };
    if old.as_ref().is_some_and(|old| is_repeated(old, &new)) {
        return Ok(answer);
    }
    set_report(tx, &new)?;
    if drifted && !old.as_ref().is_some_and(|old| old.drifted) {
        let hashes = [("hash", json!(input.hash)), ("expectedHash", json!(answer.expected_hash))];
        events::publish_report(tx, EventType::AgentDrifted, &new, &hashes)?;
    }
    let had_error = old.is_some_and(|old| old.error.is_some());
    if let Some(error) = new.error.as_ref().filter(|_| !had_error) {
        events::publish_report(tx, EventType::AgentError, &new, &[("error", json!(error))])?;
    }
    Ok(answer)
}

/// Whether a heartbeat says the same as one just before it.
fn is_repeated(old: &AgentReport, new: &AgentReport) -> bool {
    let is_soon = new.reported_at.millis() - old.reported_at.millis() < MIN_INTERVAL_MILLIS;
    is_soon && AgentReport { reported_at: old.reported_at, ..new.clone() } == *old
}

/// Marks agents as stale that have been silent for too long. Silence counts from the start of the
/// server at the earliest: nobody could report while it was down.
fn find_silent(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let limit = tx.now().minus_secs(settings.stale_after_secs);
    if settings.started_at > limit {
        return Ok(SweepProgress::Clean);
    }
    let is_due = |report: &AgentReport| report.reported_at <= limit;
    let (silent, progress) = due(&tx.view(), &BY_TIME, is_due)?;
    for old in silent {
        let new = AgentReport { stale: true, ..old };
        set_report(tx, &new)?;
        // Reports from a deleted environment are removed in steps.
        if tx.view().has::<Restricted<Environment>>(&new.environment)? {
            let at = [("reportedAt", json!(new.reported_at))];
            events::publish_report(tx, EventType::AgentStale, &new, &at)?;
        }
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
