//! The record of deployment jobs, the states of jobs and of their targets, and the counts of jobs by
//! day and state, which are kept with each change of a state, so that the heatmap reads a row per day
//! instead of every job.
//!
//! A job counts on the day of its creation, under its current state: among all jobs, among those of
//! its environment, and among those of its scope, which is its environment, registries and agents.
//! So the jobs that are hidden from a caller can be subtracted without reading them: those of hidden
//! environments, and of scopes with a hidden registry or agent.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::delivery::PlannedDelivery;
use crate::auth::{Granted, Restricted, User};
use crate::base::{Id, Name, Result, Time, Version};
use crate::outbox::Job;
use crate::resources::agents::{Agent, Provider};
use crate::resources::approvals::ApprovalPolicy;
use crate::resources::environments::Environment;
use crate::resources::registries::Registry;
use crate::resources::tools::Tool;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Tx, codec, no_upgrade,
};

// ── States ───────────────────────────────────────────────────────────────────

/// What a deployment job deploys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// A prompt, to agents.
    Agents,
    /// Versions of tools, to an environment.
    Tools,
}
crate::store::stored_enum!(JobKind { Agents = 0, Tools = 1 });

/// The state of a deployment job.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for approvals.
    PendingApproval,
    /// It is approved, or needed no approval, and has not begun.
    Approved,
    /// Its targets are being applied.
    Running,
    /// All targets were applied.
    Complete,
    /// Some targets were applied, others failed.
    Partial,
    /// No target was applied.
    Error,
    /// It was not approved in time.
    Timeout,
    /// An approver denied it.
    Denied,
    /// It was cancelled; targets that had begun may have been applied.
    Cancelled,
}
crate::store::stored_enum!(JobState {
    PendingApproval = 0,
    Approved = 1,
    Running = 2,
    Complete = 3,
    Partial = 4,
    Error = 5,
    Timeout = 6,
    Denied = 7,
    Cancelled = 8,
});

impl JobState {
    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        !matches!(self, JobState::PendingApproval | JobState::Approved | JobState::Running)
    }
}

/// The state of a target of a deployment job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// Not finished yet.
    Waiting,
    /// Deployed.
    Applied,
    /// Not deployed; `error` says why.
    Failed,
    /// Not begun when the job was cancelled, denied or timed out.
    Skipped,
}
crate::store::stored_enum!(TargetState { Waiting = 0, Applied = 1, Failed = 2, Skipped = 3 });

// ── Jobs ─────────────────────────────────────────────────────────────────────

crate::base::portable! {
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
}

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

crate::base::portable! {
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
}

crate::base::portable! {
/// A tool in a plan.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PlannedTool {
    pub tool: Id<Tool>,
    pub name: Name,
    pub version: Version,
}
}

crate::base::portable! {
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
}

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
    count(tx, &job.counted(), None, job.state)?;
    tx.insert(job)
}

/// Replaces `old` by `new`; keeps the times and the daily counts.
pub fn save(tx: &mut Tx, old: &DeploymentJob, mut new: DeploymentJob) -> Result<DeploymentJob> {
    if new == *old {
        return Ok(new);
    }
    new.updated_at = tx.now();
    if new.state != old.state {
        count(tx, &new.counted(), Some(old.state), new.state)?;
        new.finished_at = new.state.is_final().then(|| tx.now());
    }
    tx.replace(old, &new)?;
    Ok(new)
}

// ── Days ─────────────────────────────────────────────────────────────────────

/// A day in days since 1970, UTC.
pub type Day = u32;

/// The seconds of a day.
pub const DAY_SECS: i64 = 24 * 3600;

// ── Scopes ───────────────────────────────────────────────────────────────────

/// The environment, registries and agents of a job.
pub enum Scope {}

crate::base::portable! {
/// A registry or agent of a scope.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentScope {
    /// The registry or agent.
    pub subject: Id<Granted>,
    /// The environment of the scope.
    pub environment: Id<Environment>,
    pub scope: Id<Scope>,
}
}

impl Record for DeploymentScope {
    const TABLE: &'static str = "deployment_scopes";
    const EXPORT: Export<Self> = Export::WHOLE;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("subject", "history: a registry or agent may be deleted, its jobs stay counted"),
        ("environment", "history: an environment may be deleted, its jobs stay counted"),
        ("scope", "a hash of the environment, registries and agents of a job"),
    ];
    type Key = (Id<Granted>, Id<Environment>, Id<Scope>);
    fn key(&self) -> Self::Key {
        (self.subject, self.environment, self.scope)
    }
}

/// What a job is counted under, besides its state.
pub struct CountedJob<'a> {
    /// Where it deploys to.
    pub environment: Id<Environment>,
    /// The registries of its prompts.
    pub registries: &'a [Id<Registry>],
    pub agents: &'a [Id<Agent>],
    /// When it was created.
    pub created_at: Time,
}

impl CountedJob<'_> {
    /// Its registries and agents, in order.
    fn subjects(&self) -> Vec<Id<Granted>> {
        let registries = self.registries.iter().map(|registry| registry.cast());
        let agents = self.agents.iter().map(|agent| agent.cast());
        let mut all: Vec<_> = registries.chain(agents).collect();
        all.sort();
        all
    }
}

/// Returns the scope of a job, which it enters if it is new; none for a job of tools, which every
/// member sees who may use the environment.
fn enter_scope(tx: &mut Tx, job: &CountedJob) -> Result<Option<Id<Scope>>> {
    let all = job.subjects();
    let Some(first) = all.first() else { return Ok(None) };
    let bytes = all.iter().flat_map(|subject| subject.to_bytes());
    let bytes: Vec<u8> = job.environment.to_bytes().into_iter().chain(bytes).collect();
    let hash = blake3::derive_key("roadstead 2026 scope of a deployment", &bytes);
    let scope = Id::new(Uuid::from_bytes(*hash.first_chunk().expect("a hash has 32 bytes")));
    let environment = job.environment;
    if !tx.view().has::<DeploymentScope>(&(*first, environment, scope))? {
        for subject in &all {
            tx.insert(&DeploymentScope { subject: *subject, environment, scope })?;
        }
    }
    Ok(Some(scope))
}

// ── Counts ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// The number of jobs of a day, by state.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentDay {
    /// Only jobs of this environment; none for the jobs of all.
    pub environment: Option<Id<Environment>>,
    /// Only jobs of this scope; none for the jobs of all.
    pub scope: Option<Id<Scope>>,
    pub day: Day,
    /// The jobs by state, without zeros.
    pub counts: BTreeMap<JobState, u64>,
}
}

impl Record for DeploymentDay {
    const TABLE: &'static str = "deployment_days";
    const EXPORT: Export<Self> = Export::WHOLE;
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("environment", "history: an environment may be deleted, its jobs stay counted"),
        ("scope", "a hash of the environment, registries and agents of a job"),
    ];
    type Key = (Option<Id<Environment>>, Option<Id<Scope>>, Day);
    fn key(&self) -> Self::Key {
        (self.environment, self.scope, self.day)
    }
}

/// Returns the day of a time.
pub fn day_of(time: Time) -> Day {
    Day::try_from(time.secs().div_euclid(DAY_SECS)).unwrap_or(0)
}

/// Returns the start of a day.
pub fn start_of(day: Day) -> Time {
    Time::from_millis(i64::from(day) * DAY_SECS * 1000)
}

/// Counts a job under the state `to` instead of `from`.
pub fn count(tx: &mut Tx, job: &CountedJob, from: Option<JobState>, to: JobState) -> Result<()> {
    let (day, environment) = (day_of(job.created_at), Some(job.environment));
    let scope = enter_scope(tx, job)?;
    let mut rows = vec![(None, None, day), (environment, None, day)];
    rows.extend(scope.map(|scope| (environment, Some(scope), day)));
    for (environment, scope, day) in rows {
        let row = tx.get::<DeploymentDay>(&(environment, scope, day))?;
        let mut counts = row.map(|row| row.counts).unwrap_or_default();
        if let Some(count) = from.and_then(|from| counts.get_mut(&from)) {
            *count = count.saturating_sub(1);
        }
        *counts.entry(to).or_default() += 1;
        counts.retain(|_, count| *count > 0);
        tx.put(&DeploymentDay { environment, scope, day, counts })?;
    }
    Ok(())
}
