//! What is live: runtimes fetch it, and wait until it changes.

use schemars::JsonSchema;
use serde::Deserialize;

use super::access;
use super::info::{DeploymentInfo, deployment_info};
use super::live::{Deployment, live, topic};
use crate::api::{ContentVersion, Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Result};
use crate::resources::agents;
use crate::resources::environments;
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

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

fn routes() -> Vec<Route> {
    vec![
        Route::get("/agents/{stableKey}/deployed", MEMBER, "agent.deployed", op::watch(get, look))
            .needs_for(ScopeName::DeploymentRead, &environments::NAMED_ENVIRONMENT)
            .about("Get an agent's live deployment, optionally awaiting a change"),
    ]
}
