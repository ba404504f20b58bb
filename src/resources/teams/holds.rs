//! What holds agents back: pauses, and budgets that are used up (reference: teams-and-wakes, "Pausing").

use super::accounts::Account;
use super::budget::{BudgetLevel, OnExhausted};
use super::member::Member;
use super::spending::BudgetState;
use super::team::Team;
use crate::base::{Error, Result};
use crate::resources::agents;
use crate::resources::pauses::{self, Pause, PauseScope};
use crate::store::View;

/// Returns what holds the whole team back: the outermost pause, or its budget.
pub fn of_team(view: &View, team: &Team) -> Result<Option<Pause>> {
    match pause_of_team(view, team)? {
        Some(pause) => Ok(Some(pause)),
        None => of_budget(view, team, None),
    }
}

/// Returns what holds an agent back in its team: the outermost pause, or a budget.
pub fn of_member(view: &View, member: &Member) -> Result<Option<Pause>> {
    let Some(team) = view.get::<Team>(&member.team)? else { return pause_of_member(view, member) };
    if let Some(pause) = pause_of_team(view, &team)? {
        return Ok(Some(pause));
    }
    if let Some(pause) = pause_of_member(view, member)? {
        return Ok(Some(pause));
    }
    match of_budget(view, &team, None)? {
        Some(pause) => Ok(Some(pause)),
        None => of_budget(view, &team, Some(member)),
    }
}

/// Requires that nothing holds an agent back.
///
/// # Errors
/// 409 otherwise.
pub fn require_active(view: &View, member: &Member) -> Result<()> {
    of_member(view, member)?.map_or(Ok(()), |pause| Err(refusal(pause)))
}

/// Requires that nobody has paused an agent: what it has spent is reported however much that is.
///
/// # Errors
/// 409 otherwise.
pub fn require_not_paused(view: &View, member: &Member) -> Result<()> {
    let team: Option<Team> = view.get(&member.team)?;
    let of_team = team.map_or(Ok(None), |team| pause_of_team(view, &team))?;
    let pause = of_team.map_or_else(|| pause_of_member(view, member), |pause| Ok(Some(pause)))?;
    pause.map_or(Ok(()), |pause| Err(refusal(pause)))
}

fn refusal(Pause { scope, since, ends_at, reason, .. }: Pause) -> Error {
    let why = reason.map_or(String::new(), |reason| format!(" ({})", reason.as_str()));
    let subject = scope.subject();
    let is_of_budget = matches!(scope, PauseScope::TeamBudget | PauseScope::AgentBudget);
    let end = match ends_at {
        None if is_of_budget => "raise the budget".into(),
        None => "wait until somebody resumes it".into(),
        Some(end) => format!("raise the budget, or wait until {end}"),
    };
    Error::conflict("agent_paused", format!("{subject} paused since {since}{why}; {end}"))
}

/// The team's own pause, or that of all.
fn pause_of_team(view: &View, team: &Team) -> Result<Option<Pause>> {
    let own = team.paused.clone().map(|paused| Pause::of(PauseScope::Team, paused));
    Ok(pauses::of_all(view)?.or(own))
}

/// The pause of the agent everywhere, or in its team.
fn pause_of_member(view: &View, member: &Member) -> Result<Option<Pause>> {
    let own = member.paused.clone().map(|paused| Pause::of(PauseScope::TeamAgent, paused));
    Ok(agents::pause_of(view, member.agent)?.or(own))
}

/// What the budget of a team, or of an agent in it, holds back that is used up in this month.
fn of_budget(view: &View, team: &Team, member: Option<&Member>) -> Result<Option<Pause>> {
    let budget = member.map_or(team.budget(), |member| member.budget);
    let pausing = budget.filter(|budget| budget.on_exhausted == OnExhausted::Pause);
    let Some(budget) = pausing else { return Ok(None) };
    let (calendar, now) = (team.calendar(), view.now());
    let key = (team.id, member.map(|member| member.id), calendar.month(now));
    let state: Option<BudgetState> = view.get(&key)?;
    // Of one that is over nobody would be told when it ends: it counts once it is judged anew.
    let mut since = state.filter(|state| !state.is_over).and_then(|state| state.held_since);
    // It may have been raised while another month was the current one, in another zone.
    if since.is_some() {
        let account = match member {
            None => Account::of_team(view, team)?,
            Some(member) => Account::of_member(view, team, member)?,
        };
        since = since.filter(|_| account.level() == BudgetLevel::Exhausted);
    }
    // Of nothing, nothing is left, also in a month in which nothing was spent yet.
    let since = since.or(budget.is_nothing().then(|| calendar.month_begin(now)));
    Ok(since.map(|since| Pause {
        scope: if member.is_some() { PauseScope::AgentBudget } else { PauseScope::TeamBudget },
        by: None,
        since,
        ends_at: (!budget.is_nothing()).then(|| calendar.next_month(now)),
        reason: None,
    }))
}
