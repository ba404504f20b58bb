//! Previews: what a deployment would do, without doing it.

use schemars::JsonSchema;
use serde::Serialize;

use super::access::Visible;
use super::changes::{Comparison, PreviewTarget};
use super::contents::ContentHash;
use super::freezing::{FrozenPlan, freeze};
use super::info::{DeploymentPlan, plan_info};
use super::live::{Deployment, live};
use super::plan::{NewDeployment, plan_agents};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::Result;
use crate::resources::environments;
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers see ─────────────────────────────────────────────────────────

/// What a deployment would do.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPreview {
    plan: DeploymentPlan,
    /// Hash of the plan. Sent with the deployment, it refuses any other plan.
    pub plan_hash: String,
    /// What would change for each agent.
    targets: Vec<PreviewTarget>,
}

impl Output for DeploymentPreview {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn preview(view: &View, req: &Req<(), NewDeployment>) -> Result<DeploymentPreview> {
    let plan = plan_agents(view, req.caller(), &req.input)?;
    let FrozenPlan { plan, approvals, delivery, hash } = freeze(view, req.caller(), plan)?;
    let text = |hash: &ContentHash| Ok(plan.contents.get(hash).to_string());
    let visible = Visible::to(view, req.caller())?;
    let mut comparison = Comparison::new(view, visible, Some(&delivery), text);
    let mut targets = Vec::new();
    for target in &plan.targets {
        if let Some(agent) = &target.agent {
            let old = live(view, agent.id, plan.environment.id)?;
            let old = old.map(|live| view.fetch::<Deployment>(&live.deployment)).transpose()?;
            targets.push(comparison.agent((target, agent), old)?);
        }
    }
    let planned: Vec<_> = plan.targets.iter().collect();
    Ok(DeploymentPreview {
        plan_hash: hash,
        plan: plan_info((&planned, &plan.tools), Some(&delivery), approvals, text)?,
        targets,
    })
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::post("/agents/deployments/preview", MEMBER, "deployment.preview", op::read(preview))
            .needs_for(ScopeName::DeploymentPreview, &environments::NAMED_ENVIRONMENT)
            .costly()
            .about("Preview a deployment without side effects"),
    ]
}
