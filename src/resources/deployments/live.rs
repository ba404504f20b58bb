//! The records of deployments, and which of them is live: one for each agent and environment.

use bincode::{Decode, Encode};
use uuid::Uuid;

use super::contents::ContentHash;
use super::job::DeploymentJob;
use crate::auth::{Restricted, User};
use crate::base::{ArtifactName, Id, Result, StableKey, Time, Version};
use crate::resources::agents::{Agent, Model, Provider};
use crate::resources::artifacts::{ArtifactId, Numbers, VersionRecord, numbers};
use crate::resources::environments::Environment;
use crate::resources::registries::Registry;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, Topic, Tx, View, codec,
    no_upgrade,
};

// ── Deployments ──────────────────────────────────────────────────────────────

crate::base::portable! {
/// A deployment of an agent to an environment, as it was applied. It never changes and is never
/// removed.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Deployment {
    pub id: Id<Deployment>,
    /// The job that applied it, which has its contents.
    pub job: Id<DeploymentJob>,
    pub agent: Id<Agent>,
    /// The agent's stable key.
    pub stable_key: StableKey,
    pub environment: Id<Environment>,
    /// The registry of the prompt.
    pub registry: Id<Registry>,
    /// `<orgSlug>/<registrySlug>` of the registry.
    pub registry_ref: String,
    pub prompt_name: ArtifactName,
    /// The version of the prompt.
    pub version: Version,
    /// The provider of the model.
    pub provider: Provider,
    pub model: Model,
    /// The filled text.
    pub text: ContentHash,
    /// The configuration in force.
    pub config: ContentHash,
    /// The definitions of the tools.
    pub tools: Vec<ContentHash>,
    /// The hash of all that, in lower-case hexadecimal.
    pub hash: String,
    /// The size of text, configuration and tools, in bytes.
    pub bytes: u64,
    /// What was live before it.
    pub previous: Option<Id<Deployment>>,
    /// The user who created the job.
    pub deployed_by: Id<User>,
    /// When it was applied.
    pub deployed_at: Time,
}
}

/// Deployments by time.
pub static BY_TIME: Index<Deployment, Time> =
    Index::non_unique("deployments.by_time", |deployment| Some(deployment.deployed_at));

/// Deployments by agent and time.
pub static BY_AGENT: Index<Deployment, (Id<Agent>, Time)> =
    Index::non_unique("deployments.by_agent", |deployment| {
        Some((deployment.agent, deployment.deployed_at))
    });

/// Deployments by environment and time.
pub static BY_ENVIRONMENT: Index<Deployment, (Id<Environment>, Time)> =
    Index::non_unique("deployments.by_environment", |deployment| {
        Some((deployment.environment, deployment.deployed_at))
    });

/// Deployments by agent, environment and time.
pub static BY_AGENT_AND_ENVIRONMENT: Index<Deployment, (Id<Agent>, Id<Environment>, Time)> =
    Index::non_unique("deployments.by_agent_and_environment", |deployment| {
        Some((deployment.agent, deployment.environment, deployment.deployed_at))
    });

impl Record for Deployment {
    const TABLE: &'static str = "deployments";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_TIME, &BY_AGENT, &BY_ENVIRONMENT, &BY_AGENT_AND_ENVIRONMENT];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("job", "jobs are not removed"),
        ("agent", "history: the agent may have been deleted"),
        ("environment", "history: the environment may have been deleted"),
        ("registry", "history: the registry may have been deleted"),
        ("previous", "deployments are not removed"),
        ("deployed_by", "history: who deployed may have left"),
    ];
    type Key = Id<Deployment>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

// ── What is live ─────────────────────────────────────────────────────────────

crate::base::portable! {
/// The live deployment of an agent in an environment.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct LiveDeployment {
    pub agent: Id<Agent>,
    pub environment: Id<Environment>,
    pub deployment: Id<Deployment>,
    /// The job that applied it.
    pub job: Id<DeploymentJob>,
    /// The hash of the deployment.
    pub hash: String,
    /// The version of the prompt; none if it had been deleted before it was applied.
    pub used: Option<UsedVersion>,
    /// The registry of the prompt, also if that version had been deleted; none if the registry had
    /// been deleted itself.
    pub registry: Option<Id<Registry>>,
}
}

/// What is live as stored in version 1, without the registry. Its fields never change.
#[derive(Encode, Decode)]
struct LiveDeploymentV1 {
    agent: Id<Agent>,
    environment: Id<Environment>,
    deployment: Id<Deployment>,
    job: Id<DeploymentJob>,
    hash: String,
    used: Option<UsedVersion>,
}

impl From<LiveDeploymentV1> for LiveDeployment {
    fn from(old: LiveDeploymentV1) -> Self {
        let LiveDeploymentV1 { agent, environment, deployment, job, hash, used } = old;
        let registry = used.as_ref().map(|used| used.of.registry);
        LiveDeployment { agent, environment, deployment, job, hash, used, registry }
    }
}

crate::base::portable! {
/// The version of a prompt that is live.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct UsedVersion {
    /// The prompt.
    pub of: ArtifactId,
    pub version: Version,
}
}

static IN_ENVIRONMENT: Index<LiveDeployment, Id<Environment>> =
    Index::non_unique("live_deployments.by_environment", |live| Some(live.environment));

static FROM_REGISTRY: Index<LiveDeployment, Id<Registry>> =
    Index::non_unique("live_deployments.by_registry", |live| live.registry);

/// What is live by prompt and version.
pub static USES: Index<LiveDeployment, (ArtifactId, Numbers)> =
    Index::non_unique("live_deployments.by_version", |live| {
        live.used.as_ref().map(|used| (used.of.clone(), numbers(&used.version)))
    });

static AGENT: Reference<LiveDeployment, Restricted<Agent>> = Reference::cascade(
    &["agent"],
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |live: &LiveDeployment, _| vec![live.agent.to_bytes()],
);

static ENVIRONMENT: Reference<LiveDeployment, Restricted<Environment>> = Reference::restrict(
    &["environment"],
    "deployment_live",
    "agents are deployed to this environment; delete them first",
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |live: &LiveDeployment, _| vec![live.environment.to_bytes()],
)
.by(&IN_ENVIRONMENT);

static REGISTRY: Reference<LiveDeployment, Restricted<Registry>> = Reference::restrict(
    &["registry"],
    "registry_deployed",
    "agents are deployed from this registry; deploy them from another one first",
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |live: &LiveDeployment, _| live.registry.iter().map(Key::to_bytes).collect(),
)
.by(&FROM_REGISTRY);

static VERSION: Reference<LiveDeployment, VersionRecord> = Reference::restrict(
    &["used.of.registry"],
    "version_deployed",
    "this version is deployed; deploy another version in its place first",
    |row: &VersionRecord| (row.of.clone(), numbers(&row.version)).to_bytes(),
    |live: &LiveDeployment, _| {
        let used = live.used.iter();
        used.map(|used| (used.of.clone(), numbers(&used.version)).to_bytes()).collect()
    },
)
.by(&USES);

impl Record for LiveDeployment {
    const TABLE: &'static str = "live_deployments";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&IN_ENVIRONMENT, &FROM_REGISTRY, &USES];
    const VERSION: u8 = 2;
    const REFERENCES: &'static [&'static dyn AnyReference] =
        &[&AGENT, &ENVIRONMENT, &REGISTRY, &VERSION];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("deployment", "deployments are not removed"), ("job", "jobs are not removed")];
    type Key = (Id<Agent>, Id<Environment>);
    fn key(&self) -> Self::Key {
        (self.agent, self.environment)
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        tx.signal(topic(self.agent, self.environment));
        Ok(())
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<LiveDeploymentV1>(body)?.into()),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// Returns the topic that is signalled when another deployment of an agent becomes live in an
/// environment.
pub fn topic(agent: Id<Agent>, environment: Id<Environment>) -> Topic {
    let both = (agent, environment).to_bytes();
    let hash = blake3::derive_key("roadstead 2026 topic of a live deployment", &both);
    Uuid::from_bytes(*hash.first_chunk().expect("a key has 32 bytes"))
}

/// Returns what is live of an agent in an environment.
pub fn live(
    view: &View,
    agent: Id<Agent>,
    environment: Id<Environment>,
) -> Result<Option<LiveDeployment>> {
    view.get(&(agent, environment))
}

/// Whether a deployment is live.
pub fn is_live(view: &View, deployment: &Deployment) -> Result<bool> {
    let live = live(view, deployment.agent, deployment.environment)?;
    Ok(live.is_some_and(|live| live.deployment == deployment.id))
}

/// Replaces what is live.
pub fn set_live(tx: &mut Tx, live: &LiveDeployment) -> Result<()> {
    tx.signal(topic(live.agent, live.environment));
    tx.put(live)
}
