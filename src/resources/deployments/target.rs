//! The targets of deployment jobs, and the queue in front of each agent or tool.
//!
//! Jobs for the same agent or tool in the same environment are applied in the order in which they
//! were approved. Each approved job takes a ticket of its environment; a target is applied once it has
//! the lowest ticket of those that wait for the same agent or tool.

use bincode::{Decode, Encode};

use super::contents::ContentHash;
use super::job::DeploymentJob;
use super::live::Deployment;
use super::state::TargetState;
use crate::auth::Restricted;
use crate::base::{ArtifactName, Id, Result, StableKey, Version};
use crate::resources::agents::{Agent, Model};
use crate::resources::environments::Environment;
use crate::resources::registries::Registry;
use crate::resources::tools::Tool;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Record, Reference, Tx, View,
};

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
crate::base::portable!(DeploymentTarget {
    job,
    position,
    environment,
    planned,
    state,
    ticket,
    deployment,
    replaced,
    error,
});

/// A target as planned.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedTarget {
    /// The agent, of a deployment of agents.
    pub agent: Option<TargetAgent>,
    /// The tool, of a deployment of tools.
    pub tool: Option<Id<Tool>>,
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
crate::base::portable!(PlannedTarget {
    agent,
    tool,
    version,
    text,
    config,
    tools,
    hash,
    bytes,
    tool_bytes,
});

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
crate::base::portable!(TargetAgent { id, stable_key, registry, registry_ref, prompt_name, model });

/// An agent or a tool.
pub enum Subject {}

impl PlannedTarget {
    /// The id of its agent or tool.
    pub fn subject(&self) -> Id<Subject> {
        let agent = self.agent.as_ref().map(|agent| agent.id.cast());
        agent.or(self.tool.map(Id::cast)).unwrap_or(Id::NIL)
    }
}

/// Waiting targets by agent.
pub static WAITING: Index<DeploymentTarget, Id<Agent>> =
    Index::non_unique("deployment_targets.waiting", |target| {
        let agent = target.planned.agent.as_ref().map(|agent| agent.id);
        agent.filter(|_| target.state == TargetState::Waiting)
    });

/// The queue of each agent and tool in each environment.
static QUEUE: Index<DeploymentTarget, (Id<Environment>, Id<Subject>, u64)> =
    Index::non_unique("deployment_targets.queue", |target| {
        let ticket = target.ticket.filter(|_| target.state == TargetState::Waiting)?;
        Some((target.environment, target.planned.subject(), ticket))
    });

/// Targets that are tools, by the tool and the numbers of its version.
pub static TOOL_TARGETS: Index<DeploymentTarget, (Id<Tool>, u64, u64, u64)> =
    Index::non_unique("deployment_targets.by_tool_version", |target| {
        let [major, minor, patch] = target.planned.version.numbers();
        target.planned.tool.map(|tool| (tool, major, minor, patch))
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
        let agent = target.planned.agent.as_ref().filter(|_| target.state == TargetState::Waiting);
        agent.map(|agent| agent.id.to_bytes()).into_iter().collect()
    },
)
.by(&WAITING);

impl Record for DeploymentTarget {
    const TABLE: &'static str = "deployment_targets";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&WAITING, &QUEUE, &TOOL_TARGETS];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&JOB, &AGENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("environment", "that of its job, which refers to it"),
        ("planned.agent.registry", "history: among the registries of the job"),
        ("planned.tool", "history: a tool may be deleted; the target then fails"),
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

/// The next ticket of an environment. One row per environment: approvals that happen at once
/// conflict on it, so that tickets have the order of the commits.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentTicket {
    environment: Id<Environment>,
    next: u64,
}
crate::base::portable!(DeploymentTicket { environment, next });

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
