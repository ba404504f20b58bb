//! Previews: what a deployment would do, without doing it.

use schemars::JsonSchema;
use serde::Serialize;

use super::access::Visible;
use super::contents::{self, ContentHash};
use super::info::{DeploymentPlan, plan_target, plan_tool};
use super::live::{Deployment, live};
use super::plan::{NewDeployment, Plan, plan_agents};
use super::submit::{check_signing_key, frozen_approvals, plan_hash};
use super::target::{PlannedTarget, TargetAgent};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Id, Result, StableKey, Version};
use crate::resources::agents::{AgentChange, AgentConfig, changes};
use crate::resources::artifacts::{MAX_COMPARED_LINES, unified};
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

/// What a deployment would change for an agent.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewTarget {
    stable_key: StableKey,
    /// What is live now; null if nothing is that the caller may see.
    live: Option<PreviewLive>,
    /// Unified diff of the texts, from the live one, if the caller may see it, to the planned one.
    diff: String,
    /// Differences between the configurations.
    changes: Vec<AgentChange>,
}

/// A live deployment that would be replaced.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewLive {
    deployment_id: Id<Deployment>,
    /// The name of its prompt.
    prompt_name: String,
    /// The version of its prompt.
    version: Version,
    /// Hash of what was deployed.
    hash: String,
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn preview(view: &View, req: &Req<(), NewDeployment>) -> Result<DeploymentPreview> {
    let plan = plan_agents(view, req.caller(), &req.input)?;
    check_signing_key(view, &plan)?;
    let approvals = frozen_approvals(&plan.environment, req.caller())?;
    let text = |hash: &ContentHash| Ok(plan.contents.get(hash).to_string());
    let planned = plan.targets.iter().map(|target| plan_target(target, text));
    let visible = Visible::to(view, req.caller())?;
    let mut lines = MAX_COMPARED_LINES;
    let mut targets = Vec::new();
    for target in &plan.targets {
        if let Some(agent) = &target.agent {
            let old = match live(view, agent.id, plan.environment.id)? {
                Some(live) => Some(view.fetch::<Deployment>(&live.deployment)?),
                None => None,
            };
            // A grant for what it deploys lets nobody read what it replaces.
            let old = old.filter(|old| visible.has_deployment(old));
            targets.push(compare(view, &plan, (target, agent), old, &mut lines)?);
        }
    }
    Ok(DeploymentPreview {
        plan_hash: plan_hash(&plan, approvals.as_ref()),
        plan: DeploymentPlan::new(
            planned.collect::<Result<_>>()?,
            plan.tools.iter().cloned().map(plan_tool).collect(),
            approvals,
        )?,
        targets,
    })
}

fn compare(
    view: &View,
    plan: &Plan,
    (target, agent): (&PlannedTarget, &TargetAgent),
    old: Option<Deployment>,
    lines: &mut usize,
) -> Result<PreviewTarget> {
    let (old_text, old_config) = match &old {
        Some(old) => {
            let text = contents::text(view, old.job, &old.text)?;
            (text, contents::json(view, old.job, &old.config)?)
        }
        None => (String::new(), AgentConfig::default()),
    };
    let new_config: AgentConfig = serde_json::from_str(plan.contents.get(&target.config))
        .map_err(|e| Error::internal(format!("a configuration cannot be read: {e}")))?;
    let new_text = target.text.as_ref().map_or("", |hash| plan.contents.get(hash));
    let from = old.as_ref().map_or("nothing", |old| old.version.as_str());
    Ok(PreviewTarget {
        stable_key: agent.stable_key.clone(),
        diff: unified(&old_text, new_text, (from, &target.version), lines),
        changes: changes(&old_config, &new_config)?,
        live: old.map(|old| PreviewLive {
            deployment_id: old.id,
            prompt_name: old.prompt_name.to_string(),
            version: old.version,
            hash: old.hash,
        }),
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
