//! A team's agents: who is in it, as what, and where they are woken.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::team::Team;
use crate::base::{HttpUrl, Id, Result, Skill, StableKey, Time};
use crate::resources::agents::Agent;
use crate::store::{AnyIndex, Index, Record, View};

/// What an agent is in a team.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Encode, Decode, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum MemberRole {
    /// Works in it.
    Member,
    /// Looks after what is assigned to nobody; one in a team.
    ScrumMaster,
}

/// That an agent is in a team. Its id is the `agentId` of everything in the team (contract §6).
#[derive(Clone, Debug, Encode, Decode)]
pub struct Member {
    /// Its id in the team.
    pub id: Id<Member>,
    /// The team.
    pub team: Id<Team>,
    /// The agent.
    pub agent: Id<Agent>,
    /// The agent's stable key, which never changes.
    pub stable_key: StableKey,
    /// As what.
    pub role: MemberRole,
    /// What it can do.
    pub skills: Vec<Skill>,
    /// Where its wakes are posted.
    pub wake_url: Option<HttpUrl>,
    /// The key they are signed with, sealed; made with the first `wake_url` and kept.
    pub wake_secret: Option<Vec<u8>>,
    /// Since when.
    pub hired_at: Time,
}

static BY_AGENT: Index<Member, (Id<Team>, Id<Agent>)> = Index::unique(
    "team_agents.by_agent",
    "agent_in_team",
    "this agent is in the team already",
    |member| Some((member.team, member.agent)),
);

static SCRUM_MASTERS: Index<Member, Id<Team>> = Index::unique(
    "team_agents.scrum_masters",
    "scrum_master_taken",
    "the team has a Scrum Master already; give that agent another role first",
    |member| (member.role == MemberRole::ScrumMaster).then_some(member.team),
);

impl Record for Member {
    const TABLE: &'static str = "team_agents";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_AGENT, &SCRUM_MASTERS];
    type Key = (Id<Team>, Id<Member>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
}

/// The member of this team with this id, or 404. Whether the team exists is the caller's to ask.
pub fn fetch_member(view: &View, team: Id<Team>, id: Id<Member>) -> Result<Member> {
    view.fetch(&(team, id))
}

/// The team's Scrum Master, if it has one.
pub fn scrum_master(view: &View, team: Id<Team>) -> Result<Option<Member>> {
    view.find(&SCRUM_MASTERS, &team)
}
