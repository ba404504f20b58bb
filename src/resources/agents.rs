//! A stand-in until the agents are written: their record, found by stable key.

use bincode::{Decode, Encode};

use crate::api::Resource;
use crate::base::{Id, Name, Result, StableKey};
use crate::store::{AnyIndex, Index, Record, TableInfo, Tx, View};

pub const RESOURCE: Resource = Resource {
    routes: Vec::new,
    tables: &[TableInfo::of::<Agent>()],
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
    /// How many teams it is in.
    pub teams: u32,
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

/// Notes that an agent is in one team more.
pub fn joined_team(tx: &mut Tx, agent: Id<Agent>) -> Result<()> {
    let old: Agent = tx.fetch(&agent)?;
    tx.replace(&old, &Agent { teams: old.teams + 1, ..old.clone() })
}

/// Notes that it is in one team less.
pub fn left_team(tx: &mut Tx, agent: Id<Agent>) -> Result<()> {
    let old: Agent = tx.fetch(&agent)?;
    tx.replace(&old, &Agent { teams: old.teams - 1, ..old.clone() })
}
