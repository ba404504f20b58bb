//! What a deployment changes, beside what is live: texts, configurations, the definitions of tools,
//! where manifests go and what is filled into them. Previews show it of what is planned, and approvers
//! see it of a job.

use std::collections::BTreeSet;
use std::rc::Rc;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use super::access::{JOB_IN_PATH, Visible, fetch_job};
use super::contents::{self, ContentHash, DeployedTool, too_large};
use super::delivery::PlannedDelivery;
use super::info::{DeploymentPlan, plan_info};
use super::job::{DeploymentJob, TargetState};
use super::jobs::{FrozenPlan, freeze};
use super::live::{Deployment, live};
use super::plan::{NewDeployment, plan_agents};
use super::target::{DeploymentTarget, PlannedTarget, Subject, TargetAgent, targets};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::diff::{MAX_COMPARED_LINES, unified};
use crate::base::{Error, Id, Result, StableKey, VariableName, Version};
use crate::resources::agents::{AgentChange, AgentConfig, changes, changes_at};
use crate::resources::environments::{self, Environment};
use crate::resources::tools::{self, Tool};
use crate::store::{Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The values in the changes of an answer have at most 8 MiB, as the texts of a plan.
const MAX_CHANGED_BYTES: usize = 8 * 1024 * 1024;

// ── What callers see ─────────────────────────────────────────────────────────

/// What a deployment changes for an agent or tool.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PreviewTarget {
    /// The agent; null for a tool.
    stable_key: Option<StableKey>,
    /// The tool; null for an agent.
    tool_id: Option<Id<Tool>>,
    /// What is live of the agent, or was before the job was applied; null if nothing is that the
    /// caller may see.
    live: Option<PreviewLive>,
    /// Unified diff of the texts, from the live one, if the caller may see it, to the planned one.
    diff: String,
    /// Differences between the configurations, between the definitions of tools (`tools.NAME…`; of a
    /// tool that is new, the version) and between the deliveries (`delivery…`).
    changes: Vec<AgentChange>,
}

impl Output for PreviewTarget {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A live deployment that is replaced.
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

// ── Comparing ────────────────────────────────────────────────────────────────

/// Compares the targets of a plan with what is live.
pub struct Comparison<'a, F> {
    view: &'a View<'a>,
    delivery: Option<&'a PlannedDelivery>,
    /// Returns the contents of the plan.
    text: F,
    visible: Visible<'a>,
    /// The tools of the last target: most agents of a job have the same, and they may be large.
    last: Option<Rc<ComparedTools>>,
    lines: usize,
    bytes_left: usize,
}

/// The tools of a target beside those that are live.
struct ComparedTools {
    old: Vec<ContentHash>,
    new: Vec<ContentHash>,
    /// The names that are filled into the live ones.
    old_names: BTreeSet<VariableName>,
    /// The names that are filled into the planned ones.
    new_names: BTreeSet<VariableName>,
    changes: Vec<AgentChange>,
}

impl<'a, F: Fn(&ContentHash) -> Result<String>> Comparison<'a, F> {
    /// Creates one for a plan with this delivery, whose contents `text` returns.
    pub fn new(
        view: &'a View<'a>,
        visible: Visible<'a>,
        delivery: Option<&'a PlannedDelivery>,
        text: F,
    ) -> Self {
        let (lines, bytes_left) = (MAX_COMPARED_LINES, MAX_CHANGED_BYTES);
        Comparison { view, delivery, text, visible, last: None, lines, bytes_left }
    }

    /// Compares an agent's target with a deployment of it.
    ///
    /// # Errors
    /// 413 if the changes of all targets are too large together.
    pub fn agent(
        &mut self,
        (target, agent): (&PlannedTarget, &TargetAgent),
        old: Option<Deployment>,
    ) -> Result<PreviewTarget> {
        // A grant for what it deploys lets nobody read what it replaces.
        let old = old.filter(|old| self.visible.has_deployment(old));
        let (old_text, old_config) = match &old {
            Some(old) => {
                let text = contents::text(self.view, old.job, &old.text)?;
                (text, contents::json(self.view, old.job, &old.config)?)
            }
            None => (String::new(), AgentConfig::default()),
        };
        let new_config: AgentConfig = self.json(&target.config)?;
        let new_text = target.text.as_ref().map(&self.text).transpose()?.unwrap_or_default();
        let mut changes = changes(&old_config, &new_config)?;
        let tools = self.compare_tools(target, old.as_ref())?;
        changes.extend(tools.changes.iter().cloned());
        let planned = match self.delivery {
            Some(delivery) => delivery.comparable(&tools.new_names, &self.text)?,
            None => Value::Null,
        };
        let before = self.delivery_of(old.as_ref(), &tools.old_names)?;
        changes.extend(changes_at("delivery", &before, &planned));
        self.spend(&changes)?;
        let from = old.as_ref().map_or("nothing", |old| old.version.as_str());
        Ok(PreviewTarget {
            stable_key: Some(agent.stable_key.clone()),
            tool_id: None,
            diff: unified(&old_text, &new_text, (from, &target.version), &mut self.lines),
            changes,
            live: old.map(|old| PreviewLive {
                deployment_id: old.id,
                prompt_name: old.prompt_name.to_string(),
                version: old.version,
                hash: old.hash,
            }),
        })
    }

    /// Compares a tool's target with a version of the tool.
    fn tool(
        &mut self,
        (target, id): (&PlannedTarget, Id<Tool>),
        old: Option<Version>,
    ) -> Result<PreviewTarget> {
        let old = match old {
            Some(version) => tools::version(self.view, id, &version)?,
            None => None,
        };
        let old = old.map(|old| DeployedTool::new(id, old)).into_iter().collect();
        let changes = tool_changes(old, &self.tools(target)?)?;
        self.spend(&changes)?;
        let (diff, tool_id) = (String::new(), Some(id));
        Ok(PreviewTarget { stable_key: None, tool_id, live: None, diff, changes })
    }

    fn json<T: serde::de::DeserializeOwned>(&self, hash: &ContentHash) -> Result<T> {
        contents::parse(&(self.text)(hash)?)
    }

    /// Compares the tools of a target with those of a deployment.
    fn compare_tools(
        &mut self,
        target: &PlannedTarget,
        old: Option<&Deployment>,
    ) -> Result<Rc<ComparedTools>> {
        let before = old.map_or(&[][..], |old| old.tools.as_slice());
        if let Some(last) = &self.last
            && last.new == target.tools
            && last.old == before
        {
            return Ok(last.clone());
        }
        let (old_tools, new_tools) = (self.tools_of(old)?, self.tools(target)?);
        let compared = Rc::new(ComparedTools {
            old: before.to_vec(),
            new: target.tools.clone(),
            old_names: names(&old_tools),
            new_names: names(&new_tools),
            changes: tool_changes(old_tools, &new_tools)?,
        });
        self.last = Some(compared.clone());
        Ok(compared)
    }

    fn tools(&self, target: &PlannedTarget) -> Result<Vec<DeployedTool>> {
        target.tools.iter().map(|hash| self.json(hash)).collect()
    }

    fn tools_of(&self, deployment: Option<&Deployment>) -> Result<Vec<DeployedTool>> {
        let Some(deployment) = deployment else { return Ok(Vec::new()) };
        let tool = |hash| contents::json(self.view, deployment.job, hash);
        deployment.tools.iter().map(tool).collect()
    }

    /// What a deployment's job said of its delivery, as far as it concerns these names.
    fn delivery_of(
        &self,
        deployment: Option<&Deployment>,
        names: &BTreeSet<VariableName>,
    ) -> Result<Value> {
        let Some(deployment) = deployment else { return Ok(Value::Null) };
        let job = self.view.get::<DeploymentJob>(&deployment.job)?;
        match job.and_then(|job| job.delivery) {
            Some(delivery) => {
                delivery.comparable(names, |hash| contents::text(self.view, deployment.job, hash))
            }
            None => Ok(Value::Null),
        }
    }

    fn spend(&mut self, changes: &[AgentChange]) -> Result<()> {
        let bytes = changes.iter().map(AgentChange::bytes).sum();
        self.bytes_left = self.bytes_left.checked_sub(bytes).ok_or_else(too_large)?;
        Ok(())
    }
}

/// The names that are filled into these tools.
fn names(tools: &[DeployedTool]) -> BTreeSet<VariableName> {
    tools.iter().flat_map(DeployedTool::placeholders).collect()
}

/// Returns the differences between the definitions of tools. Of one that is new or gone, that is its
/// version: its definition is in the plan.
fn tool_changes(mut old: Vec<DeployedTool>, new: &[DeployedTool]) -> Result<Vec<AgentChange>> {
    let mut all = Vec::new();
    for tool in new {
        let path = format!("tools.{}", tool.name);
        match old.iter().position(|old| old.tool_id == tool.tool_id) {
            Some(at) => {
                let old = old.remove(at);
                all.extend(changes_at(&path, &definition(&old)?, &definition(tool)?));
            }
            None => all.extend(changes_at(&path, &Value::Null, &json!(tool.version))),
        }
    }
    for gone in old {
        let path = format!("tools.{}", gone.name);
        all.extend(changes_at(&path, &json!(gone.version), &Value::Null));
    }
    Ok(all)
}

fn definition(tool: &DeployedTool) -> Result<Value> {
    let value = serde_json::to_value(tool);
    value.map_err(|e| Error::internal(format!("a tool cannot be written: {e}")))
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists what a job changes, target by target, all on one page.
pub(super) fn list(view: &View, req: &Req<Id<DeploymentJob>>) -> Result<Page<PreviewTarget>> {
    let job = fetch_job(view, req.caller(), req.params)?;
    let text = |hash: &ContentHash| contents::text(view, job.id, hash);
    let visible = Visible::to(view, req.caller())?;
    let mut comparison = Comparison::new(view, visible, job.delivery.as_ref(), text);
    let mut compared = Vec::new();
    for target in &targets(view, job.id)? {
        compared.push(match target.planned.subject() {
            Subject::Agent(agent) => {
                let old = before_agent(view, target, agent, job.environment)?;
                comparison.agent((&target.planned, agent), old)?
            }
            Subject::Tool(tool) => {
                let old = if target.state == TargetState::Applied {
                    target.replaced.clone()
                } else {
                    environments::tool_version(view, job.environment, tool.cast())?
                };
                comparison.tool((&target.planned, tool), old)?
            }
        });
    }
    Ok(Page::single(compared))
}

/// What was live of an agent before a target was applied, or is as long as it is not.
fn before_agent(
    view: &View,
    target: &DeploymentTarget,
    agent: &TargetAgent,
    environment: Id<Environment>,
) -> Result<Option<Deployment>> {
    let before = match target.deployment {
        Some(applied) => view.fetch::<Deployment>(&applied)?.previous,
        None => live(view, agent.id, environment)?.map(|live| live.deployment),
    };
    before.map(|id| view.fetch(&id)).transpose()
}

pub(super) fn preview(view: &View, req: &Req<(), NewDeployment>) -> Result<DeploymentPreview> {
    let plan = plan_agents(view, req.caller(), &req.input)?;
    let FrozenPlan { plan, approvals, delivery, hash } = freeze(view, req.caller(), plan)?;
    let text = |hash: &ContentHash| Ok(plan.contents.get(hash).to_string());
    let visible = Visible::to(view, req.caller())?;
    let mut comparison = Comparison::new(view, visible, Some(&delivery), text);
    let mut targets = Vec::new();
    for target in &plan.targets {
        if let Some(agent) = target.agent() {
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
        Route::get(
            "/agents/deployments/{jobId}/changes",
            MEMBER,
            "deployment_change.list",
            op::list(list),
        )
        .needs_for(ScopeName::DeploymentRead, &JOB_IN_PATH)
        .costly()
        .about("List what a deployment job changes"),
        Route::post("/agents/deployments/preview", MEMBER, "deployment.preview", op::read(preview))
            .needs_for(ScopeName::DeploymentPreview, &environments::NAMED_ENVIRONMENT)
            .costly()
            .about("Preview a deployment without side effects"),
    ]
}
