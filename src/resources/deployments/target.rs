//! The targets of deployment jobs, the queue in front of each agent or tool, and the events about jobs
//! and their agents.
//!
//! Jobs for the same agent or tool in the same environment are applied in the order in which they
//! were approved. Each approved job takes a ticket of its environment; a target is applied once it has
//! the lowest ticket of those that wait for the same agent or tool.

use bincode::{Decode, Encode};
use serde::Serialize;
use serde_json::{Value, json};

use super::contents::ContentHash;
use super::job::{DeploymentJob, TargetState};
use super::live::Deployment;
use crate::auth::Restricted;
use crate::base::{ArtifactName, Error, Id, Result, StableKey, Version, canonical};
use crate::outbox::{About, EventType, publish};
use crate::resources::agents::{Agent, Model, Provider};
use crate::resources::environments::Environment;
use crate::resources::registries::Registry;
use crate::resources::tools::Tool;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Record, Reference, Tx, View,
};

crate::base::portable! {
/// A target of a deployment job, with its part of the plan.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentTarget {
    pub job: Id<DeploymentJob>,
    /// Its position among the targets of the job, from 0.
    pub position: u32,
    /// The environment of the job.
    pub environment: Id<Environment>,
    /// What it deploys.
    pub planned: PlannedTarget,
    pub state: TargetState,
    /// Its place in the queue, from the approval of its job on.
    pub ticket: Option<u64>,
    /// The deployment that was recorded for it.
    pub deployment: Option<Id<Deployment>>,
    /// The version of the tool that the environment used before.
    pub replaced: Option<Version>,
    /// Why it failed or was skipped.
    pub error: Option<String>,
}
}

/// What a target deploys to: an agent, or the reference of an environment to a tool.
pub enum Subject<A = TargetAgent> {
    /// An agent, which gets a prompt.
    Agent(A),
    /// A tool, to another version of which the reference moves.
    Tool(Id<Tool>),
}

crate::base::portable! {
/// A target as planned: a [`Subject`], which is stored as one of two fields, and what it gets.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedTarget {
    agent: Option<TargetAgent>,
    tool: Option<Id<Tool>>,
    /// The version of the prompt or tool.
    pub version: Version,
    /// The filled text of the prompt.
    pub text: Option<ContentHash>,
    /// The configuration in force.
    pub config: ContentHash,
    /// The definitions of the agent's tools, or of the tool itself.
    pub tools: Vec<ContentHash>,
    /// The hash of all that, in lower-case hexadecimal.
    pub hash: String,
    /// The size of text and configuration, in bytes.
    pub bytes: u64,
    /// The size of the definitions of the tools, in bytes.
    pub tool_bytes: u64,
}
}

crate::base::portable! {
/// The agent of a target, and the prompt that it gets.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct TargetAgent {
    /// The agent.
    pub id: Id<Agent>,
    pub stable_key: StableKey,
    /// The registry of the prompt.
    pub registry: Id<Registry>,
    /// `<orgSlug>/<registrySlug>` of the registry.
    pub registry_ref: String,
    pub prompt_name: ArtifactName,
    pub model: Model,
}
}

/// What the hash of a target covers.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct HashedTarget<'a> {
    registry_ref: Option<&'a str>,
    prompt_name: Option<&'a ArtifactName>,
    version: &'a Version,
    provider: Option<&'a Provider>,
    model: Option<&'a Model>,
    tool_id: Option<Id<Tool>>,
    compiled: Option<String>,
    config: String,
    tools: Vec<String>,
}

impl PlannedTarget {
    /// A target that gets a configuration, and nothing else so far.
    pub fn new(subject: Subject, version: Version, config: ContentHash) -> Self {
        let (agent, tool) = match subject {
            Subject::Agent(agent) => (Some(agent), None),
            Subject::Tool(tool) => (None, Some(tool)),
        };
        let (text, tools, hash) = (None, Vec::new(), String::new());
        PlannedTarget { agent, tool, version, text, config, tools, hash, bytes: 0, tool_bytes: 0 }
    }

    /// Returns it with its hash: equal for agents that get the same.
    ///
    /// # Errors
    /// 500 if it cannot be written.
    pub fn hashed(self, provider: Option<&Provider>) -> Result<Self> {
        let hex = |hash: &ContentHash| blake3::Hash::from_bytes(*hash).to_string();
        let agent = self.agent();
        let hashed = HashedTarget {
            registry_ref: agent.map(|agent| agent.registry_ref.as_str()),
            prompt_name: agent.map(|agent| &agent.prompt_name),
            version: &self.version,
            provider,
            model: agent.map(|agent| &agent.model),
            tool_id: self.tool,
            compiled: self.text.as_ref().map(hex),
            config: hex(&self.config),
            tools: self.tools.iter().map(hex).collect(),
        };
        let hashed = serde_json::to_value(hashed)
            .map_err(|e| Error::internal(format!("a target cannot be written: {e}")))?;
        let hash = blake3::hash(canonical(&hashed).as_bytes()).to_string();
        Ok(PlannedTarget { hash, ..self })
    }

    /// What it deploys to.
    pub fn subject(&self) -> Subject<&TargetAgent> {
        match &self.agent {
            Some(agent) => Subject::Agent(agent),
            None => Subject::Tool(self.tool.unwrap_or(Id::NIL)),
        }
    }

    /// Its agent, if it deploys to one.
    pub fn agent(&self) -> Option<&TargetAgent> {
        self.agent.as_ref()
    }

    /// Its tool, if it deploys one.
    pub fn tool(&self) -> Option<Id<Tool>> {
        self.tool
    }

    /// The id of its agent or tool.
    pub fn subject_id(&self) -> Id<Subject> {
        match self.subject() {
            Subject::Agent(agent) => agent.id.cast(),
            Subject::Tool(tool) => tool.cast(),
        }
    }
}

/// Waiting targets by agent.
pub static WAITING: Index<DeploymentTarget, Id<Agent>> =
    Index::non_unique("deployment_targets.waiting", |target| {
        let agent = target.planned.agent().map(|agent| agent.id);
        agent.filter(|_| target.state == TargetState::Waiting)
    });

/// Waiting targets that are tools, by the tool.
pub static WAITING_TOOLS: Index<DeploymentTarget, Id<Tool>> =
    Index::non_unique("deployment_targets.waiting_tools", |target| {
        target.planned.tool().filter(|_| target.state == TargetState::Waiting)
    });

/// The queue of each agent and tool in each environment.
static QUEUE: Index<DeploymentTarget, (Id<Environment>, Id<Subject>, u64)> =
    Index::non_unique("deployment_targets.queue", |target| {
        let ticket = target.ticket.filter(|_| target.state == TargetState::Waiting)?;
        Some((target.environment, target.planned.subject_id(), ticket))
    });

/// Targets that are tools, by the tool and the numbers of its version.
pub static TOOL_TARGETS: Index<DeploymentTarget, (Id<Tool>, u64, u64, u64)> =
    Index::non_unique("deployment_targets.by_tool_version", |target| {
        let [major, minor, patch] = target.planned.version.numbers();
        target.planned.tool().map(|tool| (tool, major, minor, patch))
    });

static JOB: Reference<DeploymentTarget, DeploymentJob> = Reference::cascade(
    &["job"],
    |job: &DeploymentJob| job.id.to_bytes(),
    |target: &DeploymentTarget, _| vec![target.job.to_bytes()],
);

static AGENT: Reference<DeploymentTarget, Restricted<Agent>> = Reference::restrict(
    &["planned.agent.id"],
    "agent_in_deployment",
    "a deployment waits or runs for this agent; cancel it or let it finish",
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |target: &DeploymentTarget, _| {
        let agent = target.planned.agent().filter(|_| target.state == TargetState::Waiting);
        agent.map(|agent| agent.id.to_bytes()).into_iter().collect()
    },
)
.by(&WAITING);

impl Record for DeploymentTarget {
    const TABLE: &'static str = "deployment_targets";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&WAITING, &WAITING_TOOLS, &QUEUE, &TOOL_TARGETS];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&JOB, &AGENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("environment", "that of its job, which refers to it"),
        ("planned.agent.registry", "history: among the registries of the job"),
        ("planned.tool", "history: a tool may be deleted once no target waits for it"),
        ("deployment", "deployments are not removed"),
    ];
    type Key = (Id<DeploymentJob>, u32);
    fn key(&self) -> Self::Key {
        (self.job, self.position)
    }
}

/// Returns the targets of a job, in order.
pub fn targets(view: &View, job: Id<DeploymentJob>) -> Result<Vec<DeploymentTarget>> {
    view.all(ListSource::TABLE, &job)
}

/// Returns the target that is applied next to an agent or tool.
pub fn first_in_queue(
    view: &View,
    environment: Id<Environment>,
    subject: Id<Subject>,
) -> Result<Option<DeploymentTarget>> {
    view.first(&QUEUE, &(environment, subject), Order::Ascending)
}

// ── Tickets ──────────────────────────────────────────────────────────────────

crate::base::portable! {
/// The next ticket of an environment. One row per environment: approvals that happen at once
/// conflict on it, so that tickets have the order of the commits.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentTicket {
    environment: Id<Environment>,
    next: u64,
}
}

static ENVIRONMENT: Reference<DeploymentTicket, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |ticket: &DeploymentTicket, _| vec![ticket.environment.to_bytes()],
);

impl Record for DeploymentTicket {
    const TABLE: &'static str = "deployment_tickets";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ENVIRONMENT];
    type Key = Id<Environment>;
    fn key(&self) -> Self::Key {
        self.environment
    }
}

/// Puts the targets of a job at the end of their queues.
pub fn join_queues(tx: &mut Tx, job: &DeploymentJob) -> Result<()> {
    let environment = job.environment;
    let ticket = tx.get::<DeploymentTicket>(&environment)?.map_or(0, |ticket| ticket.next);
    tx.put(&DeploymentTicket { environment, next: ticket + 1 })?;
    for target in targets(&tx.view(), job.id)? {
        tx.replace(&target, &DeploymentTarget { ticket: Some(ticket), ..target.clone() })?;
    }
    Ok(())
}

// ── Events ───────────────────────────────────────────────────────────────────

/// Publishes an event about a job, with `more` in its payload.
pub fn publish_job(
    tx: &mut Tx,
    event: EventType,
    job: &DeploymentJob,
    more: &[(&str, Value)],
) -> Result<()> {
    let payload = with(payload(&tx.view(), job)?, more);
    let about = About::resource("deployment_job", job.id);
    let about = job.registries.iter().fold(about, |about, id| about.guarded_by("registry", *id));
    let about = guarded(about, job.environment, &job.agents);
    publish(tx, event, about, payload)
}

fn with(mut payload: Value, more: &[(&str, Value)]) -> Value {
    for (name, value) in more {
        payload[*name] = value.clone();
    }
    payload
}

fn payload(view: &View, job: &DeploymentJob) -> Result<Value> {
    let targets = targets(view, job.id)?;
    let keys = targets.iter().filter_map(|target| target.planned.agent());
    let keys: Vec<_> = keys.map(|agent| &agent.stable_key).collect();
    let tools: Vec<_> = targets.iter().filter_map(|target| target.planned.tool()).collect();
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
        let agent = target.planned.agent();
        json!({
            "stableKey": agent.map(|agent| &agent.stable_key), "toolId": target.planned.tool(),
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
    let payload = json!({
        "agentId": agent.id, "stableKey": agent.stable_key, "name": agent.name,
        "environmentId": environment,
        "environmentName": environment_name(&tx.view(), environment)?,
    });
    let about = guarded(About::resource("agent", agent.id), environment, &[agent.id]);
    publish(tx, event, about, with(payload, more))
}
