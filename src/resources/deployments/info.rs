//! Jobs and deployments as the API returns them. Their texts and configurations are read from the
//! contents of the job.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;

use super::access::outdated;
use super::contents::{self, ContentHash, DeployedTool};
use super::delivery::{self, PlanDelivery, PlannedDelivery};
use super::job::{DeploymentJob, JobKind, JobState, PlannedTool, TargetState};
use super::live::{self, Deployment};
use super::target::{DeploymentTarget, PlannedTarget, targets};
use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{
    ArtifactName, Email, Error, Id, JsonMap, Name, Prompt, Result, StableKey, Time, VariableName,
    Version, visible,
};
use crate::resources::agents::{Agent, AgentConfig, Model, Provider};
use crate::resources::approvals::ApprovalPolicy;
use crate::resources::environments::Environment;
use crate::resources::tools::{Tool, ToolKind};
use crate::store::View;

// ── Jobs ─────────────────────────────────────────────────────────────────────

/// A deployment of agents or tools to an environment: its plan and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeploymentJob")]
pub struct JobInfo {
    /// Identifier of the job.
    pub id: Id<DeploymentJob>,
    kind: JobKind,
    /// State of the job.
    pub state: JobState,
    environment_id: Id<Environment>,
    /// The registry, if it is the same for all targets.
    registry_ref: Option<String>,
    /// The prompt, if it is the same for all targets.
    prompt_name: Option<String>,
    /// The version of the prompt, or of the tools, if it is the same for all targets.
    version: Option<Version>,
    /// The provider of the model; null for tools.
    provider: Option<Provider>,
    /// The model, if it is the same for all targets.
    model: Option<String>,
    plan: DeploymentPlan,
    /// Hash of the plan, which an approval may name.
    pub plan_hash: String,
    /// What it deploys to, in the order of the request, with their progress.
    targets: Vec<TargetInfo>,
    /// The user who created it, also through a key.
    created_by: Id<User>,
    created_at: Time,
    updated_at: Time,
    /// When it reached its final state.
    finished_at: Option<Time>,
    /// Why it is not applied any more, though it waits or runs; null otherwise.
    obstacle: Option<String>,
    /// The approver for whom a key decided in this request, for the audit log.
    #[serde(skip)]
    pub decided_for: Option<Email>,
}

impl Output for JobInfo {
    fn resource(&self) -> Option<ResourceRef> {
        let job = ResourceRef::of("deployment", self.id)?;
        Some(match &self.decided_for {
            Some(approver) => job.with_detail(format!("for {approver}")),
            None => job,
        })
    }
}

/// The frozen plan of a job: what approvers see is what is applied.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentPlan {
    /// What each target gets.
    pub targets: Vec<PlanTarget>,
    /// The tools of all targets, with their definitions.
    pub tools: Vec<PlanTool>,
    /// Where manifests are posted and what is filled into them; null if runtimes fetch them, or if an
    /// earlier release planned it.
    pub delivery: Option<PlanDelivery>,
    /// Who must approve the job; null if it needs no approval.
    pub approvals: Option<ApprovalPolicy>,
    /// How many characters of its texts a reader would not see, such as tags and blanks of no width.
    invisible_characters: usize,
}

impl DeploymentPlan {
    /// Puts a plan together, and counts what nobody would see in what it shows.
    ///
    /// # Errors
    /// 500 if a part cannot be serialized.
    pub fn new(
        targets: Vec<PlanTarget>,
        tools: Vec<PlanTool>,
        delivery: Option<PlanDelivery>,
        approvals: Option<ApprovalPolicy>,
    ) -> Result<Self> {
        let mut invisible_characters = invisible_in(&delivery)?;
        // One at a time: they are large.
        for target in &targets {
            invisible_characters += invisible_in(target)?;
        }
        for tool in &tools {
            invisible_characters += invisible_in(tool)?;
        }
        Ok(DeploymentPlan { targets, tools, delivery, approvals, invisible_characters })
    }
}

fn invisible_in(part: &impl Serialize) -> Result<usize> {
    let value = serde_json::to_value(part)
        .map_err(|e| Error::internal(format!("a plan cannot be shown: {e}")))?;
    Ok(visible::count_in(&value))
}

/// A target in a plan.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanTarget {
    /// The agent; null for a tool.
    stable_key: Option<StableKey>,
    /// The tool; null for an agent.
    tool_id: Option<Id<Tool>>,
    /// The version of the prompt or tool.
    version: Version,
    /// The text with its imports and values; null for a tool.
    compiled: Option<String>,
    /// The configuration in force; secrets are only named.
    config: JsonMap,
    /// Hash of what the target gets.
    hash: String,
}

/// A tool in a plan, as agents get it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanTool {
    tool_id: Id<Tool>,
    name: Name,
    /// The version that is deployed.
    version: Version,
    /// Its type; null if an earlier release planned it without the definition.
    #[serde(rename = "type")]
    kind: Option<ToolKind>,
    /// Instructions for agents that use it.
    prompt: Option<Prompt>,
    /// Its definition per provider; null if an earlier release planned it without.
    provider_config: Option<JsonMap>,
    /// The names in it that secrets and variables of the environment are filled in for.
    placeholders: Vec<VariableName>,
    /// What looks like a mistake in its configuration: what is nearly a placeholder, and `${DOLLAR}`
    /// where the environment has another value for it. At most 20.
    warnings: Vec<String>,
}

/// A target of a job, and its progress.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "DeploymentTarget")]
pub struct TargetInfo {
    /// The agent; null for a tool.
    agent_id: Option<Id<Agent>>,
    stable_key: Option<StableKey>,
    /// The tool; null for an agent.
    tool_id: Option<Id<Tool>>,
    state: TargetState,
    /// The deployment that was recorded.
    deployment_id: Option<Id<Deployment>>,
    /// Why it failed or was skipped.
    error: Option<String>,
}

/// Returns the representation of a job.
pub fn job_info(view: &View, job: DeploymentJob) -> Result<JobInfo> {
    let targets = targets(view, job.id)?;
    let text = |hash: &ContentHash| contents::text(view, job.id, hash);
    let planned: Vec<_> = targets.iter().map(|target| &target.planned).collect();
    let plan =
        plan_info((&planned, &job.tools), job.delivery.as_ref(), job.approvals.clone(), text)?;
    Ok(JobInfo {
        obstacle: outdated(view, &job)?,
        id: job.id,
        kind: job.kind,
        state: job.state,
        environment_id: job.environment,
        registry_ref: job.prompt.registry_ref,
        prompt_name: job.prompt.name,
        version: job.prompt.version,
        provider: job.provider,
        model: job.prompt.model,
        plan,
        plan_hash: job.plan_hash,
        targets: targets.into_iter().map(target_info).collect(),
        created_by: job.created_by,
        created_at: job.created_at,
        updated_at: job.updated_at,
        finished_at: job.finished_at,
        decided_for: None,
    })
}

/// Returns the representation of a plan with these targets and tools, whose contents `text` returns.
///
/// # Errors
/// Those of `text`; 500 if a configuration is not JSON.
pub fn plan_info(
    (targets, tools): (&[&PlannedTarget], &[PlannedTool]),
    delivery: Option<&PlannedDelivery>,
    approvals: Option<ApprovalPolicy>,
    text: impl Fn(&ContentHash) -> Result<String>,
) -> Result<DeploymentPlan> {
    let shown = targets.iter().map(|target| plan_target(target, &text)).collect::<Result<_>>()?;
    let is_other = |name: &str| delivery::is_filled_otherwise(delivery, name);
    let tools = plan_tools(targets, tools, &text, is_other)?;
    let delivery = match delivery {
        Some(delivery) => delivery.info(&text)?,
        None => None,
    };
    DeploymentPlan::new(shown, tools, delivery, approvals)
}

fn plan_target(
    planned: &PlannedTarget,
    text: impl Fn(&ContentHash) -> Result<String>,
) -> Result<PlanTarget> {
    Ok(PlanTarget {
        stable_key: planned.agent().map(|agent| agent.stable_key.clone()),
        tool_id: planned.tool(),
        version: planned.version.clone(),
        compiled: planned.text.as_ref().map(&text).transpose()?,
        config: contents::parse(&text(&planned.config)?)?,
        hash: planned.hash.clone(),
    })
}

/// Returns every definition that the targets have, each once.
fn plan_tools(
    targets: &[&PlannedTarget],
    tools: &[PlannedTool],
    text: impl Fn(&ContentHash) -> Result<String>,
    is_other: impl Fn(&str) -> bool,
) -> Result<Vec<PlanTool>> {
    let (mut shown, mut seen) = (Vec::new(), BTreeSet::new());
    for hash in targets.iter().flat_map(|target| &target.tools) {
        if !seen.insert(hash) {
            continue;
        }
        let tool: DeployedTool = contents::parse(&text(hash)?)?;
        let placeholders = tool.placeholders().into_iter().collect();
        let warnings = tool.warnings(&is_other);
        let DeployedTool { tool_id, name, version, kind, prompt, provider_config } = tool;
        shown.push(PlanTool {
            tool_id,
            name,
            version,
            kind: Some(kind),
            prompt,
            provider_config: Some(provider_config),
            placeholders,
            warnings,
        });
    }
    let is_shown = |tool: &PlannedTool| {
        shown.iter().any(|one| one.tool_id == tool.tool && one.version == tool.version)
    };
    // Tools jobs of early releases have no definitions.
    let bare: Vec<_> = tools.iter().filter(|tool| !is_shown(tool)).cloned().collect();
    shown.extend(bare.into_iter().map(|PlannedTool { tool, name, version }| PlanTool {
        tool_id: tool,
        name,
        version,
        kind: None,
        prompt: None,
        provider_config: None,
        placeholders: Vec::new(),
        warnings: Vec::new(),
    }));
    Ok(shown)
}

fn target_info(target: DeploymentTarget) -> TargetInfo {
    let agent = target.planned.agent();
    let (agent_id, stable_key) = agent.map(|agent| (agent.id, agent.stable_key.clone())).unzip();
    TargetInfo {
        agent_id,
        stable_key,
        tool_id: target.planned.tool(),
        state: target.state,
        deployment_id: target.deployment,
        error: target.error,
    }
}

// ── Deployments ──────────────────────────────────────────────────────────────

/// A deployment of an agent to an environment, as it was applied.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Deployment")]
pub struct DeploymentInfo {
    /// Identifier of the deployment.
    pub id: Id<Deployment>,
    job_id: Id<DeploymentJob>,
    agent_id: Id<Agent>,
    stable_key: StableKey,
    environment_id: Id<Environment>,
    registry_ref: String,
    prompt_name: ArtifactName,
    version: Version,
    provider: Provider,
    model: Model,
    /// The text with its imports and values.
    compiled: String,
    /// The configuration in force.
    config: AgentConfig,
    /// The definitions of the agent's tools.
    pub tools: Vec<DeployedTool>,
    /// Hash of what was deployed, which a heartbeat names.
    pub hash: String,
    /// Whether it is the agent's newest deployment in the environment.
    pub live: bool,
    /// The user who created the job.
    deployed_by: Id<User>,
    /// When it was applied.
    deployed_at: Time,
}

impl Output for DeploymentInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Returns the representation of a deployment.
pub fn deployment_info(
    view: &View,
    deployment: Deployment,
    is_live: bool,
) -> Result<DeploymentInfo> {
    let job = deployment.job;
    let tool = |hash: &ContentHash| contents::json(view, job, hash);
    Ok(DeploymentInfo {
        compiled: contents::text(view, job, &deployment.text)?,
        config: contents::json(view, job, &deployment.config)?,
        tools: deployment.tools.iter().map(tool).collect::<Result<_>>()?,
        id: deployment.id,
        job_id: job,
        agent_id: deployment.agent,
        stable_key: deployment.stable_key,
        environment_id: deployment.environment,
        registry_ref: deployment.registry_ref,
        prompt_name: deployment.prompt_name,
        version: deployment.version,
        provider: deployment.provider,
        model: deployment.model,
        hash: deployment.hash,
        live: is_live,
        deployed_by: deployment.deployed_by,
        deployed_at: deployment.deployed_at,
    })
}

/// Returns the representation of a stored deployment.
pub fn stored_deployment_info(view: &View, deployment: Deployment) -> Result<DeploymentInfo> {
    let is_live = live::is_live(view, &deployment)?;
    deployment_info(view, deployment, is_live)
}
