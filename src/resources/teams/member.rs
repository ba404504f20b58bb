//! A team's agents as they are stored.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::team::Team;
use crate::base::{Error, HttpUrl, Id, Name, Result, Sealed, Skill, StableKey, Time};
use crate::outside::webhook;
use crate::resources::agents::Agent;
use crate::store::{AnyIndex, AnyReference, Index, Key, Record, Reference, Tx, View};

/// What an agent is in a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TeamAgentRole")]
pub enum MemberRole {
    /// Works in it.
    Member,
    /// Looks after what is assigned to nobody; at most one in a team.
    ScrumMaster,
}
crate::store::stored_enum!(MemberRole { Member = 0, ScrumMaster = 1 });

/// That an agent is in a team. Its id is the `agentId` of everything in the team
/// (reference: teams-and-wakes, "Teams").
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
    /// The text of the secret they are signed with, sealed; made with the first `wake_url`, kept.
    pub wake_secret: Option<Sealed>,
    /// Since when.
    pub hired_at: Time,
}

static BY_AGENT: Index<Member, (Id<Agent>, Id<Team>)> = Index::unique(
    "team_agents.by_agent",
    "agent_in_team",
    "this agent is in the team already",
    |member| Some((member.agent, member.team)),
);

static SCRUM_MASTERS: Index<Member, Id<Team>> = Index::unique(
    "team_agents.scrum_masters",
    "scrum_master_taken",
    "the team has a Scrum Master already; give that agent another role first",
    |member| (member.role == MemberRole::ScrumMaster).then_some(member.team),
);

static TEAM: Reference<Member, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |member: &Member, _| vec![member.team.to_bytes()],
)
.deferred();

static AGENT: Reference<Member, Agent> = Reference::restrict(
    &["agent"],
    "agent_in_team",
    "the agent is in a team; remove it from its teams first",
    |agent: &Agent| agent.id.to_bytes(),
    |member: &Member, _| vec![member.agent.to_bytes()],
)
.by(&BY_AGENT);

impl Record for Member {
    const TABLE: &'static str = "team_agents";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_AGENT, &SCRUM_MASTERS];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM, &AGENT];
    type Key = (Id<Team>, Id<Member>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        tx.signal(self.id.uuid()); // Whoever waits for its wakes is told that it is gone.
        Ok(())
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

/// The agent's name as it is now.
pub fn name(view: &View, member: &Member) -> Result<Name> {
    Ok(view.fetch::<Agent>(&member.agent)?.name)
}

/// The name as it is now of the member with this id; none if it has left.
pub fn name_if_there(view: &View, team: Id<Team>, id: Id<Member>) -> Result<Option<Name>> {
    view.get(&(team, id))?.map(|member| name(view, &member)).transpose()
}

/// The key that a member's wakes are signed with; none if it never had a `wakeUrl`.
pub fn wake_key(view: &View, member: &Member) -> Result<Option<Vec<u8>>> {
    let Some(sealed) = &member.wake_secret else { return Ok(None) };
    let text = view.unseal::<Member>(&member.key(), WAKE_SECRET, sealed)?;
    webhook::secret_key(&text).map(Some).ok_or_else(|| {
        Error::internal(format!("the wake secret of {} is no signing secret", member.id))
    })
}

/// The field in which a [`Member`] keeps it.
pub const WAKE_SECRET: &str = "wake_secret";

/// The member that a request names, if it names one.
pub fn fetch_optional(
    view: &View,
    team: Id<Team>,
    id: Option<Id<Member>>,
) -> Result<Option<Member>> {
    id.map(|id| fetch_member(view, team, id)).transpose()
}
