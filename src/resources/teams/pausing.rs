//! Pausing agents, in one team or everywhere, teams, and all of them; resuming them
//! (reference: teams-and-wakes, "Pausing").
//!
//! A pause is one row, whatever it holds back: who waits for wakes looks at it each time. What is due
//! meanwhile stays where it is. Resuming tells the agents that it is about to look again, and has posted
//! what was not; of many agents a job does that, in steps.

use schemars::JsonSchema;
use serde::Serialize;

use super::member::{BY_AGENT, Member};
use super::members::{TeamAgent, info as member_info};
use super::team::{TEAM_IN_PATH, Team, TeamInfo, fetch_team, info as team_info};
use super::usable::UsableMember;
use super::{schedules, wakes};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, Caller, MEMBER, ScopeName};
use crate::base::{Error, Id, Result};
use crate::outbox::{Job, JobHandler, Prepared, SWEEP_ROWS, Settled, Target, enqueue};
use crate::resources::agents::{self, AgentInfo};
use crate::resources::pauses::{self, NewPause, Pause, Paused, PausedAll, Resume};
use crate::store::{Key, ListSource, Order, Page, PageRequest, Record, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, jobs: &[ROUSE_ALL, ROUSE_TEAM], ..Resource::EMPTY };

/// So many agents are told to look again in one transaction: servers that share a store tell each other of
/// so many at once.
const AT_ONCE: usize = 100;

// ── What callers send and see ────────────────────────────────────────────────

/// Whether all agents in all teams are paused.
#[derive(Debug, Serialize, JsonSchema)]
struct AllTeams {
    /// The pause of all; null if there is none.
    paused: Option<Pause>,
}

impl Output for AllTeams {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── One agent ────────────────────────────────────────────────────────────────

fn pause_agent(tx: &mut Tx, req: &Req<String, NewPause>) -> Result<AgentInfo> {
    let paused = req.input.begun(tx, req.caller().user());
    let agent = agents::set_paused(tx, req.caller(), &req.params, Some(paused))?;
    agents::shown(&tx.view(), req.caller(), agent)
}

fn resume_agent(tx: &mut Tx, req: &Req<String, Resume>) -> Result<AgentInfo> {
    let agent = agents::set_paused(tx, req.caller(), &req.params, None)?;
    for member in tx.all(&BY_AGENT, &agent.id)? {
        rouse(tx, &member)?;
    }
    agents::shown(&tx.view(), req.caller(), agent)
}

/// Pauses an agent in one team.
pub fn pause_member(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), NewPause>) -> Result<TeamAgent> {
    let paused = req.input.begun(tx, req.caller().user());
    set_member(tx, req.caller(), req.params, Some(paused))
}

/// Resumes an agent in one team.
pub fn resume_member(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), Resume>) -> Result<TeamAgent> {
    set_member(tx, req.caller(), req.params, None)
}

/// Pauses an agent in a team, or ends that. One that is paused already stays as it is.
fn set_member(
    tx: &mut Tx,
    caller: &Caller,
    (team, id): (Id<Team>, Id<Member>),
    paused: Option<Paused>,
) -> Result<TeamAgent> {
    let team = fetch_team(&tx.view(), team)?;
    let old = UsableMember::fetch(&tx.view(), caller, (team.id, id))?;
    let mut member = Member::clone(&old);
    if old.paused.is_some() != paused.is_some() {
        member.paused = paused;
        tx.replace(&*old, &member)?;
    }
    if member.paused.is_none() {
        rouse(tx, &member)?;
    }
    member_info(&tx.view(), caller, member)
}

/// Has an agent look again for what waits for it.
fn rouse(tx: &mut Tx, member: &Member) -> Result<()> {
    tx.signal(member.id.uuid());
    match member.wake_url {
        Some(_) => wakes::enqueue_pending_posts(tx, member),
        None => Ok(()),
    }
}

// ── A team, and all of them ──────────────────────────────────────────────────

/// Pauses all agents and schedules of a team.
pub fn pause_team(tx: &mut Tx, req: &Req<Id<Team>, NewPause>) -> Result<TeamInfo> {
    let paused = req.input.begun(tx, req.caller().user());
    let old = fetch_team(&tx.view(), req.params)?;
    let team = Team { paused: old.paused.clone().or(Some(paused)), ..old.clone() };
    tx.replace(&old, &team)?;
    team_info(&tx.view(), team)
}

/// Resumes the agents and schedules of a team.
pub fn resume_team(tx: &mut Tx, req: &Req<Id<Team>, Resume>) -> Result<TeamInfo> {
    let old = fetch_team(&tx.view(), req.params)?;
    let team = Team { paused: None, ..old.clone() };
    if old.paused.is_some() {
        tx.replace(&old, &team)?;
        rouse_members(tx, team.id, Id::NIL)?;
    }
    team_info(&tx.view(), team)
}

fn get_all(view: &View, _: &Req<()>) -> Result<AllTeams> {
    Ok(AllTeams { paused: pauses::of_all(view)? })
}

fn pause_all(tx: &mut Tx, req: &Req<(), NewPause>) -> Result<AllTeams> {
    if !tx.view().has::<PausedAll>(&())? {
        let paused = req.input.begun(tx, req.caller().user());
        tx.insert(&PausedAll { paused })?;
    }
    Ok(AllTeams { paused: pauses::of_all(&tx.view())? })
}

fn resume_all(tx: &mut Tx, _: &Req<(), Resume>) -> Result<AllTeams> {
    if let Some(all) = tx.get::<PausedAll>(&())? {
        tx.remove(&all)?;
        enqueue(tx, &ROUSE_ALL, Id::NIL, None, tx.now())?;
    }
    Ok(AllTeams { paused: None })
}

/// Has the agents of a team look again, from the one after `last` on.
fn rouse_members(tx: &mut Tx, team: Id<Team>, last: Id<Member>) -> Result<()> {
    let now = tx.now();
    enqueue(tx, &ROUSE_TEAM, last.cast(), Some(team.cast()), now).map(drop)
}

/// Has the agents of all teams look again; the target is the last team that was seen to.
const ROUSE_ALL: JobHandler =
    JobHandler { kind: "team.rouse_all", prepare: rouse_all, settle: no_effect };

/// Gives a team's schedules their jobs again, and has its agents look for what waits, or that posted; the
/// target is the last agent that was seen to, the concurrency key the team.
const ROUSE_TEAM: JobHandler =
    JobHandler { kind: "team.rouse", prepare: rouse_team, settle: no_effect };

fn no_effect(_: &mut Tx, _: &Job, _: &crate::outbox::EffectResult) -> Result<Settled> {
    Ok(Settled::Done)
}

fn rouse_all(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    if pauses::of_all(&tx.view())?.is_some() {
        return Ok(Prepared::Done); // Whoever ends that pause has it done.
    }
    let last: Id<Team> = job.target.cast();
    let teams: Page<Team> = part(tx, &(), (!last.is_nil()).then(|| last.to_bytes()), SWEEP_ROWS)?;
    for team in &teams.items {
        rouse_members(tx, team.id, Id::NIL)?;
    }
    if let Some(next) = position::<Id<Team>>(&teams)? {
        enqueue(tx, &ROUSE_ALL, next.cast(), None, tx.now())?;
    }
    Ok(Prepared::Done)
}

fn rouse_team(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let key: Id<Target> = job.concurrency_key.unwrap_or(Id::NIL);
    let Some(team) = tx.get::<Team>(&key.cast())? else { return Ok(Prepared::Done) };
    if team.pause(&tx.view())?.is_some() {
        return Ok(Prepared::Done);
    }
    let last: Id<Member> = job.target.cast();
    if last.is_nil() {
        schedules::rouse(tx, team.id)?;
    }
    let after = (!last.is_nil()).then(|| (team.id, last).to_bytes());
    let members: Page<Member> = part(tx, &team.id, after, AT_ONCE)?;
    for member in &members.items {
        rouse(tx, member)?;
    }
    if let Some((_, next)) = position::<(Id<Team>, Id<Member>)>(&members)? {
        rouse_members(tx, team.id, next)?;
    }
    Ok(Prepared::Done)
}

fn part<R: Record>(
    tx: &Tx,
    prefix: &impl Key,
    after: Option<Vec<u8>>,
    limit: usize,
) -> Result<Page<R>> {
    let part = PageRequest { limit, after };
    tx.page(ListSource::TABLE, prefix, Order::Ascending, &part, |_| true)
}

/// Returns the key after which a list goes on.
fn position<K: Key>(page: &Page<impl Record>) -> Result<Option<K>> {
    let read = |bytes: &Vec<u8>| {
        K::read(&mut bytes.as_slice()).ok_or_else(|| Error::internal("a position is no key"))
    };
    page.next.as_ref().map(read).transpose()
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    let team = |path, name, operation| {
        Route::post(path, MEMBER, name, operation).needs_for(ScopeName::TeamWrite, &TEAM_IN_PATH)
    };
    let agent = |path, name, operation| {
        Route::post(path, MEMBER, name, operation).needs(ScopeName::AgentWrite)
    };
    let all = |path, name, operation| {
        Route::post(path, ADMIN, name, operation).needs(ScopeName::TeamWrite)
    };
    vec![
        agent("/agents/{stableKey}/pause", "agent.pause", op::write(pause_agent))
            .about("Pause an agent in all of its teams"),
        agent("/agents/{stableKey}/resume", "agent.resume", op::write(resume_agent))
            .about("Resume an agent"),
        team("/teams/{teamId}/agents/{agentId}/pause", "team_agent.pause", op::write(pause_member))
            .about("Pause an agent in one team"),
        team(
            "/teams/{teamId}/agents/{agentId}/resume",
            "team_agent.resume",
            op::write(resume_member),
        )
        .about("Resume an agent in one team"),
        team("/teams/{teamId}/pause", "team.pause", op::write(pause_team))
            .about("Pause all agents and schedules of a team"),
        team("/teams/{teamId}/resume", "team.resume", op::write(resume_team))
            .about("Resume a team"),
        Route::get("/teams/pause", MEMBER, "all_teams.get", op::read(get_all))
            .needs(ScopeName::TeamRead)
            .about("Get the pause of all agents"),
        all("/teams/pause", "all_teams.pause", op::write(pause_all))
            .about("Pause all agents in all teams"),
        all("/teams/resume", "all_teams.resume", op::write(resume_all)).about("Resume all agents"),
    ]
}

#[cfg(test)]
mod tests;
