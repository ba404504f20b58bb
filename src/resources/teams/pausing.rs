//! Pausing agents, in one team or everywhere, teams, and all of them; resuming them
//! (reference: teams-and-wakes, "Pausing").
//!
//! A pause is one row, whatever it holds back: who waits for wakes looks at it each time. What is due
//! meanwhile stays where it is. Resuming tells the agents that it is about to look again, and has posted
//! what was not; of many agents a job does that, in steps.

use schemars::JsonSchema;
use serde::Serialize;

use super::manage::{TeamInfo, info as team_info};
use super::member::{BY_AGENT, Member};
use super::members::{TeamAgent, info as member_info};
use super::rousing::{rouse, rouse_members, rouse_teams};
use super::team::{TEAM_IN_PATH, Team, fetch_team};
use super::team_changes::TeamChange;
use super::usable::UsableMember;
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{ADMIN, Caller, MEMBER, ScopeName};
use crate::base::{Id, Result};
use crate::resources::agents::{self, Agent, AgentInfo};
use crate::resources::pauses::{self, NewPause, Pause, PauseScope, Paused, PausedAll, Resume};
use crate::store::{Order, PageRequest, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// The activity of so many teams says that an agent was paused in all of them, each with the reason: 1 MB. An
/// agent is in few, and one in very many is still paused in one transaction.
const MAX_TOLD: usize = 100;

// ── What callers send and see ────────────────────────────────────────────────

/// Whether all agents in all teams are paused.
#[derive(Debug, Serialize, JsonSchema)]
pub struct AllTeams {
    /// The pause of all; null if there is none.
    paused: Option<Pause>,
}

impl Output for AllTeams {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── One agent ────────────────────────────────────────────────────────────────

/// Pauses an agent in all of its teams.
pub fn pause_agent(tx: &mut Tx, req: &Req<String, NewPause>) -> Result<AgentInfo> {
    let paused = req.input.begun(tx, req.caller().user());
    let agent = set_agent(tx, req.caller(), &req.params, Some(paused))?;
    agents::shown(&tx.view(), req.caller(), agent)
}

/// Resumes an agent in all of its teams.
pub fn resume_agent(tx: &mut Tx, req: &Req<String, Resume>) -> Result<AgentInfo> {
    let agent = set_agent(tx, req.caller(), &req.params, None)?;
    for member in tx.all(&BY_AGENT, &agent.id)? {
        rouse(tx, &member)?;
    }
    agents::shown(&tx.view(), req.caller(), agent)
}

/// Pauses an agent in all of its teams, or ends that.
fn set_agent(
    tx: &mut Tx,
    caller: &Caller,
    stable_key: &str,
    paused: Option<Paused>,
) -> Result<Agent> {
    let was_paused = agents::fetch(&tx.view(), caller, stable_key)?.paused.is_some();
    let agent = agents::set_paused(tx, caller, stable_key, paused)?;
    if agent.paused.is_some() == was_paused {
        return Ok(agent);
    }
    let part = PageRequest { limit: MAX_TOLD, after: None };
    let members = tx.page(&BY_AGENT, &agent.id, Order::Descending, &part, |_| true)?;
    for member in members.items {
        let at = (Some(member.team), PauseScope::Agent);
        let change = TeamChange::of_pause(tx, at, agent.paused.as_ref(), caller.user());
        TeamChange { agent: Some(member.id), ..change }.note(tx)?;
    }
    Ok(agent)
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
        let at = (Some(team.id), PauseScope::TeamAgent);
        let change = TeamChange::of_pause(tx, at, member.paused.as_ref(), caller.user());
        TeamChange { agent: Some(member.id), ..change }.note(tx)?;
    }
    if member.paused.is_none() {
        rouse(tx, &member)?;
    }
    member_info(&tx.view(), caller, member)
}

// ── A team, and all of them ──────────────────────────────────────────────────

/// Pauses all agents and schedules of a team.
pub fn pause_team(tx: &mut Tx, req: &Req<Id<Team>, NewPause>) -> Result<TeamInfo> {
    let paused = req.input.begun(tx, req.caller().user());
    let mut team = fetch_team(&tx.view(), req.params)?;
    if team.paused.is_none() {
        team = set_team(tx, req.caller(), &team, Some(paused))?;
    }
    team_info(&tx.view(), team)
}

/// Pauses a team that is not paused, or resumes one that is.
fn set_team(tx: &mut Tx, caller: &Caller, old: &Team, paused: Option<Paused>) -> Result<Team> {
    let (updated_at, updated_by) = (tx.now(), Some(caller.user()));
    let team = Team { paused, updated_at, updated_by, ..old.clone() };
    tx.replace(old, &team)?;
    note_pause(tx, Some(team.id), team.paused.as_ref(), caller)?;
    Ok(team)
}

/// Notes that a team, or all of them, are paused or resumed.
fn note_pause(
    tx: &mut Tx,
    team: Option<Id<Team>>,
    paused: Option<&Paused>,
    caller: &Caller,
) -> Result<()> {
    let scope = if team.is_some() { PauseScope::Team } else { PauseScope::Organization };
    TeamChange::of_pause(tx, (team, scope), paused, caller.user()).note(tx)
}

/// Resumes the agents and schedules of a team.
pub fn resume_team(tx: &mut Tx, req: &Req<Id<Team>, Resume>) -> Result<TeamInfo> {
    let mut team = fetch_team(&tx.view(), req.params)?;
    if team.paused.is_some() {
        team = set_team(tx, req.caller(), &team, None)?;
        rouse_members(tx, team.id, Id::NIL)?;
    }
    team_info(&tx.view(), team)
}

fn get_all(view: &View, _: &Req<()>) -> Result<AllTeams> {
    Ok(AllTeams { paused: pauses::of_all(view)? })
}

/// Pauses all agents in all teams.
pub fn pause_all(tx: &mut Tx, req: &Req<(), NewPause>) -> Result<AllTeams> {
    if !tx.view().has::<PausedAll>(&())? {
        let paused = req.input.begun(tx, req.caller().user());
        note_pause(tx, None, Some(&paused), req.caller())?;
        tx.insert(&PausedAll { paused })?;
    }
    Ok(AllTeams { paused: pauses::of_all(&tx.view())? })
}

/// Resumes all agents.
pub fn resume_all(tx: &mut Tx, req: &Req<(), Resume>) -> Result<AllTeams> {
    if let Some(all) = tx.get::<PausedAll>(&())? {
        tx.remove(&all)?;
        note_pause(tx, None, None, req.caller())?;
        rouse_teams(tx)?;
    }
    Ok(AllTeams { paused: None })
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
