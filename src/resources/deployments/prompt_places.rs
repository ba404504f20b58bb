//! Where a prompt is: the agents and environments in which a version of it is live.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::Visible;
use super::live::{self, Deployment, LiveDeployment};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{SESSION_MEMBER, User};
use crate::base::{Id, Result, StableKey, Time, Version};
use crate::resources::artifacts::ArtifactId;
use crate::resources::environments::Environment;
use crate::resources::registries;
use crate::store::{Order, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

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
pub(super) fn list(view: &View, req: &Req<(), LivePromptQuery>) -> Result<Page<LivePrompt>> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    let prompt = ArtifactId::parse(&registry, None, &req.input.prompt_name)?;
    let visible = Visible::to(view, req.caller())?;
    let keep = |live: &LiveDeployment| visible.has_live(live);
    view.page_map(&live::USES, &prompt, Order::Descending, &req.page, keep, info)
}

fn info(view: &View, live: LiveDeployment) -> Result<LivePrompt> {
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

fn routes() -> Vec<Route> {
    vec![
        Route::get("/deployments/live", SESSION_MEMBER, "live_deployment.list", op::list(list))
            .about("List where a prompt is live"),
    ]
}
