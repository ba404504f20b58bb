//! Versions of an agent: permanent copies of its draft
//! (reference: agents, "Versions of agents").
//!
//! They are numbered 1, 2, … without gaps, also under concurrent requests. Restoring one copies
//! it into the draft; a version never changes.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::agent::{Agent, AgentInfo, fetch, save, shown};
use super::config::AgentConfig;
use crate::api::{Input, Output, PathParam, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, Restricted, ScopeName, User};
use crate::base::{Error, Id, Json, Result, StableKey, Time, VersionMessage, canonical};
use crate::store::{
    AnyReference, Export, Key, ListSource, Order, Page, Record, Reference, TableInfo, Tx, View,
    upgrade_shorter,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<AgentVersion>()], ..Resource::EMPTY };

/// An agent has at most 10,000 versions: more than one a day for 27 years.
const MAX_VERSIONS: u32 = 10_000;

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A version of an agent: a copy of its draft.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentVersion {
    pub id: Id<AgentVersion>,
    #[serde(skip)]
    agent: Id<Agent>,
    /// The agent's stable key.
    pub stable_key: StableKey,
    /// Its number, from 1.
    pub version: u32,
    /// The draft exactly as it was.
    pub config: AgentConfig,
    /// BLAKE3 of the canonical JSON (RFC 8785) of `config`, in lower-case hexadecimal: equal for equal
    /// configurations.
    pub hash: String,
    /// The user who created it, also through a key.
    pub created_by: Id<User>,
    pub created_at: Time,
    /// What changed and why, as who created it says.
    pub message: Option<VersionMessage>,
}
}

impl Output for AgentVersion {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

static AGENT: Reference<AgentVersion, Restricted<Agent>> = Reference::cascade(
    &["agent"],
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |version: &AgentVersion, _| vec![version.agent.to_bytes()],
)
.deferred();

impl Record for AgentVersion {
    const TABLE: &'static str = "agent_versions";
    const NOUN: &'static str = "version";
    const EXPORT: Export<Self> = Export::WHOLE.inserted_by(|tx, version| {
        // The reference of its registry may have followed the organization's slug.
        tx.insert(&AgentVersion { hash: hash(&version.config)?, ..version.clone() })
    });
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&AGENT];
    const VERSION: u8 = 2;
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("config.tool_refs.tool_id", "history: a version never changes, a tool may be deleted")];
    type Key = (Id<Agent>, u32);
    fn key(&self) -> Self::Key {
        (self.agent, self.version)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        // Without a message.
        upgrade_shorter(version, 1, body)
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// A version of an agent's draft to create.
#[derive(Default, Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"message": "Answer in the language of the question."}]))]
pub struct NewAgentVersion {
    /// What changed and why.
    message: Option<VersionMessage>,
}

impl Input for NewAgentVersion {}

/// The versions to compare. A malformed number is a version that does not exist, as in a path
/// (reference: conventions, "Ids").
#[derive(Deserialize, JsonSchema)]
pub struct DiffQuery {
    #[schemars(with = "u32")]
    /// The number of the version to compare from.
    from: String,
    #[schemars(with = "u32")]
    /// The number of the version to compare with.
    to: String,
}

impl Input for DiffQuery {}

/// The differences between two versions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentDiff {
    /// The number of the first version.
    from: u32,
    /// The number of the second version.
    to: u32,
    /// The message of the first version.
    from_message: Option<VersionMessage>,
    /// The message of the second version.
    to_message: Option<VersionMessage>,
    /// Empty if the configurations are equal.
    changes: Vec<AgentChange>,
}

impl Output for AgentDiff {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A value that differs between two versions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct AgentChange {
    /// The dotted path in the configuration.
    path: String,
    /// The value in the first version; null if absent.
    from: Json,
    /// The value in the second version; null if absent.
    to: Json,
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<String>) -> Result<Page<AgentVersion>> {
    let agent = fetch(view, req.caller(), &req.params)?;
    view.page(ListSource::TABLE, &agent.id, Order::Descending, &req.page, |_| true)
}

pub(super) fn get(view: &View, req: &Req<(String, u32)>) -> Result<AgentVersion> {
    let (stable_key, version) = &req.params;
    let agent = fetch(view, req.caller(), stable_key)?;
    view.fetch(&(agent.id, *version))
}

/// Creates a version of an agent's draft.
pub fn create(tx: &mut Tx, req: &Req<String, NewAgentVersion>) -> Result<AgentVersion> {
    let agent = fetch(&tx.view(), req.caller(), &req.params)?;
    let number = agent.latest_version.unwrap_or(0) + 1;
    if number > MAX_VERSIONS {
        return Err(Error::conflict("agent_versions_full", "an agent has at most 10,000 versions"));
    }
    let version = AgentVersion {
        id: tx.new_id(),
        agent: agent.id,
        stable_key: agent.stable_key.clone(),
        version: number,
        hash: hash(&agent.draft)?,
        config: agent.draft.clone(),
        created_by: req.caller().user(),
        created_at: tx.now(),
        message: req.input.message.clone(),
    };
    tx.insert(&version)?;
    let latest_version = Some(number);
    save(tx, req.caller(), &agent, Agent { latest_version, ..agent.clone() })?;
    Ok(version)
}

/// Returns a version of an agent, if it exists.
pub fn version(view: &View, agent: Id<Agent>, number: u32) -> Result<Option<AgentVersion>> {
    view.get(&(agent, number))
}

/// Returns the differences between two configurations.
///
/// # Errors
/// 500 if one cannot be written as JSON.
pub fn changes(from: &AgentConfig, to: &AgentConfig) -> Result<Vec<AgentChange>> {
    let mut changes = Vec::new();
    compare("", &json(from)?, &json(to)?, &mut changes);
    Ok(changes)
}

/// Returns the differences between two values at `path`: objects are compared key by key.
pub fn changes_at(path: &str, from: &Value, to: &Value) -> Vec<AgentChange> {
    let mut changes = Vec::new();
    compare(path, from, to, &mut changes);
    changes
}

fn hash(config: &AgentConfig) -> Result<String> {
    Ok(blake3::hash(canonical(&json(config)?).as_bytes()).to_string())
}

fn json(config: &AgentConfig) -> Result<Value> {
    serde_json::to_value(config)
        .map_err(|e| Error::internal(format!("a configuration cannot be written: {e}")))
}

pub(super) fn diff(view: &View, req: &Req<String, DiffQuery>) -> Result<AgentDiff> {
    let agent = fetch(view, req.caller(), &req.params)?;
    let version = |number: &str| view.fetch::<AgentVersion>(&(agent.id, u32::parse(number)));
    let from = version(&req.input.from)?;
    let to = version(&req.input.to)?;
    let changes = changes(&from.config, &to.config)?;
    Ok(AgentDiff {
        from: from.version,
        to: to.version,
        from_message: from.message,
        to_message: to.message,
        changes,
    })
}

impl AgentChange {
    /// Its size in an answer, about.
    pub fn bytes(&self) -> usize {
        let size = |value: &Json| match &value.0 {
            Value::String(text) => text.len(),
            other => other.to_string().len(),
        };
        self.path.len() + size(&self.from) + size(&self.to)
    }
}

/// Collects the differences at `path`: objects are compared key by key, other values, also lists, as
/// a whole.
fn compare(path: &str, from: &Value, to: &Value, changes: &mut Vec<AgentChange>) {
    match (from, to) {
        _ if from == to => {}
        (Value::Object(from), Value::Object(to)) => compare_keys(path, from, to, changes),
        _ => changes.push(AgentChange {
            path: path.into(),
            from: Json(from.clone()),
            to: Json(to.clone()),
        }),
    }
}

fn compare_keys(
    path: &str,
    from: &Map<String, Value>,
    to: &Map<String, Value>,
    changes: &mut Vec<AgentChange>,
) {
    let added = to.keys().filter(|key| !from.contains_key(*key));
    for key in from.keys().chain(added) {
        let value = |map: &Map<String, Value>| map.get(key).cloned().unwrap_or_default();
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        compare(&path, &value(from), &value(to), changes);
    }
}

pub(super) fn restore(tx: &mut Tx, req: &Req<(String, u32)>) -> Result<AgentInfo> {
    let (stable_key, version) = &req.params;
    let agent = fetch(&tx.view(), req.caller(), stable_key)?;
    let version: AgentVersion = tx.fetch(&(agent.id, *version))?;
    let restored = Agent { draft: version.config, ..agent.clone() };
    let restored = save(tx, req.caller(), &agent, restored)?;
    shown(&tx.view(), req.caller(), restored)
}

// ── Routes ───────────────────────────────────────────────────────────────────

const ALL: &str = "/agents/{stableKey}/versions";
const DIFF: &str = "/agents/{stableKey}/versions/diff";
const ONE: &str = "/agents/{stableKey}/versions/{version}";
const RESTORE: &str = "/agents/{stableKey}/versions/{version}/restore";

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(ALL, MEMBER, "agent_version.list", op::walk(list))
            .needs(ScopeName::AgentRead)
            .about("List an agent's versions, newest first"),
        Route::post(ALL, MEMBER, "agent_version.create", op::write(create))
            .needs(ScopeName::AgentWrite)
            .about("Create a version of an agent's draft"),
        Route::get(DIFF, MEMBER, "agent_version.diff", op::read(diff))
            .needs(ScopeName::AgentRead)
            .about("Compare two versions of an agent"),
        Route::get(ONE, MEMBER, "agent_version.get", op::read(get))
            .needs(ScopeName::AgentRead)
            .about("Get a version of an agent"),
        Route::post(RESTORE, MEMBER, "agent_version.restore", op::write(restore))
            .needs(ScopeName::AgentWrite)
            .about("Restore a version into an agent's draft"),
    ]
}
