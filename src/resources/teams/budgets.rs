//! Spending of monthly budgets: who is told, and what stops (reference: teams-and-wakes, "Budgets").
//!
//! A budget holds back by its state, which counts for its month alone: whoever asks after that is not held
//! back. Those that wait are told to look again when the month has ended, or the budget is raised.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::budget::{Budget, BudgetInfo, BudgetLevel, OnExhausted, to_nano};
use super::member::{self, Member, scrum_master};
use super::schedule::WakeText;
use super::spending::{BudgetState, CURRENT, MonthlySpending};
use super::team::{Team, reaches};
use super::team_changes::{TeamChange, TeamChangeKind};
use super::usable::UsableMembers;
use super::usage::spent_by_agent;
use super::wakes::{self, WakeCause};
use super::{changes, holds, rousing};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Id, Name, Result, Time};
use crate::outbox::{About, EventType, RetentionSettings, Sweep, SweepProgress, publish};
use crate::resources::agents;
use crate::store::{ListSource, Order, Page, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    sweeps: &[END_MONTHS],
    events: &[EventType::TeamBudgetExhausted],
    ..Resource::EMPTY
};

// ── What is spent ────────────────────────────────────────────────────────────

/// Adds a cost to what a team has spent this month. That of the agent follows from its usage, which is
/// noted before.
pub fn spend(tx: &mut Tx, team: &Team, member: &Member, cost_usd: f64) -> Result<()> {
    let month_start = team.calendar().month(tx.now());
    let none =
        MonthlySpending { team: team.id, month_start, spent_usd: 0.0, exhaustion_published: false };
    let mut spending = tx.get(&none.key())?.unwrap_or(none);
    spending.spent_usd = to_nano(spending.spent_usd + cost_usd);
    tx.put(&spending)?;
    if team.monthly_usd.is_some() {
        judge(tx, &Account::of_team(&tx.view(), team)?, Some(member))?;
    }
    match member.budget {
        Some(_) => judge(tx, &Account::of_member(&tx.view(), team, member)?, Some(member)),
        None => Ok(()),
    }
}

/// A budget, or that there is none, and what is spent this month.
struct Account<'a> {
    team: &'a Team,
    /// Whose budget it is, if not the team's.
    member: Option<&'a Member>,
    budget: Option<Budget>,
    spent_usd: f64,
    /// Whether an earlier release has told that it is used up.
    was_told: bool,
}

impl<'a> Account<'a> {
    fn of_team(view: &View, team: &'a Team) -> Result<Self> {
        let spending: Option<MonthlySpending> =
            view.get(&(team.id, team.calendar().month(view.now())))?;
        Ok(Account {
            team,
            member: None,
            budget: team.budget(),
            spent_usd: spending.as_ref().map_or(0.0, |spending| spending.spent_usd),
            was_told: spending.is_some_and(|spending| spending.exhaustion_published),
        })
    }

    fn of_member(view: &View, team: &'a Team, member: &'a Member) -> Result<Self> {
        let budget = member.budget;
        let spent_usd = match budget {
            Some(_) => spent_by_agent(view, team, member.id)?,
            None => 0.0,
        };
        Ok(Account { team, member: Some(member), budget, spent_usd, was_told: false })
    }

    /// Its state before anything is known of it.
    fn blank(&self, month_start: Time) -> BudgetState {
        BudgetState {
            team: self.team.id,
            agent: self.member.map(|member| member.id),
            month_start,
            low_since: None,
            exhausted_at: None,
            exhaustion_published: self.was_told,
            is_over: false,
        }
    }

    fn info(&self) -> Option<BudgetInfo> {
        self.budget.map(|budget| BudgetInfo::of(budget, self.spent_usd))
    }
}

/// Returns a team's budget and what is spent of it.
pub fn info_of_team(view: &View, team: &Team) -> Result<Option<BudgetInfo>> {
    if team.monthly_usd.is_none() { Ok(None) } else { Ok(Account::of_team(view, team)?.info()) }
}

/// Returns an agent's budget in its team and what is spent of it.
pub fn info_of_member(view: &View, member: &Member) -> Result<Option<BudgetInfo>> {
    if member.budget.is_none() {
        return Ok(None);
    }
    let team: Team = view.fetch(&member.team)?;
    Ok(Account::of_member(view, &team, member)?.info())
}

// ── What follows ─────────────────────────────────────────────────────────────

/// Stores how a budget stands, and tells of what is new; `acting` is who knows already.
fn judge(tx: &mut Tx, account: &Account, acting: Option<&Member>) -> Result<()> {
    let now = tx.now();
    let blank = account.blank(account.team.calendar().month(now));
    let stored = tx.get::<BudgetState>(&blank.key())?;
    let level = match account.budget {
        Some(budget) => budget.level(account.spent_usd),
        None => BudgetLevel::Fine,
    };
    if level == BudgetLevel::Fine && stored.is_none() {
        return Ok(());
    }
    let old = stored.clone().unwrap_or(blank);
    let is_exhausted = level == BudgetLevel::Exhausted;
    let new = BudgetState {
        low_since: (level != BudgetLevel::Fine).then(|| old.low_since.unwrap_or(now)),
        exhausted_at: is_exhausted.then(|| old.exhausted_at.unwrap_or(now)),
        exhaustion_published: old.exhaustion_published || is_exhausted,
        // A month that has ended goes on where another zone is set, or a clock.
        is_over: false,
        ..old.clone()
    };
    if stored.as_ref() != Some(&new) {
        tx.put(&new)?;
    }
    if let Some(budget) = account.budget {
        if new.exhaustion_published && !old.exhaustion_published {
            publish_exhausted(tx, account, budget)?;
        } else if is_exhausted && stored.is_some_and(|old| old.exhausted_at.is_none()) {
            note(tx, account.team, new.agent, TeamChangeKind::BudgetExhausted)?;
        }
        let is_new = (new.low_since.is_some() && old.low_since.is_none())
            || (is_exhausted && old.exhausted_at.is_none());
        if is_new {
            tell_scrum_master(tx, account, (budget, level), acting)?;
        }
    }
    Ok(())
}

/// Notes what has become of a budget by itself.
fn note(tx: &mut Tx, team: &Team, agent: Option<Id<Member>>, kind: TeamChangeKind) -> Result<()> {
    let change = TeamChange::of(tx, Some(team.id), kind, None);
    TeamChange { agent, ..change }.note(tx)
}

fn publish_exhausted(tx: &mut Tx, account: &Account, budget: Budget) -> Result<()> {
    let (team, member) = (account.team, account.member);
    let agent_name = member.map(|member| member::name(&tx.view(), member)).transpose()?;
    let payload = json!({
        "teamId": team.id, "teamName": team.name,
        "monthlyUsd": budget.monthly_usd, "spentUsd": account.spent_usd,
        "onExhausted": budget.on_exhausted,
        "agentId": member.map(|member| member.id),
        "stableKey": member.map(|member| &member.stable_key),
        "agentName": agent_name,
    });
    let about = match member {
        None => About::resource("team", team.id),
        Some(member) => About::resource("team_agent", member.id).guarded_by("agent", member.agent),
    };
    publish(tx, EventType::TeamBudgetExhausted, about, payload)?;
    changes::tell(tx, team.id);
    Ok(())
}

/// Wakes the team's Scrum Master, unless it is the one whose act it was.
fn tell_scrum_master(
    tx: &mut Tx,
    account: &Account,
    (budget, level): (Budget, BudgetLevel),
    acting: Option<&Member>,
) -> Result<()> {
    let Some(master) = scrum_master(&tx.view(), account.team.id)? else { return Ok(()) };
    if acting.is_some_and(|acting| acting.id == master.id) {
        return Ok(());
    }
    let what = match (level, budget.on_exhausted) {
        (BudgetLevel::Exhausted, OnExhausted::Pause) => {
            "used up: nothing is begun until the month ends, or it is raised"
        }
        (BudgetLevel::Exhausted, OnExhausted::Notify) => "used up",
        _ => "low",
    };
    let amounts = format!("Spent this month: {} of {} USD.", account.spent_usd, budget.monthly_usd);
    let text = match account.member {
        None => format!("The budget of the team is {what}. {amounts}"),
        // Amounts of a restricted agent are for those who may use it.
        Some(member) if !agents::is_open(&tx.view(), member.agent)? => return Ok(()),
        Some(member) => {
            format!("The budget of the agent {} is {what}. {amounts}", &*member.stable_key)
        }
    };
    let invalid = |why| Error::internal(format!("a notice cannot be a wake: {why}"));
    let text = WakeText::parse(text).map_err(invalid)?;
    wakes::wake(tx, &master, &WakeCause::BudgetLow(&text))
}

/// Judges the budget of a team anew after a change of it, or of the team's time zone, and those of its
/// agents when they spend next.
pub fn team_changed(tx: &mut Tx, team: &Team) -> Result<()> {
    judge(tx, &Account::of_team(&tx.view(), team)?, None)?;
    if holds::of_team(&tx.view(), team)?.is_some() { Ok(()) } else { rouse_team(tx, team.id) }
}

fn rouse_team(tx: &mut Tx, team: Id<Team>) -> Result<()> {
    rousing::rouse_members(tx, team, Id::NIL)
}

/// Judges the budget of an agent anew after a change of it.
pub fn member_changed(tx: &mut Tx, team: &Team, member: &Member) -> Result<()> {
    judge(tx, &Account::of_member(&tx.view(), team, member)?, None)?;
    let is_held = holds::of_member(&tx.view(), member)?.is_some();
    if is_held { Ok(()) } else { rousing::rouse(tx, member) }
}

/// Forgets how the budget of an agent stood that leaves.
pub fn forget(tx: &mut Tx, member: &Member) -> Result<()> {
    let all: Vec<BudgetState> = tx.all(ListSource::TABLE, &(member.team, Some(member.id)))?;
    all.iter().try_for_each(|state| tx.remove(state))
}

// ── The end of a month ───────────────────────────────────────────────────────

/// Has those look again whom a budget held back in a month that has ended.
const END_MONTHS: Sweep =
    Sweep { name: "budgets of past months", every_secs: 20, run: end_months, installation: false };

/// So many are seen to in one transaction.
const AT_ONCE: usize = 100;

fn end_months(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    // Where the next month may have begun; on most days those of this month are not looked at.
    let end = tx.now().plus_secs(24 * 3600).month_start();
    let start = Time::from_millis(i64::MIN);
    let mut keys = Vec::new();
    tx.view().entries(&CURRENT, &start, &end, Order::Ascending, |_, key| {
        keys.push(key);
        Ok(ControlFlow::Continue(()))
    })?;
    let mut teams: BTreeMap<Id<Team>, Option<Team>> = BTreeMap::new();
    let mut ended = 0;
    for key in keys {
        let team = match teams.get(&key.0) {
            Some(known) => known.clone(),
            None => tx.get::<Team>(&key.0)?,
        };
        teams.insert(key.0, team.clone());
        let Some(team) = team else { continue }; // It is being removed, with this.
        if team.calendar().month(tx.now()) <= key.2 {
            continue;
        }
        end_month(tx, &team, &key)?;
        ended += 1;
        if ended == AT_ONCE {
            return Ok(SweepProgress::More);
        }
    }
    Ok(SweepProgress::Clean)
}

fn end_month(tx: &mut Tx, team: &Team, key: &<BudgetState as Record>::Key) -> Result<()> {
    let Some(state) = tx.get::<BudgetState>(key)? else { return Ok(()) };
    tx.replace(&state, &BudgetState { is_over: true, ..state.clone() })?;
    if state.exhausted_at.is_none() {
        return Ok(());
    }
    tx.unmark_deletion(); // A wake is for a disk that has place.
    note(tx, team, state.agent, TeamChangeKind::BudgetRenewed)?;
    let Some(agent) = state.agent else { return rouse_team(tx, team.id) };
    match tx.get::<Member>(&(team.id, agent))? {
        Some(member) => rousing::rouse(tx, &member),
        None => Ok(()),
    }
}

// ── What people see ──────────────────────────────────────────────────────────

/// A budget of which four fifths are spent.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LowBudget {
    team_id: Id<Team>,
    /// The team's current name.
    team_name: Name,
    /// The agent in the team whose budget it is; null if it is the team's.
    agent_id: Option<Id<Member>>,
    /// The agent's current name.
    agent_name: Option<Name>,
    budget: BudgetInfo,
    /// Since when four fifths of it are spent.
    low_since: Time,
    /// Since when it is used up; null if something is left.
    exhausted_at: Option<Time>,
}

impl Output for LowBudget {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.agent_id.map_or(self.team_id.cast(), Id::cast::<Team>))
    }
}

impl LowBudget {
    fn of(view: &View, state: &BudgetState) -> Result<Option<Self>> {
        let team: Team = view.fetch(&state.team)?;
        let member: Option<Member> = match state.agent {
            Some(agent) => Some(view.fetch(&(team.id, agent))?),
            None => None,
        };
        let account = match &member {
            Some(member) => Account::of_member(view, &team, member)?,
            None => Account::of_team(view, &team)?,
        };
        let (Some(budget), Some(low_since)) = (account.info(), state.low_since) else {
            return Ok(None);
        };
        Ok(Some(LowBudget {
            budget,
            low_since,
            exhausted_at: state.exhausted_at,
            agent_id: state.agent,
            agent_name: member.as_ref().map(|one| member::name(view, one)).transpose()?,
            team_id: team.id,
            team_name: team.name.clone(),
        }))
    }
}

/// Lists the budgets of all teams, and of their agents, of which four fifths are spent.
pub fn list_low(view: &View, req: &Req) -> Result<Page<LowBudget>> {
    let usable = UsableMembers::of(view, req.caller());
    let is_listed = |state: &BudgetState| {
        let team = view.get::<Team>(&state.team).ok().flatten();
        state.low_since.is_some()
            && team.is_some_and(|team| state.month_start == team.calendar().month(view.now()))
            && reaches(view, req.caller(), ScopeName::TeamRead, state.team)
            && state.agent.is_none_or(|agent| {
                usable.has(state.team, agent)
                    && view.has::<Member>(&(state.team, agent)).unwrap_or(false)
            })
    };
    let show = |view: &View, state: BudgetState| LowBudget::of(view, &state);
    let found = view.page_map(&CURRENT, &(), Order::Ascending, &req.page, is_listed, show)?;
    Ok(Page { items: found.items.into_iter().flatten().collect(), next: found.next })
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams/low-budgets", MEMBER, "low_budget.list", op::list(list_low))
            .needs_listed(ScopeName::TeamRead)
            .about("List the budgets of which four fifths are spent"),
    ]
}

#[cfg(test)]
mod tests;
