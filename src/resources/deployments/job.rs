//! The record of deployment jobs.

use bincode::{Decode, Encode};

use super::days::{self, CountedJob};
use super::delivery::PlannedDelivery;
use super::state::{JobKind, JobState};
use crate::auth::{Restricted, User};
use crate::base::{Id, Name, Result, Time, Version};
use crate::outbox::Job;
use crate::resources::agents::{Agent, Provider};
use crate::resources::environments::{ApprovalPolicy, Environment};
use crate::resources::registries::Registry;
use crate::resources::tools::Tool;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Tx, codec, no_upgrade,
};

/// A deployment of agents or tools to an environment, with its frozen plan. The filled texts and
/// the configurations are [contents](super::contents::DeploymentContent) of the job, and each target
/// is a row of its own.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentJob {
    pub id: Id<DeploymentJob>,
    /// What it deploys.
    pub kind: JobKind,
    pub state: JobState,
    /// Where it deploys to.
    pub environment: Id<Environment>,
    /// The registries of the prompts of its targets.
    pub registries: Vec<Id<Registry>>,
    /// Its agents, of a deployment of agents.
    pub agents: Vec<Id<Agent>>,
    /// The registry, prompt, version and model, where they are the same for all targets.
    pub prompt: JobPrompt,
    /// The provider of the model.
    pub provider: Option<Provider>,
    /// The tools of all targets.
    pub tools: Vec<PlannedTool>,
    /// Where its manifests go and what is filled into them; none if an earlier release planned it.
    pub delivery: Option<PlannedDelivery>,
    /// Who must approve it; none if it needs no approval.
    pub approvals: Option<ApprovalPolicy>,
    /// The hash of its plan, in lower-case hexadecimal.
    pub plan_hash: String,
    /// The size of the texts and configurations in its plan, in bytes.
    pub plan_bytes: u64,
    /// Whether all targets are applied in one transaction, unless they are posted.
    pub at_once: bool,
    /// The first target that is not finished.
    pub next: u32,
    /// The target that is being posted to the provider's endpoint.
    pub push: Option<Push>,
    /// The row of the outbox that runs it; none while it waits for another job.
    pub task: Option<Id<Job>>,
    /// The user who created it, also through a key.
    pub created_by: Id<User>,
    /// Who answered for the key that created it, if it is one of a service account.
    pub sponsor: Option<Id<User>>,
    /// When it was created.
    pub created_at: Time,
    /// When it last changed.
    pub updated_at: Time,
    /// When it reached its final state.
    pub finished_at: Option<Time>,
    /// Until when it waits for approvals.
    pub expires_at: Option<Time>,
}
crate::base::portable!(DeploymentJob {
    id,
    kind,
    state,
    environment,
    registries,
    agents,
    prompt,
    provider,
    tools,
    delivery,
    approvals,
    plan_hash,
    plan_bytes,
    at_once,
    next,
    push,
    task,
    created_by,
    sponsor,
    created_at,
    updated_at,
    finished_at,
    expires_at,
});

/// A job as stored in version 1, without its delivery and sponsor. Its fields never change.
#[derive(Encode, Decode)]
struct DeploymentJobV1 {
    id: Id<DeploymentJob>,
    kind: JobKind,
    state: JobState,
    environment: Id<Environment>,
    registries: Vec<Id<Registry>>,
    agents: Vec<Id<Agent>>,
    prompt: JobPrompt,
    provider: Option<Provider>,
    tools: Vec<PlannedTool>,
    approvals: Option<ApprovalPolicy>,
    plan_hash: String,
    plan_bytes: u64,
    at_once: bool,
    next: u32,
    push: Option<Push>,
    task: Option<Id<Job>>,
    created_by: Id<User>,
    created_at: Time,
    updated_at: Time,
    finished_at: Option<Time>,
    expires_at: Option<Time>,
}

impl From<DeploymentJobV1> for DeploymentJob {
    fn from(old: DeploymentJobV1) -> Self {
        DeploymentJob {
            id: old.id,
            kind: old.kind,
            state: old.state,
            environment: old.environment,
            registries: old.registries,
            agents: old.agents,
            prompt: old.prompt,
            provider: old.provider,
            tools: old.tools,
            delivery: None,
            approvals: old.approvals,
            plan_hash: old.plan_hash,
            plan_bytes: old.plan_bytes,
            at_once: old.at_once,
            next: old.next,
            push: old.push,
            task: old.task,
            created_by: old.created_by,
            sponsor: None,
            created_at: old.created_at,
            updated_at: old.updated_at,
            finished_at: old.finished_at,
            expires_at: old.expires_at,
        }
    }
}

/// The prompt that a job deploys, as far as it is the same for all targets.
#[derive(Clone, Debug, Default, PartialEq, Encode, Decode)]
pub struct JobPrompt {
    /// The registry: `<orgSlug>/<registrySlug>`.
    pub registry_ref: Option<String>,
    /// The name of the prompt.
    pub name: Option<String>,
    /// Its version, or that of the tools.
    pub version: Option<Version>,
    pub model: Option<String>,
}
crate::base::portable!(JobPrompt { registry_ref, name, version, model });

/// A tool in a plan.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedTool {
    pub tool: Id<Tool>,
    pub name: Name,
    pub version: Version,
}
crate::base::portable!(PlannedTool { tool, name, version });

/// The posting of a target to a provider's endpoint. It is the same at every try.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Push {
    /// The id of the deployment that is recorded when the endpoint accepts it.
    pub id: Id<Push>,
    /// The time of the first try.
    pub at: Time,
    /// The number of tries so far.
    pub tries: u32,
}
crate::base::portable!(Push { id, at, tries });

/// Jobs by state.
pub static BY_STATE: Index<DeploymentJob, JobState> =
    Index::non_unique("deployment_jobs.by_state", |job| Some(job.state));

/// Jobs by environment.
pub static BY_ENVIRONMENT: Index<DeploymentJob, Id<Environment>> =
    Index::non_unique("deployment_jobs.by_environment", |job| Some(job.environment));

/// Jobs by environment and state.
pub static BY_ENVIRONMENT_AND_STATE: Index<DeploymentJob, (Id<Environment>, JobState)> =
    Index::non_unique("deployment_jobs.by_environment_and_state", |job| {
        Some((job.environment, job.state))
    });

/// Jobs that wait or run, by environment.
static UNFINISHED: Index<DeploymentJob, Id<Environment>> =
    Index::non_unique("deployment_jobs.unfinished", |job| {
        job.is_unfinished().then_some(job.environment)
    });

impl DeploymentJob {
    /// Whether it may still change something: also a cancelled one may, while a target is being posted.
    pub fn is_unfinished(&self) -> bool {
        !self.state.is_final() || self.push.is_some()
    }

    fn counted(&self) -> CountedJob<'_> {
        CountedJob {
            environment: self.environment,
            registries: &self.registries,
            agents: &self.agents,
            created_at: self.created_at,
        }
    }
}

/// Jobs that wait for approvals, by when that ends.
pub static BY_EXPIRY: Index<DeploymentJob, Time> =
    Index::non_unique("deployment_jobs.by_expiry", |job| {
        job.expires_at.filter(|_| job.state == JobState::PendingApproval)
    });

static ENVIRONMENT: Reference<DeploymentJob, Restricted<Environment>> = Reference::restrict(
    &["environment"],
    "deployment_pending",
    "a deployment to this environment waits or runs; cancel it or let it finish",
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |job: &DeploymentJob, _| {
        let unfinished = job.is_unfinished().then(|| job.environment.to_bytes());
        unfinished.into_iter().collect()
    },
)
.by(&UNFINISHED);

impl Record for DeploymentJob {
    const TABLE: &'static str = "deployment_jobs";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_STATE, &BY_ENVIRONMENT, &BY_ENVIRONMENT_AND_STATE, &UNFINISHED, &BY_EXPIRY];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ENVIRONMENT];
    const VERSION: u8 = 2;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("registries", "history: a registry may be deleted once nothing of it is live"),
        ("agents", "history: an agent may be deleted once no target waits for it"),
        ("tools.tool", "history: a tool may be deleted"),
        ("delivery.endpoint.credential", "frozen: another one, or none, is not what was planned"),
        ("delivery.secrets.secret", "frozen: another one, or none, is not what was planned"),
        ("approvals.approver_ids", "frozen: who has left can no longer decide"),
        ("push.id", "of a deployment that is recorded when the endpoint accepts it"),
        ("task", "a row of the outbox, which ends with the job or before it"),
        ("created_by", "history: who created it may have left"),
        ("sponsor", "history: who answered for its key may have left"),
    ];
    type Key = Id<DeploymentJob>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<DeploymentJobV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// Inserts a new job.
pub fn insert(tx: &mut Tx, job: &DeploymentJob) -> Result<()> {
    days::count(tx, &job.counted(), None, job.state)?;
    tx.insert(job)
}

/// Replaces `old` by `new`; keeps the times and the daily counts.
pub fn save(tx: &mut Tx, old: &DeploymentJob, mut new: DeploymentJob) -> Result<DeploymentJob> {
    if new == *old {
        return Ok(new);
    }
    new.updated_at = tx.now();
    if new.state != old.state {
        days::count(tx, &new.counted(), Some(old.state), new.state)?;
        new.finished_at = new.state.is_final().then(|| tx.now());
    }
    tx.replace(old, &new)?;
    Ok(new)
}
