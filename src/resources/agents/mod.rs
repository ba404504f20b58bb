//! Agents: the organization's records of its AI agents (reference: agents, "Agents"). An
//! agent has a draft that is changed in place ([`config`]) and numbered versions, each a
//! permanent copy of the draft ([`versions`]).
//!
//! An agent is addressed by its stable key. It cannot be deleted while it is in a team.

mod config;
mod versions;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::MEMBER;
use crate::base::{Description, Error, Id, Name, Nullable, Result, StableKey, Time};
use crate::store::{AnyIndex, Index, ListSource, Order, Page, Record, TableInfo, Tx, View};

use config::AgentConfigPatch;
pub use config::{
    AgentConfig, MAX_TOOL_REFS, Model, PromptName, PromptVersion, Provider, RegistryRef, ToolRef,
    Variables,
};
pub use versions::{AgentChange, changes, version};

/// Agents and their versions.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Agent>()],
    children: &[&versions::RESOURCE],
    ..Resource::EMPTY
};

// ── Records ──────────────────────────────────────────────────────────────────

/// An AI agent.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Agent {
    pub id: Id<Agent>,
    /// Its name in paths, unique in the organization. Never changes.
    pub stable_key: StableKey,
    pub name: Name,
    pub description: Option<Description>,
    /// The fleet it belongs to.
    pub fleet_id: Option<Id<Fleet>>,
    /// The configuration that the next version copies.
    pub draft: AgentConfig,
    /// Starts at 1 and increases by 1 whenever the draft changes.
    pub draft_revision: u32,
    /// The number of its newest version.
    pub latest_version: Option<u32>,
    /// The worst of its states in the environments it is deployed to; maintained by
    /// `deployments`.
    pub status: AgentStatus,
    pub created_at: Time,
    /// When any field last changed, its status aside.
    pub updated_at: Time,
}

/// A group of agents. Only a marker for ids.
pub enum Fleet {}

static BY_STABLE_KEY: Index<Agent, StableKey> = Index::unique(
    "agents.by_stable_key",
    "stable_key_taken",
    "an agent with this stableKey already exists; choose another",
    |agent| Some(agent.stable_key.clone()),
);

static BY_FLEET: Index<Agent, Id<Fleet>> =
    Index::non_unique("agents.by_fleet", |agent| agent.fleet_id);

static BY_STATUS: Index<Agent, AgentStatus> =
    Index::non_unique("agents.by_status", |agent| Some(agent.status));

impl Record for Agent {
    const TABLE: &'static str = "agents";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] =
        &[&BY_STABLE_KEY, &BY_FLEET, &BY_STATUS];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("fleet_id", "there are no fleets yet"),
        ("draft.tool_refs.tool_id", "a tool may be deleted while agents use it"),
    ];
    type Key = Id<Agent>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// An agent to create.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewAgent {
    stable_key: StableKey,
    name: Name,
    description: Option<Description>,
    fleet_id: Option<Id<Fleet>>,
    draft: Option<AgentConfigPatch>,
}

impl Input for NewAgent {}

/// Changes to an agent; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentPatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    #[serde(default)]
    fleet_id: Nullable<Id<Fleet>>,
    draft: Option<AgentConfigPatch>,
}

impl Input for AgentPatch {}

/// The filter of a list of agents.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentFilter {
    fleet_id: Option<Id<Fleet>>,
    status: Option<AgentStatus>,
}

impl Input for AgentFilter {}

/// The status of an agent over all environments it is deployed to: the worst, in this order.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum AgentStatus {
    /// It reported an error.
    Error,
    /// It has not reported for too long.
    Stale,
    /// It runs something other than what was deployed.
    Drifted,
    /// It is deployed.
    Deployed,
    /// It is deployed nowhere.
    Undeployed,
}
crate::store::stored_enum!(AgentStatus {
    Error = 0,
    Stale = 1,
    Drifted = 2,
    Deployed = 3,
    Undeployed = 4,
});

/// An agent as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Agent")]
pub struct AgentInfo {
    id: Id<Agent>,
    stable_key: StableKey,
    name: Name,
    description: Option<Description>,
    fleet_id: Option<Id<Fleet>>,
    draft: AgentConfig,
    draft_revision: u32,
    latest_version: Option<u32>,
    status: AgentStatus,
    created_at: Time,
    updated_at: Time,
}

impl Output for AgentInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn info(agent: Agent) -> AgentInfo {
    AgentInfo {
        id: agent.id,
        stable_key: agent.stable_key,
        name: agent.name,
        description: agent.description,
        fleet_id: agent.fleet_id,
        draft: agent.draft,
        draft_revision: agent.draft_revision,
        latest_version: agent.latest_version,
        status: agent.status,
        created_at: agent.created_at,
        updated_at: agent.updated_at,
    }
}

// ── For other resources ──────────────────────────────────────────────────────

/// Returns the agent with this stable key.
pub fn by_stable_key(view: &View, stable_key: &str) -> Result<Option<Agent>> {
    match StableKey::parse(stable_key) {
        Ok(stable_key) => view.find(&BY_STABLE_KEY, &stable_key),
        Err(_) => Ok(None),
    }
}

/// Returns the agent with this id or stable key.
pub fn find(view: &View, reference: &str) -> Result<Option<Agent>> {
    let id = Id::parse(reference);
    if id.is_nil() { by_stable_key(view, reference) } else { view.get(&id) }
}

/// Sets the status of an agent.
///
/// # Errors
/// 404 if there is no such agent.
pub fn set_status(tx: &mut Tx, id: Id<Agent>, status: AgentStatus) -> Result<()> {
    let old: Agent = tx.fetch(&id)?;
    if old.status == status {
        return Ok(());
    }
    tx.replace(&old, &Agent { status, ..old.clone() })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<(), AgentFilter>) -> Result<Page<AgentInfo>> {
    let AgentFilter { fleet_id, status } = &req.input;
    let page = match (fleet_id, status) {
        (None, None) => view.page(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true),
        (None, Some(status)) => {
            view.page(&BY_STATUS, status, Order::Descending, &req.page, |_| true)
        }
        (Some(fleet), status) => {
            let is_wanted = |agent: &Agent| status.is_none_or(|status| agent.status == status);
            view.page(&BY_FLEET, fleet, Order::Descending, &req.page, is_wanted)
        }
    };
    Ok(page?.map(info))
}

fn get(view: &View, req: &Req<String>) -> Result<AgentInfo> {
    fetch(view, &req.params).map(info)
}

/// Returns the agent with this stable key, or 404.
pub fn fetch(view: &View, stable_key: &str) -> Result<Agent> {
    by_stable_key(view, stable_key)?.ok_or_else(Error::not_found)
}

fn create(tx: &mut Tx, req: &Req<(), NewAgent>) -> Result<AgentInfo> {
    let new = &req.input;
    require_fleet(new.fleet_id.as_ref())?;
    let nothing = AgentConfig::default();
    let draft = match &new.draft {
        Some(draft) => draft.applied_to(&tx.view(), &nothing)?,
        None => nothing,
    };
    let agent = Agent {
        id: tx.new_id(),
        stable_key: new.stable_key.clone(),
        name: new.name.clone(),
        description: new.description.clone(),
        fleet_id: new.fleet_id,
        draft,
        draft_revision: 1,
        latest_version: None,
        status: AgentStatus::Undeployed,
        created_at: tx.now(),
        updated_at: tx.now(),
    };
    tx.insert(&agent)?;
    Ok(info(agent))
}

/// Refuses every fleet id with 404: there are no fleets yet.
fn require_fleet(fleet: Option<&Id<Fleet>>) -> Result<()> {
    fleet.map_or(Ok(()), |_| Err(Error::not_found()))
}

fn update(tx: &mut Tx, req: &Req<String, AgentPatch>) -> Result<AgentInfo> {
    let patch = &req.input;
    let old = fetch(&tx.view(), &req.params)?;
    require_fleet(patch.fleet_id.value())?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    patch.fleet_id.clone().apply(&mut new.fleet_id);
    if let Some(draft) = &patch.draft {
        new.draft = draft.applied_to(&tx.view(), &old.draft)?;
    }
    save(tx, &old, new).map(info)
}

/// Replaces `old` by `new` if they differ, with a new `draftRevision` if the draft does.
fn save(tx: &mut Tx, old: &Agent, mut new: Agent) -> Result<Agent> {
    if new == *old {
        return Ok(new);
    }
    if new.draft != old.draft {
        new.draft_revision += 1;
    }
    new.updated_at = tx.now();
    tx.replace(old, &new)?;
    Ok(new)
}

/// Deletes an agent with its versions; 409 while it is in a team.
pub fn delete(tx: &mut Tx, req: &Req<String>) -> Result<Deleted> {
    let agent = fetch(&tx.view(), &req.params)?;
    tx.remove(&agent)?;
    Ok(Deleted::new(agent.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get("/agents", MEMBER, "agent.list", op::list(list))
            .about("List agents, newest first"),
        Route::post("/agents", MEMBER, "agent.create", op::write(create)).about("Create an agent"),
        Route::get("/agents/{stableKey}", MEMBER, "agent.show", op::read(get))
            .about("Get an agent"),
        Route::patch("/agents/{stableKey}", MEMBER, "agent.update", op::write(update))
            .about("Update an agent or its draft"),
        Route::delete("/agents/{stableKey}", MEMBER, "agent.delete", op::write(delete))
            .about("Delete an agent with its versions"),
    ]
}

#[cfg(test)]
pub mod tests;
