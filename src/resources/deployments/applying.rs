//! Applying a target: the record of the deployment, which becomes live, or the moved reference of an
//! environment to a tool. Where the provider has an endpoint, the manifest is posted there first: in it,
//! and nowhere else, the `${NAME}` of tools are replaced by the secrets and variables of the environment.

use schemars::json_schema;
use serde_json::json;

use super::contents::{Contents, DeployedTool};
use super::heartbeats;
use super::info::{DeploymentInfo, deployment_info};
use super::job::{DeploymentJob, Push, TargetState};
use super::live::{self, Deployment, LiveDeployment, UsedVersion};
use super::target::{DeploymentTarget, Subject, TargetAgent, publish_agent};
use crate::api::{Resource, Webhook};
use crate::auth::Restricted;
use crate::base::{Error, Id, Kind, Result, Version};
use crate::outbox::EventType;
use crate::outside::{Call, webhook};
use crate::resources::agents::Agent;
use crate::resources::artifacts::{ArtifactId, VersionRecord, numbers};
use crate::resources::environments::{self, PlaceholderFiller, PushTarget};
use crate::resources::registries::{self, ArtifactType};
use crate::resources::tools::{self, Tool};
use crate::store::{ListSource, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { events: &[EventType::AgentError], webhooks: &[MANIFEST_WEBHOOK], ..Resource::EMPTY };

/// Applies a target; it has failed afterwards if that is not possible.
pub fn apply(
    tx: &mut Tx,
    job: &DeploymentJob,
    target: &DeploymentTarget,
    pushed: Option<&Push>,
) -> Result<()> {
    match target.planned.subject() {
        Subject::Agent(agent) => apply_agent(tx, job, target, agent, pushed),
        Subject::Tool(tool) => match move_tool(tx, job, target, tool) {
            Ok(replaced) => {
                let target = DeploymentTarget { replaced, ..target.clone() };
                finish(tx, &target, TargetState::Applied, None)
            }
            Err(error) if error.kind() == Kind::Conflict => fail(tx, job, target, error.message()),
            Err(error) => Err(error),
        },
    }
}

/// Moves the environment's reference to a tool; returns the version that it had before.
fn move_tool(
    tx: &mut Tx,
    job: &DeploymentJob,
    target: &DeploymentTarget,
    tool: Id<Tool>,
) -> Result<Option<Version>> {
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
    let reference = (tool.cast(), version);
    environments::add_tool_reference(tx, target.environment, reference, job.created_by)?;
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
    heartbeats::expect_report(tx, to.id, job.environment)?;
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
    let Some(agent) = target.planned.agent() else { return Ok(()) };
    let more = [("jobId", json!(job.id)), ("error", json!(error))];
    publish_agent(tx, EventType::AgentError, (agent.id, job.environment), &more)
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

// ── Posting ──────────────────────────────────────────────────────────────────

const MANIFEST_WEBHOOK: Webhook = Webhook {
    name: "deployment",
    about: "Deliver a manifest to a provider's endpoint",
    description: "Posted to the `endpoint` of an environment's credential for the provider, signed \
                  with its `apiKey`, for each agent of a deployment. In `tools`, `${NAME}` is filled \
                  with the secrets and variables of the environment. A 2xx records the deployment. \
                  After any other answer, a 410 included, or none within 10 seconds, it is posted \
                  again, three times in all with the same `webhook-id`; then the target has failed.",
    kind: |_| json_schema!({"const": "deployment", "description": "What the message is."}),
    data: |generator| generator.subschema_for::<DeploymentInfo>(),
};

/// Returns the call that posts a target to the provider's endpoint; the use of credential and secrets
/// is audited. The message is the same at every try, its signature is new.
///
/// # Errors
/// 409 or 413 if the target cannot be posted at all.
pub fn post(
    tx: &mut Tx,
    to: &PushTarget,
    (job, target, agent): (&DeploymentJob, &DeploymentTarget, &TargetAgent),
    push: &Push,
) -> Result<Call> {
    let key = to.signing_key(&tx.view())?;
    let deployment = deployment(job, target, agent, push.clone())?;
    let provider = deployment.provider.clone();
    let mut manifest = deployment_info(&tx.view(), deployment, true)?;
    let view = tx.view();
    let mut filler = PlaceholderFiller::new(view, job.environment);
    for tool in &mut manifest.tools {
        tool.provider_config = filler.fill(&tool.provider_config)?;
    }
    let missing: Vec<_> = filler.missing().iter().map(String::as_str).collect();
    if let Some(first) = missing.first() {
        let dollar = environments::dollar(&view, job.environment)?;
        return Err(Error::conflict(
            "placeholder_unknown",
            format!(
                "its tools name what is neither a secret nor a variable of the environment: {}; a text \
                 such as {} is written {}",
                missing.join(", "),
                format_args!("${{{first}}}"),
                format_args!("${{{dollar}}}{{{first}}}"),
            ),
        ));
    }
    if let Some(delivery) = &job.delivery {
        delivery.check_filled(filler.sources())?;
    }
    let secrets = filler.secrets();
    let cause = job.id.to_string();
    environments::audit_push(tx, job.environment, &provider, &secrets, &cause)?;
    let data = serde_json::to_value(&manifest)
        .map_err(|e| Error::internal(format!("a manifest cannot be written: {e}")))?;
    let message =
        webhook::Message { id: push.id.to_string(), kind: "deployment".into(), at: push.at, data };
    Ok(webhook::post(&to.endpoint, &key, &message, tx.now()))
}
