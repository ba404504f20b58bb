//! What is live: runtimes fetch it, and wait until it changes; and where an agent or a prompt is.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{self, Visible};
use super::heartbeats::AgentReport;
use super::info::{DeploymentInfo, deployment_info};
use super::live::{self, Deployment, LiveDeployment, live, topic};
use crate::api::{ContentVersion, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, Restricted, SESSION_MEMBER, ScopeName, User};
use crate::base::{ArtifactName, Error, Id, Result, StableKey, Time, Version};
use crate::resources::agents;
use crate::resources::artifacts::ArtifactId;
use crate::resources::environments::{self, Environment};
use crate::resources::registries;
use crate::store::{ListSource, Order, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── For runtimes ─────────────────────────────────────────────────────────────

/// The environment that a runtime is in.
#[derive(Deserialize, JsonSchema)]
pub struct DeployedQuery {
    /// The environment, by id or slug.
    environment: String,
}

impl Input for DeployedQuery {}

fn find(view: &View, req: &Req<String, DeployedQuery>) -> Result<Deployment> {
    let agent = agents::fetch(view, req.caller(), &req.params)?;
    let environment = access::find_environment(view, &req.input.environment)?;
    let live = live(view, agent.id, environment.id())?;
    let Some(live) = live else {
        environment.open(view, req.caller())?;
        return Err(Error::no_such("deployment of the agent in this environment"));
    };
    let deployment: Deployment = view.fetch(&live.deployment)?;
    access::require(view, req.caller(), deployment.environment, &[deployment.registry], &[])?;
    Ok(deployment)
}

pub(super) fn get(view: &View, req: &Req<String, DeployedQuery>) -> Result<DeploymentInfo> {
    deployment_info(view, find(view, req)?, true)
}

/// A deployment never changes, and what this route returns is always live: the answer is the same as
/// long as the same deployment is.
pub(super) fn look(view: &View, req: &Req<String, DeployedQuery>) -> Result<ContentVersion> {
    let deployment = find(view, req)?;
    let topic = topic(deployment.agent, deployment.environment);
    Ok(ContentVersion { topic, version: deployment.id.uuid() })
}

// ── Where an agent is ────────────────────────────────────────────────────────

/// An environment in which something of an agent is live, or from which it has reported.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPlace {
    environment_id: Id<Environment>,
    /// What is live; null if nothing is.
    live: Option<PlaceDeployment>,
    /// Its last heartbeat; null if there was none.
    report: Option<PlaceReport>,
}

impl Output for AgentPlace {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A live deployment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaceDeployment {
    deployment_id: Id<Deployment>,
    /// `<orgSlug>/<registrySlug>` of the registry of its prompt.
    registry_ref: String,
    /// The name of its prompt.
    prompt_name: ArtifactName,
    /// The version of its prompt.
    version: Version,
    /// Hash of what was deployed, which heartbeats should name.
    hash: String,
    /// The user who created its job.
    deployed_by: Id<User>,
    /// When it was applied.
    deployed_at: Time,
}

/// The last heartbeat of an agent from an environment.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlaceReport {
    /// The time of the heartbeat, or of a later deployment.
    reported_at: Time,
    /// The hash of what it runs; null until it has reported since the newest deployment.
    hash: Option<String>,
    /// Whether it runs something other than what is live.
    drifted: bool,
    /// Whether it has been silent for too long.
    stale: bool,
    /// What is wrong with it, in its own words.
    error: Option<String>,
}

/// Lists the environments of an agent, all on one page: an organization has at most 1,000.
pub(super) fn places(view: &View, req: &Req<String>) -> Result<Page<AgentPlace>> {
    let agent = agents::fetch(view, req.caller(), &req.params)?;
    let visible = Visible::to(view, req.caller())?;
    let live: Vec<LiveDeployment> = view.all(ListSource::TABLE, &agent.id)?;
    let reports: Vec<AgentReport> = view.all(ListSource::TABLE, &agent.id)?;
    let of_live = live.iter().map(|live| live.environment);
    let all: BTreeSet<_> = of_live.chain(reports.iter().map(|report| report.environment)).collect();
    let mut places = Vec::new();
    for environment_id in all {
        // Reports from a deleted environment are removed in steps.
        let exists = view.has::<Restricted<Environment>>(&environment_id)?;
        if !exists || !visible.has_environment(environment_id) {
            continue;
        }
        let live = live.iter().find(|live| live.environment == environment_id);
        let live = live.map(|live| view.fetch::<Deployment>(&live.deployment)).transpose()?;
        let live = live.filter(|live| visible.has_deployment(live)).map(deployment);
        let report = reports.iter().find(|report| report.environment == environment_id);
        places.push(AgentPlace { environment_id, live, report: report.cloned().map(heartbeat) });
    }
    Ok(Page::single(places))
}

fn deployment(live: Deployment) -> PlaceDeployment {
    let Deployment { id, registry_ref, prompt_name, version, hash, .. } = live;
    let Deployment { deployed_by, deployed_at, .. } = live;
    PlaceDeployment {
        deployment_id: id,
        registry_ref,
        prompt_name,
        version,
        hash,
        deployed_by,
        deployed_at,
    }
}

fn heartbeat(report: AgentReport) -> PlaceReport {
    let AgentReport { reported_at, hash, drifted, stale, error, .. } = report;
    PlaceReport { reported_at, hash, drifted, stale, error }
}

// ── Where a prompt is ────────────────────────────────────────────────────────

/// The prompt.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LivePromptQuery {
    /// The registry: `<orgSlug>/<registrySlug>` or its id.
    registry_ref: String,
    /// The prompt.
    prompt_name: String,
}

impl Input for LivePromptQuery {}

/// An agent and an environment in which a version of a prompt is live.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LivePrompt {
    deployment_id: Id<Deployment>,
    /// The agent.
    stable_key: StableKey,
    environment_id: Id<Environment>,
    /// The version of the prompt.
    version: Version,
    /// The user who created the job.
    deployed_by: Id<User>,
    /// When it became live.
    deployed_at: Time,
}

impl Output for LivePrompt {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Lists where a prompt is live, the highest version first.
pub(super) fn live_prompts(
    view: &View,
    req: &Req<(), LivePromptQuery>,
) -> Result<Page<LivePrompt>> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    let prompt = ArtifactId::parse(&registry, None, &req.input.prompt_name)?;
    let visible = Visible::to(view, req.caller())?;
    let keep = |live: &LiveDeployment| visible.has_live(live);
    view.page_map(&live::USES, &prompt, Order::Descending, &req.page, keep, live_prompt)
}

fn live_prompt(view: &View, live: LiveDeployment) -> Result<LivePrompt> {
    let deployment: Deployment = view.fetch(&live.deployment)?;
    Ok(LivePrompt {
        deployment_id: deployment.id,
        stable_key: deployment.stable_key,
        environment_id: deployment.environment,
        version: deployment.version,
        deployed_by: deployment.deployed_by,
        deployed_at: deployment.deployed_at,
    })
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/agents/{stableKey}/deployed", MEMBER, "agent.deployed", op::watch(get, look))
            .needs_for(ScopeName::DeploymentRead, &environments::NAMED_ENVIRONMENT)
            .about("Get an agent's live deployment, optionally awaiting a change"),
        Route::get(
            "/agents/{stableKey}/environments",
            MEMBER,
            "agent_place.list",
            op::list(places),
        )
        .needs_listed(ScopeName::DeploymentRead)
        .about("List where an agent is live, and what it reports there"),
        Route::get(
            "/deployments/live",
            SESSION_MEMBER,
            "live_deployment.list",
            op::list(live_prompts),
        )
        .about("List where a prompt is live"),
    ]
}
