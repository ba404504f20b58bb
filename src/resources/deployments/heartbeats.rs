//! Heartbeats: what agents report about what they run. A different hash is drift; silence, for an agent
//! that has reported before, makes it stale.
//!
//! An event is published when such a state begins, and not again while it lasts. There is one record
//! for each agent and environment from which it has sent a heartbeat, whether something is deployed
//! there or not.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::access;
use super::live::{LiveDeployment, live};
use super::target::publish_agent;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, Restricted, ScopeName};
use crate::base::{Id, Result, Text, Time};
use crate::outbox::{EventType, RetentionSettings, Sweep, SweepProgress, due};
use crate::resources::agents::{self, Agent, AgentStatus, PlaceStatus, WITHOUT_PLACES};
use crate::resources::environments::{self, Environment};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View,
    upgrade_shorter,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[FIND_SILENT, FIND_PLACES],
    events: &[EventType::AgentStale, EventType::AgentDrifted, EventType::AgentError],
    ..Resource::EMPTY
};

crate::base::portable! {
/// The last heartbeat of an agent from an environment.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct AgentReport {
    pub agent: Id<Agent>,
    pub environment: Id<Environment>,
    /// The time of the heartbeat: silence counts from then.
    pub reported_at: Time,
    /// Whether the agent runs something other than what is live.
    pub drifted: bool,
    /// Whether it has been silent for too long.
    pub stale: bool,
    /// The error that it reported.
    pub error: Option<String>,
    /// The hash of what it said it runs; none until it reports what it runs since the newest
    /// deployment.
    pub hash: Option<String>,
}
}

impl AgentReport {
    /// The status that it gives the agent; none if all is well.
    fn problem(&self) -> Option<AgentStatus> {
        match self {
            _ if self.error.is_some() => Some(AgentStatus::Error),
            _ if self.stale => Some(AgentStatus::Stale),
            _ if self.drifted => Some(AgentStatus::Drifted),
            _ => None,
        }
    }
}

static IN_ENVIRONMENT: Index<AgentReport, Id<Environment>> =
    Index::non_unique("agent_reports.by_environment", |report| Some(report.environment));

/// Those that are not stale, by time.
static BY_TIME: Index<AgentReport, Time> = Index::non_unique("agent_reports.by_time", |report| {
    (!report.stale).then_some(report.reported_at)
});

static AGENT: Reference<AgentReport, Restricted<Agent>> = Reference::cascade(
    &["agent"],
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |report: &AgentReport, _| vec![report.agent.to_bytes()],
);

/// Deferred: thousands of agents may have reported from an environment.
static ENVIRONMENT: Reference<AgentReport, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |report: &AgentReport, _| vec![report.environment.to_bytes()],
)
.by(&IN_ENVIRONMENT)
.deferred();

impl Record for AgentReport {
    const TABLE: &'static str = "agent_reports";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&IN_ENVIRONMENT, &BY_TIME];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT, &ENVIRONMENT];
    const VERSION: u8 = 2;
    type Key = (Id<Agent>, Id<Environment>);
    fn key(&self) -> Self::Key {
        (self.agent, self.environment)
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        update_status(tx, self.agent)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// Returns what an agent reported last from an environment.
pub fn last_report(
    view: &View,
    agent: Id<Agent>,
    environment: Id<Environment>,
) -> Result<Option<AgentReport>> {
    view.get(&(agent, environment))
}

/// Replaces what an agent reported, and updates its status.
pub fn set_report(tx: &mut Tx, new: &AgentReport) -> Result<()> {
    let old = last_report(&tx.view(), new.agent, new.environment)?;
    tx.put(new)?;
    let before = old.and_then(|old| old.problem());
    if before == new.problem() { Ok(()) } else { update_status(tx, new.agent) }
}

/// Forgets what an agent reported about an earlier deployment: nothing is known yet about the one
/// that has just become live. It stays as silent as it was. Updates its status.
pub fn expect_report(tx: &mut Tx, agent: Id<Agent>, environment: Id<Environment>) -> Result<()> {
    if let Some(old) = last_report(&tx.view(), agent, environment)? {
        let (drifted, error, hash) = (false, None, None);
        tx.put(&AgentReport { drifted, error, hash, ..old })?;
    }
    update_status(tx, agent)
}

/// Sets the status of an agent in each environment, if it still exists.
fn update_status(tx: &mut Tx, agent: Id<Agent>) -> Result<()> {
    if !tx.view().has::<Restricted<Agent>>(&agent)? {
        return Ok(());
    }
    let live = tx.all(ListSource::<LiveDeployment>::TABLE, &agent)?;
    let reports = tx.all(ListSource::<AgentReport>::TABLE, &agent)?;
    let deployed = live.iter().map(|live| (live.environment, AgentStatus::Deployed));
    let problems = reports.iter().filter_map(|one| Some((one.environment, one.problem()?)));
    let places: BTreeMap<_, _> = deployed.chain(problems).collect();
    let place = |(environment, status)| PlaceStatus { environment, status };
    agents::set_statuses(tx, agent, places.into_iter().map(place).collect())
}

/// Finds out in which environments agents of an earlier version have which status.
pub(super) const FIND_PLACES: Sweep =
    Sweep { name: "statuses of agents", every_secs: 60, run: find_places, installation: false };

fn find_places(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let (agents, progress) = due(&tx.view(), &WITHOUT_PLACES, |_: &Restricted<Agent>| true)?;
    agents.iter().try_for_each(|agent| update_status(tx, agent.id()))?;
    Ok(progress)
}

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
    let old = last_report(&view, agent, environment)?;
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
        publish_report(tx, EventType::AgentDrifted, &new, &hashes)?;
    }
    let had_error = old.is_some_and(|old| old.error.is_some());
    if let Some(error) = new.error.as_ref().filter(|_| !had_error) {
        publish_report(tx, EventType::AgentError, &new, &[("error", json!(error))])?;
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
            publish_report(tx, EventType::AgentStale, &new, &at)?;
        }
    }
    Ok(progress)
}

/// Publishes an event about what an agent reported, with the ids of what is live there, if anything
/// is, and `more` in its payload.
fn publish_report(
    tx: &mut Tx,
    event: EventType,
    report: &AgentReport,
    more: &[(&str, Value)],
) -> Result<()> {
    let live = live(&tx.view(), report.agent, report.environment)?;
    let (deployment, job) = live.map(|live| (live.deployment, live.job)).unzip();
    let mut all = vec![("deploymentId", json!(deployment)), ("jobId", json!(job))];
    all.extend_from_slice(more);
    publish_agent(tx, event, (report.agent, report.environment), &all)
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
