//! Where an agent is: what is live in each environment, and what the agent says there
//! (reference: deployments, "Heartbeats").

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::access::Visible;
use super::live::{Deployment, LiveDeployment};
use super::reports::AgentReport;
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, Restricted, ScopeName, User};
use crate::base::{ArtifactName, Id, Result, Time, Version};
use crate::resources::agents;
use crate::resources::environments::Environment;
use crate::store::{ListSource, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers see ─────────────────────────────────────────────────────────

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

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists the environments of an agent, all on one page: an organization has at most 1,000.
pub(super) fn list(view: &View, req: &Req<String>) -> Result<Page<AgentPlace>> {
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

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/agents/{stableKey}/environments", MEMBER, "agent_place.list", op::list(list))
            .needs_listed(ScopeName::DeploymentRead)
            .about("List where an agent is live, and what it reports there"),
    ]
}
