//! A team's agents: who is in it, as what, and where they are woken.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::leftovers::{self, LeftMember};
use super::team::{Team, fetch_team, must_exist};
use super::wakes;
use crate::api::{Input, Removed, Req, Route};
use crate::auth::Rule;
use crate::base::{Error, Field, HttpUrl, Id, List, Name, Result, Sealed, Skill, StableKey, Time};
use crate::outbox::{EventType, publish};
use crate::outside::webhook;
use crate::resources::agents::{self, Agent};
use crate::store::{AnyIndex, Index, Order, Page, Record, Source, Tx, View};

/// Contract §1, "Text".
const MAX_SKILLS: usize = 50;

// ── Record ───────────────────────────────────────────────────────────────────

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
    /// The text of the secret they are signed with, sealed; made with the first `wake_url`, kept.
    pub wake_secret: Option<Sealed>,
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
const WAKE_SECRET: &str = "wake_secret";

/// Takes agents out of a team that is being deleted, at most so many; says how many.
pub fn clear(tx: &mut Tx, team: Id<Team>, at_most: usize) -> Result<usize> {
    let members: Vec<Member> = leftovers::first(&tx.view(), &team, at_most)?;
    for member in &members {
        tx.remove(member)?;
        tx.signal(member.id.uuid());
        agents::left_team(tx, member.agent)?;
        tx.insert(&LeftMember { team, member: member.id })?;
    }
    Ok(members.len())
}

// ── What callers send and see ────────────────────────────────────────────────

/// An agent to take into the team.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewTeamAgent {
    stable_key: String,
    role: MemberRole,
    skills: Option<List<Skill, 0, MAX_SKILLS>>,
    wake_url: Option<HttpUrl>,
}
impl Input for NewTeamAgent {}

/// What to change of an agent in a team.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamAgentPatch {
    role: Option<MemberRole>,
    skills: Option<List<Skill, 0, MAX_SKILLS>>,
    #[serde(default)]
    wake_url: Field<HttpUrl>,
}
impl Input for TeamAgentPatch {}

/// An agent in a team, as it is shown.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct TeamAgent {
    id: Id<Member>,
    team_id: Id<Team>,
    stable_key: StableKey,
    name: Name,
    role: MemberRole,
    skills: Vec<Skill>,
    wake_url: Option<HttpUrl>,
    hired_at: Time,
}

/// The same with the secret its wakes are signed with, where that was just made.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamAgentMade {
    #[serde(flatten)]
    agent: TeamAgent,
    wake_secret: Option<String>,
}

fn info(view: &View, member: Member) -> Result<TeamAgent> {
    Ok(TeamAgent {
        name: name(view, &member)?,
        id: member.id,
        team_id: member.team,
        stable_key: member.stable_key,
        role: member.role,
        skills: member.skills,
        wake_url: member.wake_url,
        hired_at: member.hired_at,
    })
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<Team>>) -> Result<Page<TeamAgent>> {
    must_exist(view, req.at)?;
    view.page(Source::TABLE, &req.at, Order::Descending, &req.part, |_| true)?
        .try_map(|member| info(view, member))
}

/// Takes an agent into a team.
pub fn hire(tx: &mut Tx, req: &Req<Id<Team>, NewTeamAgent>) -> Result<TeamAgentMade> {
    let team = fetch_team(&tx.view(), req.at)?;
    let new = &req.input;
    let agent = agents::by_stable_key(&tx.view(), &new.stable_key)?.ok_or_else(Error::not_found)?;
    let mut member = Member {
        id: tx.new_id(),
        team: team.id,
        agent: agent.id,
        stable_key: agent.stable_key,
        role: new.role,
        skills: new.skills.as_deref().unwrap_or_default().to_vec(),
        wake_url: new.wake_url.clone(),
        wake_secret: None,
        hired_at: tx.now(),
    };
    let wake_secret = secret_if_first(tx, &mut member);
    tx.insert(&member)?;
    agents::joined_team(tx, member.agent)?;
    tell(tx, EventType::TeamAgentHired, &team, &member, &member.skills)?;
    Ok(TeamAgentMade { agent: info(&tx.view(), member)?, wake_secret })
}

fn show(view: &View, req: &Req<(Id<Team>, Id<Member>)>) -> Result<TeamAgent> {
    let (team, id) = req.at;
    must_exist(view, team)?;
    info(view, fetch_member(view, team, id)?)
}

/// Changes what an agent is in a team.
pub fn change(
    tx: &mut Tx,
    req: &Req<(Id<Team>, Id<Member>), TeamAgentPatch>,
) -> Result<TeamAgentMade> {
    let (team, id) = req.at;
    let team = fetch_team(&tx.view(), team)?;
    let old = fetch_member(&tx.view(), team.id, id)?;
    let patch = &req.input;
    let mut member = old.clone();
    if let Some(role) = patch.role {
        member.role = role;
    }
    if let Some(skills) = &patch.skills {
        member.skills = skills.to_vec();
    }
    patch.wake_url.clone().apply(&mut member.wake_url);
    let wake_secret = secret_if_first(tx, &mut member);
    tx.replace(&old, &member)?;

    let is_new = |skill: &&Skill| !old.skills.contains(*skill);
    let granted: Vec<Skill> = member.skills.iter().filter(is_new).cloned().collect();
    if !granted.is_empty() {
        tell(tx, EventType::TeamAgentSkillsGranted, &team, &member, &granted)?;
    }
    if member.wake_url.is_some() && member.wake_url != old.wake_url {
        wakes::post_pending(tx, &member)?;
    }
    Ok(TeamAgentMade { agent: info(&tx.view(), member)?, wake_secret })
}

/// Takes an agent out of its team.
pub fn remove(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>)>) -> Result<Removed> {
    let (team, id) = req.at;
    let team = fetch_team(&tx.view(), team)?;
    let member = fetch_member(&tx.view(), team.id, id)?;
    tell(tx, EventType::TeamAgentTerminated, &team, &member, &member.skills)?;
    tx.remove(&member)?;
    tx.signal(member.id.uuid()); // Who waits for its wakes waits in vain.
    agents::left_team(tx, member.agent)?;
    leftovers::clear_member(tx, team.id, member.id)?;
    Ok(Removed::new(member.id))
}

/// Makes and seals the secret of a member that has a `wakeUrl` for the first time; returns it.
fn secret_if_first(tx: &Tx, member: &mut Member) -> Option<String> {
    if member.wake_url.is_none() || member.wake_secret.is_some() {
        return None;
    }
    let secret = webhook::secret_text(&tx.random());
    member.wake_secret = Some(tx.seal::<Member>(&member.key(), WAKE_SECRET, &secret));
    Some(secret)
}

fn tell(
    tx: &mut Tx,
    event: EventType,
    team: &Team,
    member: &Member,
    skills: &[Skill],
) -> Result<()> {
    let payload = json!({
        "teamId": team.id,
        "teamName": team.name,
        "agentId": member.id,
        "stableKey": member.stable_key,
        "agentName": name(&tx.view(), member)?,
        "role": member.role,
        "skills": skills,
    });
    publish(tx, event, payload)
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of agents in a team.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/agents";
    const ONE: &str = "/teams/{teamId}/agents/{agentId}";
    vec![
        Route::list(ALL, Rule::Member, "team_agent.list", list).about("List a team's agents"),
        Route::post(ALL, Rule::Member, "team_agent.create", hire)
            .about("Take an agent into a team")
            .shows_secret("wakeSecret"),
        Route::get(ONE, Rule::Member, "team_agent.show", show).about("Show an agent of a team"),
        Route::patch(ONE, Rule::Member, "team_agent.update", change)
            .about("Change what an agent is in a team, what it can do or where it is woken")
            .shows_secret("wakeSecret"),
        Route::delete(ONE, Rule::Member, "team_agent.delete", remove)
            .about("Take an agent out of a team"),
    ]
}

#[cfg(test)]
mod tests;
