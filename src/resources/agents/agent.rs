//! The record of an agent, what the API returns of it, and how it is found and saved.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::config::AgentConfig;
use super::status::{AgentStatus, PlaceStatus, SeenStatus, worst};
use crate::api::{Output, ResourceRef};
use crate::auth::{Access, Caller, Granted, ResourceType, Restrictable, Restricted, User};
use crate::base::{Description, Id, Name, Result, StableKey, Tag, Time};
use crate::resources::fleet::Fleet;
use crate::resources::pauses::{self, Pause, PauseScope, Paused};
use crate::resources::tags;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Record, Reference, Tx, View, codec,
    no_upgrade,
};

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
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
    /// Its state in each environment, of which `status` is the worst. `None` of an agent that an
    /// earlier version stored, until `deployments` has found out.
    pub places: Option<Vec<PlaceStatus>>,
    /// Set while it is paused in all of its teams.
    pub paused: Option<Paused>,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
    pub tags: Vec<Tag>,
}
}

/// An agent as stored in version 1, without the states in each environment. Its fields never change.
#[derive(Encode, Decode)]
struct AgentV1 {
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

impl From<AgentV1> for Agent {
    fn from(old: AgentV1) -> Self {
        let AgentV1 { id, stable_key, name, description, fleet_id, draft, .. } = old;
        let AgentV1 { draft_revision, latest_version, status, created_at, updated_at, .. } = old;
        let places = (status == AgentStatus::Undeployed).then(Vec::new);
        Agent {
            id,
            stable_key,
            name,
            description,
            fleet_id,
            draft,
            draft_revision,
            latest_version,
            status,
            created_at,
            updated_at,
            places,
            paused: None,
            updated_by: None,
            tags: Vec::new(),
        }
    }
}

static BY_STABLE_KEY: Index<Restricted<Agent>, StableKey> = Index::unique(
    "agents.by_stable_key",
    "stable_key_taken",
    "an agent with this stableKey already exists; choose another",
    |agent| Some(agent.without_caller().stable_key.clone()),
);

/// Agents by fleet.
pub static BY_FLEET: Index<Restricted<Agent>, Id<Fleet>> =
    Index::non_unique("agents.by_fleet", |agent| agent.without_caller().fleet_id);

/// Agents by status.
pub static BY_STATUS: Index<Restricted<Agent>, AgentStatus> =
    Index::non_unique("agents.by_status", |agent| Some(agent.without_caller().status));

/// Agents by each of their tags, folded.
pub static BY_TAG: Index<Restricted<Agent>, String> =
    Index::of_several("agents.by_tag", |agent| tags::keys(&agent.without_caller().tags));

/// Agents whose states in each environment are not known yet.
pub static WITHOUT_PLACES: Index<Restricted<Agent>, ()> =
    Index::non_unique("agents.without_places", |agent| {
        agent.without_caller().places.is_none().then_some(())
    });

/// Stable keys and names of agents by fleet, so that those of a fleet are listed without reading the
/// agents, whose drafts are large.
pub static NAMES_BY_FLEET: Index<Restricted<Agent>, (Id<Fleet>, StableKey, Name)> =
    Index::non_unique("agents.names_by_fleet", |agent| {
        let agent = agent.without_caller();
        agent.fleet_id.map(|fleet| (fleet, agent.stable_key.clone(), agent.name.clone()))
    });

/// Fleets by agent, so that who may use an agent is known without reading it.
pub static FLEETS: Index<Restricted<Agent>, (Id<Agent>, Id<Fleet>)> =
    Index::non_unique("agents.fleets", |agent| {
        let agent = agent.without_caller();
        agent.fleet_id.map(|fleet| (agent.id, fleet))
    });

/// The agents that are paused in all of their teams, so that those that are not need not be read.
static PAUSED: Index<Restricted<Agent>, Id<Agent>> = Index::non_unique("agents.paused", |agent| {
    let agent = agent.without_caller();
    agent.paused.is_some().then_some(agent.id)
});

static FLEET: Reference<Restricted<Agent>, Restricted<Fleet>> = Reference::clear(
    &["fleet_id"],
    |tx, agent: &Restricted<Agent>, _| {
        let (updated_at, updated_by) = (tx.now(), None);
        let left =
            Agent { fleet_id: None, updated_at, updated_by, ..agent.without_caller().clone() };
        Ok(Restricted::new(left))
    },
    |fleet: &Restricted<Fleet>| fleet.id().to_bytes(),
    |agent: &Restricted<Agent>, _| {
        agent.without_caller().fleet_id.map(|fleet| fleet.to_bytes()).into_iter().collect()
    },
)
.by(&BY_FLEET)
.deferred();

impl Record for Restricted<Agent> {
    const TABLE: &'static str = "agents";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[
        &BY_STABLE_KEY,
        &BY_FLEET,
        &BY_STATUS,
        &BY_TAG,
        &WITHOUT_PLACES,
        &NAMES_BY_FLEET,
        &FLEETS,
        &PAUSED,
    ];
    const VERSION: u8 = 4;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&FLEET];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("draft.tool_refs.tool_id", "a tool may be deleted while agents use it"),
        ("places.environment", "follows what is live and was reported there, which go with it"),
    ];
    type Key = Id<Agent>;
    fn key(&self) -> Self::Key {
        self.id()
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        self.remember_deleted(tx)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(Restricted::new(codec::decode_body::<AgentV1>(body)?.into())),
            2 | 3 => codec::decode_shorter(body),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// An agent is as restricted as its fleet.
impl Restrictable for Agent {
    const KIND: ResourceType = ResourceType::Fleet;
    fn id(&self) -> Id<Self> {
        self.id
    }
    fn guard(&self) -> Option<Id<Granted>> {
        self.fleet_id.map(|fleet| fleet.cast())
    }
    fn access(&self, view: &View) -> Result<Access> {
        match self.fleet(view)? {
            Some(fleet) => fleet.without_caller().access(view),
            None => Ok(Access::Organization),
        }
    }
}

impl Agent {
    /// The status of the agent as a caller sees it.
    pub fn status(&self, seen: &SeenStatus) -> AgentStatus {
        seen.seen(self.status, self.places.as_deref())
    }

    /// Returns its fleet; `None` also for one that is deleted and not taken from its agents yet.
    fn fleet(&self, view: &View) -> Result<Option<Restricted<Fleet>>> {
        self.fleet_id.map_or(Ok(None), |fleet| view.get(&fleet))
    }
}

// ── What callers see ─────────────────────────────────────────────────────────

/// An agent as the API returns it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Agent")]
pub struct AgentInfo {
    pub id: Id<Agent>,
    pub stable_key: StableKey,
    pub name: Name,
    pub description: Option<Description>,
    pub fleet_id: Option<Id<Fleet>>,
    /// The configuration that is being edited; versions are snapshots of it.
    pub draft: AgentConfig,
    /// Rises whenever the draft changes.
    pub draft_revision: u32,
    /// The number of the newest version; null if there is none.
    pub latest_version: Option<u32>,
    /// The worst status of the agent in any environment that the caller may use.
    pub status: AgentStatus,
    /// What holds it back in all of its teams; null if nothing does.
    pub paused: Option<Pause>,
    pub tags: Vec<Tag>,
    pub created_at: Time,
    pub updated_at: Time,
    pub updated_by: Option<Id<User>>,
}

impl Output for AgentInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Returns an agent as the API returns it to a caller who sees this of its status.
pub fn info(view: &View, seen: &SeenStatus, agent: Agent) -> Result<AgentInfo> {
    let status = agent.status(seen);
    let fleet = agent.fleet(view)?;
    let own = agent.paused.map(|paused| Pause::of(PauseScope::Agent, paused));
    Ok(AgentInfo {
        id: agent.id,
        stable_key: agent.stable_key,
        name: agent.name,
        description: agent.description,
        fleet_id: fleet.map(|fleet| fleet.id()),
        draft: agent.draft,
        draft_revision: agent.draft_revision,
        latest_version: agent.latest_version,
        status,
        paused: pauses::of_all(view)?.or(own),
        tags: agent.tags,
        created_at: agent.created_at,
        updated_at: agent.updated_at,
        updated_by: agent.updated_by,
    })
}

/// Returns an agent as the API returns it to a caller.
pub fn shown(view: &View, caller: &Caller, agent: Agent) -> Result<AgentInfo> {
    info(view, &SeenStatus::of(view, caller)?, agent)
}

// ── Finding and saving ───────────────────────────────────────────────────────

/// Returns the agent with this stable key.
pub fn by_stable_key(view: &View, stable_key: &str) -> Result<Option<Restricted<Agent>>> {
    match StableKey::parse(stable_key) {
        Ok(stable_key) => view.find(&BY_STABLE_KEY, &stable_key),
        Err(_) => Ok(None),
    }
}

/// Returns the agent with this stable key if the caller may use it.
///
/// # Errors
/// 404 if there is none, 403 if its fleet is restricted and the caller has no grant.
pub fn fetch(view: &View, caller: &Caller, stable_key: &str) -> Result<Agent> {
    let missing = || Restricted::<Agent>::missing(&stable_key.to_string());
    by_stable_key(view, stable_key)?.ok_or_else(missing)?.open(view, caller)
}

/// Returns the agent with this id or stable key.
///
/// # Errors
/// 404 if there is none.
pub fn find(view: &View, reference: &str) -> Result<Restricted<Agent>> {
    let id = Id::parse(reference);
    let found = if id.is_nil() { by_stable_key(view, reference)? } else { view.get(&id)? };
    found.ok_or_else(|| Restricted::<Agent>::missing(&reference.to_string()))
}

/// Sets the status of an agent in each environment.
///
/// # Errors
/// 404 if there is no such agent.
pub fn set_statuses(tx: &mut Tx, id: Id<Agent>, places: Vec<PlaceStatus>) -> Result<()> {
    let old: Restricted<Agent> = tx.fetch(&id)?;
    let agent = old.without_caller().clone();
    let status = worst(places.iter().map(|place| place.status));
    let places = Some(places);
    if agent.status == status && agent.places == places {
        return Ok(());
    }
    tx.replace(&old, &Restricted::new(Agent { status, places, ..agent }))
}

/// Pauses an agent in all of its teams, or ends that. One that is paused already stays as it is.
///
/// # Errors
/// 404 if there is none, 403 if its fleet is restricted and the caller has no grant.
pub fn set_paused(
    tx: &mut Tx,
    caller: &Caller,
    stable_key: &str,
    paused: Option<Paused>,
) -> Result<Agent> {
    let old = fetch(&tx.view(), caller, stable_key)?;
    if old.paused.is_some() == paused.is_some() {
        return Ok(old);
    }
    let new = Agent { paused, ..old.clone() };
    save(tx, caller, &old, new)
}

/// Returns the pause of an agent in all of its teams, if it is paused so.
pub fn pause_of(view: &View, id: Id<Agent>) -> Result<Option<Pause>> {
    let agent: Option<Restricted<Agent>> = view.first(&PAUSED, &id, Order::Ascending)?;
    let paused = agent.and_then(|agent| agent.without_caller().paused.clone());
    Ok(paused.map(|paused| Pause::of(PauseScope::Agent, paused)))
}

/// Replaces `old` by `new`, on behalf of the caller, if they differ; with a new `draftRevision` if the
/// draft does.
pub fn save(tx: &mut Tx, caller: &Caller, old: &Agent, mut new: Agent) -> Result<Agent> {
    if new == *old {
        return Ok(new);
    }
    if new.draft != old.draft {
        new.draft_revision += 1;
    }
    (new.updated_at, new.updated_by) = (tx.now(), Some(caller.user()));
    tx.replace(&Restricted::new(old.clone()), &Restricted::new(new.clone()))?;
    Ok(new)
}
