//! A stand-in until the agents are written: their record, found by stable key.

use bincode::{Decode, Encode};

use crate::api::Resource;
use crate::base::{Description, Id, Name, Result, StableKey, Time};
use crate::store::{AnyIndex, Index, Record, TableInfo, Tx, View};

pub const RESOURCE: Resource = Resource {
    routes: Vec::new,
    tables: &[TableInfo::of::<Agent>(), TableInfo::of::<AgentUse>()],
    jobs: &[],
    sweeps: &[],
};

/// An agent.
#[derive(Clone, Debug, Encode, Decode)]
pub struct Agent {
    /// Its id.
    pub id: Id<Agent>,
    /// How it is addressed; never changes.
    pub stable_key: StableKey,
    /// Its name.
    pub name: Name,
    pub description: Option<Description>,
    pub fleet_id: Option<Id<Agent>>,
    pub draft: Option<u32>,
    pub draft_revision: u32,
    pub latest_version: Option<u32>,
    pub created_at: Time,
    pub updated_at: Time,
}

/// In how many teams an agent is, if in any.
#[derive(Clone, Debug, Encode, Decode)]
struct AgentUse {
    agent: Id<Agent>,
    teams: u32,
}

impl Record for AgentUse {
    const TABLE: &'static str = "agents.used";
    type Key = Id<Agent>;
    fn key(&self) -> Self::Key {
        self.agent
    }
}

static BY_KEY: Index<Agent, StableKey> =
    Index::unique("agents.by_key", "stable_key_taken", "taken", |agent| {
        Some(agent.stable_key.clone())
    });

impl Record for Agent {
    const TABLE: &'static str = "agents";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_KEY];
    type Key = Id<Agent>;
    fn key(&self) -> Self::Key {
        self.id
    }
}

/// The agent with this stable key.
pub fn by_stable_key(view: &View, key: &str) -> Result<Option<Agent>> {
    match StableKey::parse(key) {
        Ok(key) => view.find(&BY_KEY, &key),
        Err(_) => Ok(None),
    }
}

/// Notes that `agent` is in one team more. It cannot be deleted as long as it is in one.
pub fn joined_team(tx: &mut Tx, agent: Id<Agent>) -> Result<()> {
    let teams = tx.get::<AgentUse>(&agent)?.map_or(0, |used| used.teams);
    tx.put(&AgentUse { agent, teams: teams + 1 })
}

/// Notes that `agent` is in one team less.
pub fn left_team(tx: &mut Tx, agent: Id<Agent>) -> Result<()> {
    let used: AgentUse = tx.fetch(&agent)?;
    match used.teams {
        1 => tx.remove(&used),
        teams => tx.replace(&used, &AgentUse { agent, teams: teams - 1 }),
    }
}
