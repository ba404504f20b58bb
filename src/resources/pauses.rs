//! Pauses: somebody holds agents back (reference: teams-and-wakes, "Pausing").
//!
//! An agent is paused everywhere, or in one team; a team with all of its agents; or all agents in all
//! teams of the organization, by one row. What holds what is decided where each is stored; here is what
//! they have in common, and the pause of all.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Input, Resource};
use crate::auth::User;
use crate::base::{Description, Id, Result, Time};
use crate::store::{Export, Record, TableInfo, Tx, View};

/// The pause of all agents.
pub const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<PausedAll>()], ..Resource::EMPTY };

crate::base::portable! {
/// A pause, as what it holds back has it stored.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Paused {
    /// The user who paused it, also through a key.
    pub by: Id<User>,
    pub since: Time,
    pub reason: Option<Description>,
}
}

crate::base::portable! {
/// That all agents in all teams are paused; there is no such row if they are not.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct PausedAll {
    pub paused: Paused,
}
}

impl Record for PausedAll {
    const TABLE: &'static str = "paused_all";
    const EXPORT: Export<Self> = Export::WHOLE;
    type Key = ();
    fn key(&self) -> Self::Key {}
}

// ── What callers send and see ────────────────────────────────────────────────

/// A pause to begin.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"reason": "It answers customers twice"}],
))]
pub struct NewPause {
    /// Why, for whoever wonders.
    pub reason: Option<Description>,
}
impl Input for NewPause {}

/// The end of a pause.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{}]))]
pub struct Resume {}
impl Input for Resume {}

impl NewPause {
    /// Returns the pause that begins now.
    pub fn begun(&self, tx: &Tx, by: Id<User>) -> Paused {
        Paused { by, since: tx.now(), reason: self.reason.clone() }
    }
}

/// What is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PauseScope {
    /// All agents in all teams of the organization.
    Organization,
    /// All agents and schedules of the team.
    Team,
    /// The agent, in all of its teams.
    Agent,
    /// The agent, in this team.
    TeamAgent,
    /// The schedule.
    Schedule,
    /// All agents and schedules of the team: its budget for the month is used up.
    TeamBudget,
    /// The agent, in this team: its budget for the month is used up.
    AgentBudget,
}
crate::store::stored_enum!(PauseScope {
    Organization = 0,
    Team = 1,
    Agent = 2,
    TeamAgent = 3,
    Schedule = 4,
    TeamBudget = 5,
    AgentBudget = 6,
});

impl PauseScope {
    /// Whether it holds one agent.
    pub fn is_of_agent(self) -> bool {
        matches!(self, PauseScope::Agent | PauseScope::TeamAgent | PauseScope::AgentBudget)
    }

    /// What is paused, as the beginning of a sentence.
    pub fn subject(self) -> &'static str {
        match self {
            PauseScope::Organization => "all agents are",
            PauseScope::Team => "the team is",
            PauseScope::Agent => "the agent is",
            PauseScope::TeamAgent => "the agent is, in this team,",
            PauseScope::Schedule => "the schedule is",
            PauseScope::TeamBudget => "the team's budget is used up, so that its agents are",
            PauseScope::AgentBudget => "the agent's budget is used up, so that it is",
        }
    }
}

/// A pause that is in effect.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pause {
    /// What is paused.
    pub scope: PauseScope,
    /// The user who paused it, also through a key; null if a budget did.
    pub by: Option<Id<User>>,
    /// When it was paused.
    pub since: Time,
    /// When it ends by itself; null if it lasts until somebody ends it.
    pub ends_at: Option<Time>,
    /// Why; null if nobody said.
    pub reason: Option<Description>,
}

impl Pause {
    /// Returns a pause of this scope.
    pub fn of(scope: PauseScope, paused: Paused) -> Self {
        let Paused { by, since, reason } = paused;
        Pause { scope, by: Some(by), since, ends_at: None, reason }
    }
}

/// Returns the pause of all agents, if they are paused.
pub fn of_all(view: &View) -> Result<Option<Pause>> {
    let all = view.get::<PausedAll>(&())?;
    Ok(all.map(|all| Pause::of(PauseScope::Organization, all.paused)))
}
