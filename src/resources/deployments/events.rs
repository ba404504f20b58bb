//! The events of deployments.

use serde_json::{Value, json};

use super::job::DeploymentJob;
use super::live;
use super::reports::AgentReport;
use super::state::TargetState;
use super::target::{DeploymentTarget, targets};
use crate::auth::Restricted;
use crate::base::{Id, Result};
use crate::outbox::{About, EventType, publish};
use crate::resources::agents::Agent;
use crate::resources::environments::Environment;
use crate::store::{Tx, View};

/// Publishes an event about a job, with `more` in its payload.
pub fn publish_job(
    tx: &mut Tx,
    event: EventType,
    job: &DeploymentJob,
    more: &[(&str, Value)],
) -> Result<()> {
    let mut payload = payload(&tx.view(), job)?;
    for (name, value) in more {
        payload[*name] = value.clone();
    }
    let about = About::resource("deployment_job", job.id);
    let about = job.registries.iter().fold(about, |about, id| about.guarded_by("registry", *id));
    let about = guarded(about, job.environment, &job.agents);
    publish(tx, event, about, payload)
}

fn payload(view: &View, job: &DeploymentJob) -> Result<Value> {
    let targets = targets(view, job.id)?;
    let keys = targets.iter().filter_map(|target| target.planned.agent.as_ref());
    let keys: Vec<_> = keys.map(|agent| &agent.stable_key).collect();
    let tools: Vec<_> = targets.iter().filter_map(|target| target.planned.tool).collect();
    Ok(json!({
        "jobId": job.id, "kind": job.kind, "state": job.state,
        "environmentId": job.environment,
        "environmentName": environment_name(view, job.environment)?,
        "stableKeys": keys, "toolIds": tools,
        "promptName": job.prompt.name, "version": job.prompt.version,
        "planHash": job.plan_hash, "createdBy": job.created_by,
    }))
}

/// Names what an event about agents in an environment belongs to: the environment and the agents, in
/// whatever fleets they are when the log is read.
fn guarded(about: About, environment: Id<Environment>, agents: &[Id<Agent>]) -> About {
    let about = about.guarded_by("environment", environment);
    agents.iter().fold(about, |about, agent| about.guarded_by("agent", *agent))
}

fn environment_name(view: &View, id: Id<Environment>) -> Result<Option<String>> {
    let environment = view.get::<Restricted<Environment>>(&id)?;
    Ok(environment.map(|environment| environment.without_caller().name.to_string()))
}

/// The targets of a job that failed, for the payload of its last event.
pub fn failures(view: &View, job: &DeploymentJob) -> Result<Value> {
    let failed = targets(view, job.id)?.into_iter().filter(|t| t.state == TargetState::Failed);
    let failure = |target: DeploymentTarget| {
        let agent = target.planned.agent.as_ref();
        json!({
            "stableKey": agent.map(|agent| &agent.stable_key), "toolId": target.planned.tool,
            "error": target.error,
        })
    };
    Ok(failed.map(failure).collect())
}

/// Publishes an event about an agent in an environment.
pub fn publish_agent(
    tx: &mut Tx,
    event: EventType,
    (agent, environment): (Id<Agent>, Id<Environment>),
    more: &[(&str, Value)],
) -> Result<()> {
    let Some(agent) = tx.get::<Restricted<Agent>>(&agent)? else { return Ok(()) };
    let agent = agent.without_caller();
    let mut payload = json!({
        "agentId": agent.id, "stableKey": agent.stable_key, "name": agent.name,
        "environmentId": environment,
        "environmentName": environment_name(&tx.view(), environment)?,
    });
    for (name, value) in more {
        payload[*name] = value.clone();
    }
    let about = guarded(About::resource("agent", agent.id), environment, &[agent.id]);
    publish(tx, event, about, payload)
}

/// Publishes an event about what an agent reported, with the ids of what is live there, if anything
/// is, and `more` in its payload.
pub fn publish_report(
    tx: &mut Tx,
    event: EventType,
    report: &AgentReport,
    more: &[(&str, Value)],
) -> Result<()> {
    let live = live::live(&tx.view(), report.agent, report.environment)?;
    let (deployment, job) = live.map(|live| (live.deployment, live.job)).unzip();
    let mut all = vec![("deploymentId", json!(deployment)), ("jobId", json!(job))];
    all.extend_from_slice(more);
    publish_agent(tx, event, (report.agent, report.environment), &all)
}
