//! Applying a target: the record of the deployment, which becomes live, or the moved reference of an
//! environment to a tool.

use serde_json::json;

use super::contents::Contents;
use super::deployed_tool::DeployedTool;
use super::events;
use super::job::{DeploymentJob, Push};
use super::live::{self, Deployment, LiveDeployment, UsedVersion};
use super::reports;
use super::state::TargetState;
use super::target::{DeploymentTarget, TargetAgent};
use crate::api::Resource;
use crate::auth::Restricted;
use crate::base::{Error, Id, Kind, Result, Version};
use crate::outbox::EventType;
use crate::resources::agents::Agent;
use crate::resources::artifacts::{ArtifactId, VersionRecord, numbers};
use crate::resources::environments;
use crate::resources::registries::{self, ArtifactType};
use crate::resources::tools::{self, Tool};
use crate::store::{ListSource, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { events: &[EventType::AgentError], ..Resource::EMPTY };

/// Applies a target; it has failed afterwards if that is not possible.
pub fn apply(
    tx: &mut Tx,
    job: &DeploymentJob,
    target: &DeploymentTarget,
    pushed: Option<&Push>,
) -> Result<()> {
    match (&target.planned.agent, target.planned.tool) {
        (Some(agent), _) => apply_agent(tx, job, target, agent, pushed),
        (None, Some(tool)) => match move_tool(tx, target, tool) {
            Ok(replaced) => {
                let target = DeploymentTarget { replaced, ..target.clone() };
                finish(tx, &target, TargetState::Applied, None)
            }
            Err(error) if error.kind() == Kind::Conflict => fail(tx, job, target, error.message()),
            Err(error) => Err(error),
        },
        (None, None) => Err(Error::internal("a target is neither an agent nor a tool")),
    }
}

/// Moves the environment's reference to a tool; returns the version that it had before.
fn move_tool(tx: &mut Tx, target: &DeploymentTarget, tool: Id<Tool>) -> Result<Option<Version>> {
    let version = &target.planned.version;
    let Some(now) = tools::version(&tx.view(), tool, version)? else {
        return Err(Error::conflict("tool_deleted", "the tool has been deleted"));
    };
    let (now, _) = Contents::default().add_json(&DeployedTool::new(tool, now))?;
    // Plans of earlier releases have no definitions.
    if target.planned.tools.first().is_some_and(|planned| *planned != now) {
        return Err(Error::conflict(
            "tool_changed",
            "the tool has been changed since this was planned; deploy it again",
        ));
    }
    let replaced = environments::tool_version(&tx.view(), target.environment, tool.cast())?;
    environments::add_tool_reference(tx, target.environment, tool.cast(), version)?;
    Ok(replaced)
}

fn apply_agent(
    tx: &mut Tx,
    job: &DeploymentJob,
    target: &DeploymentTarget,
    to: &TargetAgent,
    pushed: Option<&Push>,
) -> Result<()> {
    if tx.get::<Restricted<Agent>>(&to.id)?.is_none() {
        return fail(tx, job, target, "the agent has been deleted");
    }
    let old = live::live(&tx.view(), to.id, job.environment)?;
    let deployment = deployment(
        job,
        target,
        to,
        match pushed {
            Some(push) => push.clone(),
            None => Push { id: tx.new_id(), at: tx.now(), tries: 0 },
        },
    )?;
    let deployment = Deployment { previous: old.map(|old| old.deployment), ..deployment };
    tx.insert(&deployment)?;
    let live = LiveDeployment {
        agent: to.id,
        environment: job.environment,
        deployment: deployment.id,
        job: job.id,
        hash: deployment.hash,
        used: used(&tx.view(), target, to)?,
        registry: registries::find_by_id(&tx.view(), to.registry)?.map(|registry| registry.id()),
    };
    live::set_live(tx, &live)?;
    reports::expect_report(tx, to.id, job.environment)?;
    finish(tx, target, TargetState::Applied, Some(deployment.id))
}

/// The version of the prompt, unless it was deleted since the job was created.
fn used(view: &View, target: &DeploymentTarget, to: &TargetAgent) -> Result<Option<UsedVersion>> {
    let (kind, name) = (ArtifactType::Prompt, to.prompt_name.clone());
    let of = ArtifactId { registry: to.registry, kind, name };
    let version = target.planned.version.clone();
    let prefix = (of.clone(), numbers(&version));
    let exists = view.count(ListSource::<VersionRecord>::TABLE, &prefix, 1)? > 0;
    Ok(exists.then_some(UsedVersion { of, version }))
}

/// The record of a target that `push` applies.
///
/// # Errors
/// 500 if the job has no provider or the target no text.
pub fn deployment(
    job: &DeploymentJob,
    target: &DeploymentTarget,
    to: &TargetAgent,
    push: Push,
) -> Result<Deployment> {
    let planned = &target.planned;
    let incomplete = || Error::internal("a target of an agent is incomplete");
    Ok(Deployment {
        id: push.id.cast(),
        job: job.id,
        agent: to.id,
        stable_key: to.stable_key.clone(),
        environment: job.environment,
        registry: to.registry,
        registry_ref: to.registry_ref.clone(),
        prompt_name: to.prompt_name.clone(),
        version: planned.version.clone(),
        provider: job.provider.clone().ok_or_else(incomplete)?,
        model: to.model.clone(),
        text: planned.text.ok_or_else(incomplete)?,
        config: planned.config,
        tools: planned.tools.clone(),
        hash: planned.hash.clone(),
        bytes: planned.bytes + planned.tool_bytes,
        previous: None,
        deployed_by: job.created_by,
        deployed_at: push.at,
    })
}

/// Records that a target could not be applied.
pub fn fail(
    tx: &mut Tx,
    job: &DeploymentJob,
    target: &DeploymentTarget,
    error: &str,
) -> Result<()> {
    let failed = DeploymentTarget {
        state: TargetState::Failed,
        error: Some(error.into()),
        ..target.clone()
    };
    tx.replace(target, &failed)?;
    let Some(agent) = &target.planned.agent else { return Ok(()) };
    let more = [("jobId", json!(job.id)), ("error", json!(error))];
    events::publish_agent(tx, EventType::AgentError, (agent.id, job.environment), &more)
}

fn finish(
    tx: &mut Tx,
    target: &DeploymentTarget,
    state: TargetState,
    deployment: Option<Id<Deployment>>,
) -> Result<()> {
    tx.put(&DeploymentTarget { state, deployment, ..target.clone() })
}

/// Skips a target that was not begun.
pub fn skip(tx: &mut Tx, target: &DeploymentTarget, why: &str) -> Result<()> {
    let error = Some(why.into());
    let skipped = DeploymentTarget { state: TargetState::Skipped, error, ..target.clone() };
    tx.replace(target, &skipped)
}
