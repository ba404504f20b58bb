//! The record of an agent's membership in a team, and lookups of members.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::budget::Budget;
use super::team::Team;
use crate::auth::{Restricted, User, present_caller, remember_deleted};
use crate::base::{Error, HttpUrl, Id, Int, Name, Result, Sealed, Skill, Slug, StableKey, Time};
use crate::outside::webhook;
use crate::resources::agents::{self, Agent};
use crate::resources::pauses::Paused;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Record, Reference, SealedField, Tx, View,
    codec, no_upgrade,
};

/// How often an agent is handed a wake unless it is set.
const DEFAULT_MAX_ATTEMPTS: u32 = 10;

/// The role of an agent in a team.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(rename = "TeamAgentRole")]
pub enum MemberRole {
    /// Works on tasks.
    Member,
    /// Woken for notes on unassigned tasks; at most one per team.
    ScrumMaster,
}
crate::store::stored_enum!(MemberRole { Member = 0, ScrumMaster = 1 });

crate::base::portable! {
/// The membership of an agent in a team. Its id is the `agentId` of everything in the team
/// (reference: teams-and-wakes, "Teams").
#[derive(Clone, Debug, Encode, Decode)]
pub struct Member {
    /// The agent's id in the team.
    pub id: Id<Member>,
    pub team: Id<Team>,
    /// The agent of the organization.
    pub agent: Id<Agent>,
    /// The agent's stable key, which never changes.
    pub stable_key: StableKey,
    pub role: MemberRole,
    /// What the agent can do, in the client's words.
    pub skills: Vec<Skill>,
    /// The URL its wakes are posted to.
    pub wake_url: Option<HttpUrl>,
    /// When its `wake_url` was set.
    pub wake_url_at: Time,
    /// Who set it; `None` without one, and if an earlier release stored it.
    pub wake_url_by: Option<Id<User>>,
    /// The person who answered then for the key that set it, as a service account's has one.
    pub wake_url_sponsor: Option<Id<User>>,
    /// The text of the secret that signs posted wakes, sealed. Created with the first `wake_url` and
    /// kept while the host stays the same.
    pub wake_secret: Option<Sealed>,
    pub hired_at: Time,
    /// Set while it is paused in this team.
    pub paused: Option<Paused>,
    /// How often it is handed a wake that it does not acknowledge, if that was set.
    pub max_attempts: Option<u32>,
    /// What it may spend in this team.
    pub budget: Option<Budget>,
}
}

/// A membership as stored in version 1, without who set its `wake_url`. Its fields never change.
#[derive(Encode, Decode)]
struct MemberV1 {
    id: Id<Member>,
    team: Id<Team>,
    agent: Id<Agent>,
    stable_key: StableKey,
    role: MemberRole,
    skills: Vec<Skill>,
    wake_url: Option<HttpUrl>,
    wake_url_at: Time,
    wake_secret: Option<Sealed>,
    hired_at: Time,
}

impl From<MemberV1> for Member {
    fn from(old: MemberV1) -> Self {
        Member {
            id: old.id,
            team: old.team,
            agent: old.agent,
            stable_key: old.stable_key,
            role: old.role,
            skills: old.skills,
            wake_url: old.wake_url,
            wake_url_at: old.wake_url_at,
            wake_url_by: None,
            wake_url_sponsor: None,
            wake_secret: old.wake_secret,
            hired_at: old.hired_at,
            paused: None,
            max_attempts: None,
            budget: None,
        }
    }
}

/// How often an agent is handed a wake that it does not acknowledge: 1 to 100 times.
pub type MaxAttempts = Int<1, 100>;

impl Member {
    /// How often it is handed a wake that it does not acknowledge.
    pub fn max_attempts(&self) -> u32 {
        self.max_attempts.unwrap_or(DEFAULT_MAX_ATTEMPTS)
    }

    /// The same without a `wakeUrl`, and who set it.
    pub fn without_wake_url(self) -> Self {
        Member { wake_url: None, wake_url_by: None, wake_url_sponsor: None, ..self }
    }
}

/// Members by agent and team.
pub static BY_AGENT: Index<Member, (Id<Agent>, Id<Team>)> = Index::unique(
    "team_agents.by_agent",
    "agent_in_team",
    "the agent is already in the team",
    |member| Some((member.agent, member.team)),
);

static SCRUM_MASTERS: Index<Member, Id<Team>> = Index::unique(
    "team_agents.scrum_masters",
    "scrum_master_taken",
    "the team already has a Scrum Master; give that agent another role first",
    |member| (member.role == MemberRole::ScrumMaster).then_some(member.team),
);

static TEAM: Reference<Member, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |member: &Member, _| vec![member.team.to_bytes()],
)
.deferred();

static AGENT: Reference<Member, Restricted<Agent>> = Reference::restrict(
    &["agent"],
    "agent_in_team",
    "the agent is in a team; remove it from its teams first",
    |agent: &Restricted<Agent>| agent.id().to_bytes(),
    |member: &Member, _| vec![member.agent.to_bytes()],
)
.by(&BY_AGENT);

impl Record for Member {
    const TABLE: &'static str = "team_agents";
    const NOUN: &'static str = "agent";
    const EXPORT: Export<Self> = Export::WHOLE.normalized(|member| Member {
        // Without its secret nothing could be posted; setting a URL creates another.
        ..member.without_wake_url()
    });
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_AGENT, &SCRUM_MASTERS];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM, &AGENT];
    const SEALED: &'static [&'static SealedField<Self>] = &[&WAKE_SECRET];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("wake_url_by", "history: who set it may have left"),
        ("wake_url_sponsor", "history: who answered for its key may have left"),
    ];
    const VERSION: u8 = 5;
    type Key = (Id<Team>, Id<Member>);
    fn key(&self) -> Self::Key {
        (self.team, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<MemberV1>(body)?.into()),
            2..=4 => codec::decode_shorter(body),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        tx.signal(self.id.uuid()); // Long polls for its wakes end with 404.
        // Its mail and its questions stay.
        if agents::is_open(&tx.view(), self.agent)? {
            Ok(())
        } else {
            remember_deleted(tx, self.id)
        }
    }
}

/// Returns the member of this team with this id, or 404. The caller checks that the team exists.
/// For what every member sees of an agent, and for jobs: what a request does with an agent takes a
/// [`UsableMember`](super::usable::UsableMember).
pub fn fetch_member(view: &View, team: Id<Team>, id: Id<Member>) -> Result<Member> {
    view.fetch(&(team, id))
}

/// Returns the team's Scrum Master, if it has one.
pub fn scrum_master(view: &View, team: Id<Team>) -> Result<Option<Member>> {
    view.find(&SCRUM_MASTERS, &team)
}

/// Returns the slug of a team that the agent is in: the first that it is in by the team's age.
pub fn team_of(view: &View, agent: Id<Agent>) -> Result<Option<Slug>> {
    let member = view.first(&BY_AGENT, &agent, Order::Ascending)?;
    let team: Option<Team> = member.map_or(Ok(None), |member: Member| view.get(&member.team))?;
    Ok(team.map(|team| team.slug))
}

/// Returns the agent's current name.
pub fn name(view: &View, member: &Member) -> Result<Name> {
    // Of a restricted agent, every member sees the name.
    Ok(view.fetch::<Restricted<Agent>>(&member.agent)?.without_caller().name.clone())
}

/// Whether wakes are still posted to a member's `wakeUrl`: those of a restricted agent for as long as
/// who set the URL may use the agent.
pub fn is_wake_url_permitted(view: &View, member: &Member) -> Result<bool> {
    Ok(agents::is_open(view, member.agent)? || !has_lost_setter(view, member)?)
}

/// Whether who set a member's `wakeUrl`, or answered then for the key that did, may not use the agent any
/// more; false if it is not known who that was.
pub fn has_lost_setter(view: &View, member: &Member) -> Result<bool> {
    let Some(user) = member.wake_url_by.filter(|_| member.wake_url.is_some()) else {
        return Ok(false);
    };
    let setter = present_caller(view, user, member.wake_url_sponsor, member.wake_url_at)?;
    let is_usable = |setter| agents::is_usable(view, &setter, member.agent);
    Ok(!setter.map_or(Ok(false), is_usable)?)
}

/// Removes a member's `wakeUrl`, unless it was set at or after `before`. One that was set while the clock
/// was ahead was set before.
pub fn remove_wake_url(tx: &mut Tx, member: &Member, before: Time) -> Result<bool> {
    let at = member.wake_url_at;
    let is_removed = at < before || at.is_beyond(tx.now(), 0);
    if is_removed {
        tx.replace(member, &member.clone().without_wake_url())?;
    }
    Ok(is_removed)
}

/// Returns the key that signs a member's wakes, or `None` if it never had a `wakeUrl`.
pub fn wake_key(view: &View, member: &Member) -> Result<Option<Vec<u8>>> {
    let Some(sealed) = &member.wake_secret else { return Ok(None) };
    let text = view.unseal(&WAKE_SECRET, &member.key(), sealed)?;
    webhook::secret_key(&text).map(Some).ok_or_else(|| {
        Error::internal(format!("the wake secret of {} is no signing secret", member.id))
    })
}

/// The secret that signs the wakes of a member.
pub static WAKE_SECRET: SealedField<Member> =
    SealedField::new("wake_secret", "signing secrets of wakes", |member| {
        member.wake_secret.as_mut()
    });
