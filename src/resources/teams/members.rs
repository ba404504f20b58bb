//! A team's agents: their roles, skills and wake URLs (reference: teams-and-wakes, "Teams").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::budget::{BudgetInfo, NewBudget};
use super::changes;
use super::member::{
    MaxAttempts, Member, MemberRole, WAKE_SECRET, fetch_member, has_lost_setter, name,
};
use super::team::{MEMORIES, TEAM_IN_PATH, Team, fetch_team, require_team};
use super::team_changes::TeamChange;
use super::usable::UsableMember;
use super::{accounts, budgets, holds, wakes};
use crate::api::{Deleted, Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName};
use crate::base::{BoundedList, HttpUrl, Id, Name, Nullable, Result, Skill, StableKey, Time};
use crate::outbox::{About, EventType, publish};
use crate::outside::webhook;
use crate::resources::agents;
use crate::resources::pauses::Pause;
use crate::store::{ListSource, Order, Page, Record, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Member>()],
    events: &[
        EventType::TeamAgentHired,
        EventType::TeamAgentSkillsGranted,
        EventType::TeamAgentTerminated,
    ],
    ..Resource::EMPTY
};

/// At most 50 skills (reference: conventions, "Texts and names").
const MAX_SKILLS: usize = 50;

// ── What callers send and see ────────────────────────────────────────────────

/// An agent to add to a team.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"stableKey": "scribe", "role": "member", "skills": ["writing"]}],
))]
pub struct NewTeamAgent {
    /// The stable key of an agent of the organization.
    stable_key: String,
    role: MemberRole,
    /// What the agent is good at.
    skills: Option<BoundedList<Skill, 0, MAX_SKILLS>>,
    /// The URL its wakes are posted to.
    wake_url: Option<HttpUrl>,
    /// How often it is handed a wake that it does not acknowledge, before the wake fails; 10 if absent.
    max_attempts: Option<MaxAttempts>,
    /// What it may spend in this team; no budget of its own if absent.
    budget: Option<NewBudget>,
}
impl Input for NewTeamAgent {}

/// Changes to an agent in a team; absent fields keep their value.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"skills": ["writing", "proofreading"]}],
))]
pub struct TeamAgentPatch {
    role: Option<MemberRole>,
    skills: Option<BoundedList<Skill, 0, MAX_SKILLS>>,
    #[serde(default)]
    wake_url: Nullable<HttpUrl>,
    /// Null: 10.
    #[serde(default)]
    max_attempts: Nullable<MaxAttempts>,
    #[serde(default)]
    budget: Nullable<NewBudget>,
}
impl Input for TeamAgentPatch {}

/// An agent in a team.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamAgent {
    /// The `agentId` in the team; another one in each team.
    id: Id<Member>,
    team_id: Id<Team>,
    stable_key: StableKey,
    name: Name,
    role: MemberRole,
    /// What the agent is good at.
    skills: Vec<Skill>,
    wake_url: Option<HttpUrl>,
    /// How often it is handed a wake that it does not acknowledge, before the wake fails.
    max_attempts: u32,
    /// What it may spend in this team; null if nothing is set, and for those who may not use it.
    budget: Option<BudgetInfo>,
    /// How many of its wakes failed, up to 1,000; 0 for those who may not use it.
    failed_wakes: usize,
    /// What holds it back; null if nothing does.
    paused: Option<Pause>,
    /// When it was added to the team.
    hired_at: Time,
}

impl Output for TeamAgent {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// An agent in a team, with the secret of its wakes if the request created it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TeamAgentCreated {
    #[serde(flatten)]
    agent: TeamAgent,
    /// The secret that signs posted wakes. Shown once, with the first `wakeUrl`; null otherwise.
    wake_secret: Option<String>,
}

impl Output for TeamAgentCreated {
    const MAY_SHOW_SECRET: bool = true;

    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.agent.id)
    }

    fn shows_secret(&self) -> bool {
        self.wake_secret.is_some()
    }
}

/// Where its wakes are posted, and why it alone is paused, are shown to those who may use the agent; the rest
/// to every member.
pub fn info(view: &View, caller: &Caller, member: Member) -> Result<TeamAgent> {
    let is_usable = agents::is_usable(view, caller, member.agent)?;
    let shown = |pause: Pause| {
        let is_open = is_usable || !pause.scope.is_of_agent();
        Pause { reason: pause.reason.filter(|_| is_open), ..pause }
    };
    let paused = holds::of_member(view, &member)?.map(shown);
    let budget = if is_usable { accounts::info_of_member(view, &member)? } else { None };
    Ok(TeamAgent {
        name: name(view, &member)?,
        max_attempts: member.max_attempts(),
        failed_wakes: if is_usable { wakes::failed_of(view, member.id)? } else { 0 },
        id: member.id,
        team_id: member.team,
        stable_key: member.stable_key,
        role: member.role,
        skills: member.skills,
        wake_url: member.wake_url.filter(|_| is_usable),
        budget,
        paused,
        hired_at: member.hired_at,
    })
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<Id<Team>>) -> Result<Page<TeamAgent>> {
    require_team(view, req.params)?;
    let info = |view: &View, member| info(view, req.caller(), member);
    view.page_map(ListSource::TABLE, &req.params, Order::Descending, &req.page, |_| true, info)
}

/// Adds an agent to a team.
pub fn add_agent(tx: &mut Tx, req: &Req<Id<Team>, NewTeamAgent>) -> Result<TeamAgentCreated> {
    let team = fetch_team(&tx.view(), req.params)?;
    let new = &req.input;
    let agent = agents::fetch(&tx.view(), req.caller(), &new.stable_key)?;
    let mut member = Member {
        id: tx.new_id(),
        team: team.id,
        agent: agent.id,
        stable_key: agent.stable_key,
        role: new.role,
        skills: new.skills.as_deref().unwrap_or_default().to_vec(),
        wake_url: new.wake_url.clone(),
        wake_url_at: tx.now(),
        wake_url_by: None,
        wake_url_sponsor: None,
        wake_secret: None,
        hired_at: tx.now(),
        paused: None,
        max_attempts: new.max_attempts.map(stored),
        budget: new.budget.map(NewBudget::stored),
    };
    if member.wake_url.is_some() {
        note_setter(req.caller(), &mut member);
    }
    let wake_secret = secret_for_new_host(tx, None, &mut member)?;
    tx.insert(&member)?;
    publish_event(tx, EventType::TeamAgentHired, &team, &member, &member.skills)?;
    if member.budget.is_some() {
        budgets::member_changed(tx, &team, &member)?;
    }
    Ok(TeamAgentCreated { agent: info(&tx.view(), req.caller(), member)?, wake_secret })
}

pub(super) fn get(view: &View, req: &Req<(Id<Team>, Id<Member>)>) -> Result<TeamAgent> {
    let (team, id) = req.params;
    require_team(view, team)?;
    info(view, req.caller(), fetch_member(view, team, id)?)
}

/// Updates an agent's role, skills or wake URL.
pub fn update(
    tx: &mut Tx,
    req: &Req<(Id<Team>, Id<Member>), TeamAgentPatch>,
) -> Result<TeamAgentCreated> {
    let (team, id) = req.params;
    let team = fetch_team(&tx.view(), team)?;
    let old = UsableMember::fetch(&tx.view(), req.caller(), (team.id, id))?;
    let patch = &req.input;
    let mut member = Member::clone(&old);
    if let Some(role) = patch.role {
        member.role = role;
    }
    if let Some(skills) = &patch.skills {
        member.skills = skills.to_vec();
    }
    match &patch.max_attempts {
        Nullable::Absent => {}
        Nullable::Clear => member.max_attempts = None,
        Nullable::Set(max) => member.max_attempts = Some(stored(*max)),
    }
    member.budget = NewBudget::patch(&patch.budget, old.budget);
    patch.wake_url.clone().apply(&mut member.wake_url);
    let is_set = matches!(patch.wake_url, Nullable::Set(_));
    let has_lost_setter = is_set && has_lost_setter(&tx.view(), &old)?;
    // The same one again stays with who set it, if that is known and they may use the agent.
    let is_same = member.wake_url == old.wake_url && old.wake_url_by.is_some();
    let has_new_setter = is_set && (!is_same || has_lost_setter);
    if has_new_setter {
        note_setter(req.caller(), &mut member);
        member.wake_url_at = tx.now();
    }
    if member.wake_url.is_none() {
        member = member.without_wake_url();
    }
    // Only who has set the URL knows the secret.
    let is_adopted = old.wake_url_by.is_none() && member.wake_url == old.wake_url;
    let is_setter_same = is_adopted
        || (old.wake_url_by, old.wake_url_sponsor) == (member.wake_url_by, member.wake_url_sponsor);
    let before = old.wake_url.as_ref().filter(|_| is_setter_same && !has_lost_setter);
    let wake_secret = secret_for_new_host(tx, before, &mut member)?;
    tx.replace(&*old, &member)?;

    let is_new = |skill: &&Skill| !old.skills.contains(*skill);
    let granted: Vec<Skill> = member.skills.iter().filter(is_new).cloned().collect();
    if !granted.is_empty() {
        publish_event(tx, EventType::TeamAgentSkillsGranted, &team, &member, &granted)?;
    }
    if has_new_setter {
        wakes::enqueue_pending_posts(tx, &member)?;
    }
    if member.max_attempts() < old.max_attempts() {
        wakes::fail_exhausted(tx, &member)?;
    }
    if member.budget != old.budget {
        let at = (team.id, Some(member.id));
        TeamChange::of_budget(tx, at, member.budget, req.caller().user()).note(tx)?;
        budgets::member_changed(tx, &team, &member)?;
    }
    Ok(TeamAgentCreated { agent: info(&tx.view(), req.caller(), member)?, wake_secret })
}

/// Removes an agent from its team.
pub fn delete(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>)>) -> Result<Deleted> {
    let (team, id) = req.params;
    let team = fetch_team(&tx.view(), team)?;
    let member = UsableMember::fetch(&tx.view(), req.caller(), (team.id, id))?;
    publish_event(tx, EventType::TeamAgentTerminated, &team, &member, &member.skills)?;
    tx.remove(&*member)?;
    budgets::forget(tx, &member)?;
    tx.record_erasure(MEMORIES, &member.key())?;
    Ok(Deleted::new(member.id))
}

fn stored(max: MaxAttempts) -> u32 {
    max.get().unsigned_abs() as u32
}

/// Notes who set a member's `wakeUrl`: it is posted to on their account.
fn note_setter(caller: &Caller, member: &mut Member) {
    let sponsor = caller.identity.sponsor.as_ref().map(|sponsor| sponsor.user);
    member.wake_url_by = Some(caller.identity.user);
    member.wake_url_sponsor = sponsor;
}

/// Creates, seals and returns the secret of a member whose wakes are posted to another host than
/// before, or for the first time: that of the host before is not for this one.
fn secret_for_new_host(
    tx: &Tx,
    before: Option<&HttpUrl>,
    member: &mut Member,
) -> Result<Option<String>> {
    let Some(url) = &member.wake_url else { return Ok(None) };
    if member.wake_secret.is_some() && before.is_some_and(|before| before.host() == url.host()) {
        return Ok(None);
    }
    let secret = webhook::secret_text(&tx.random());
    member.wake_secret = Some(tx.seal(&WAKE_SECRET, &member.key(), &secret)?);
    Ok(Some(secret))
}

fn publish_event(
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
    changes::tell(tx, team.id);
    publish(tx, event, About::resource("team_agent", member.id), payload)
}

// ── Routes ───────────────────────────────────────────────────────────────────

/// The routes of agents in a team.
pub fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/agents";
    const ONE: &str = "/teams/{teamId}/agents/{agentId}";
    vec![
        Route::get(ALL, MEMBER, "team_agent.list", op::walk(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("List a team's agents"),
        Route::post(ALL, MEMBER, "team_agent.create", op::write(add_agent))
            .needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH)
            .about("Add an agent to a team"),
        Route::get(ONE, MEMBER, "team_agent.get", op::read(get))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("Get an agent of a team"),
        Route::patch(ONE, MEMBER, "team_agent.update", op::write(update))
            .needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH)
            .about("Update an agent of a team"),
        Route::delete(ONE, MEMBER, "team_agent.delete", op::write(delete))
            .needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH)
            .about("Remove an agent from a team"),
    ]
}

#[cfg(test)]
mod tests;
