//! Budgets with what is spent of them this month, of teams and of agents in them (reference:
//! teams-and-wakes, "Budgets").

use super::budget::{Budget, BudgetInfo, BudgetLevel, OnExhausted};
use super::member::Member;
use super::schedule::WakeText;
use super::spending::{BudgetState, MonthlySpending};
use super::team::Team;
use super::usage::{spent_by_agent, unpriced_tokens};
use crate::base::{Error, Id, Result, Time};
use crate::resources::agents;
use crate::store::View;

/// A budget, or that there is none, and what is spent this month.
pub struct Account<'a> {
    pub team: &'a Team,
    /// Whose budget it is, if not the team's.
    pub member: Option<&'a Member>,
    pub budget: Option<Budget>,
    /// In US dollars.
    pub spent_usd: f64,
    /// Whether an earlier release has told that it is used up.
    was_told: bool,
}

impl<'a> Account<'a> {
    /// That of a team.
    pub fn of_team(view: &View, team: &'a Team) -> Result<Self> {
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

    /// That of an agent in a team.
    pub fn of_member(view: &View, team: &'a Team, member: &'a Member) -> Result<Self> {
        let budget = member.budget;
        let spent_usd = match budget {
            Some(_) => spent_by_agent(view, team, member.id)?,
            None => 0.0,
        };
        Ok(Account { team, member: Some(member), budget, spent_usd, was_told: false })
    }

    /// How much of the budget is used up; without one nothing is.
    pub fn level(&self) -> BudgetLevel {
        self.budget.map_or(BudgetLevel::Fine, |budget| budget.level(self.spent_usd))
    }

    /// Its state before anything is known of it.
    pub fn blank(&self, month_start: Time) -> BudgetState {
        BudgetState {
            team: self.team.id,
            agent: self.member.map(|member| member.id),
            month_start,
            low_since: None,
            exhausted_at: None,
            exhaustion_published: self.was_told,
            is_over: false,
            held_since: None,
            hold_published: false,
        }
    }

    /// The budget as the API returns it.
    pub fn info(&self, view: &View) -> Result<Option<BudgetInfo>> {
        let Some(budget) = self.budget else { return Ok(None) };
        let unpriced = unpriced_tokens(view, self.team, self.member.map(|member| member.id))?;
        Ok(Some(BudgetInfo::of(budget, self.spent_usd, unpriced)))
    }

    /// What the Scrum Master is told of it while it is low or used up. Amounts of a restricted agent are for
    /// those who may use it.
    pub fn notice(&self, view: &View) -> Result<Option<WakeText>> {
        let (Some(budget), level) = (self.budget, self.level()) else { return Ok(None) };
        let what = match (level, budget.on_exhausted) {
            (BudgetLevel::Fine, _) => return Ok(None),
            (BudgetLevel::Low, _) => "low",
            (BudgetLevel::Exhausted, OnExhausted::Notify) => "used up",
            (BudgetLevel::Exhausted, OnExhausted::Pause) if budget.is_nothing() => {
                "used up: nothing is begun until it is raised"
            }
            (BudgetLevel::Exhausted, OnExhausted::Pause) => {
                "used up: nothing is begun until the month ends, or it is raised"
            }
        };
        let whose = match self.member {
            None => "the team".into(),
            Some(member) if !agents::is_open(view, member.agent)? => return Ok(None),
            Some(member) => format!("the agent {}", &*member.stable_key),
        };
        let (spent, monthly) = (self.spent_usd, budget.monthly_usd);
        let text =
            format!("The budget of {whose} is {what}. Spent this month: {spent} of {monthly} USD.");
        let invalid = |why| Error::internal(format!("a notice cannot be a wake: {why}"));
        WakeText::parse(text).map(Some).map_err(invalid)
    }
}

/// Returns a team's budget and what is spent of it.
pub fn info_of_team(view: &View, team: &Team) -> Result<Option<BudgetInfo>> {
    if team.monthly_usd.is_none() { Ok(None) } else { Account::of_team(view, team)?.info(view) }
}

/// Returns an agent's budget in its team and what is spent of it.
pub fn info_of_member(view: &View, member: &Member) -> Result<Option<BudgetInfo>> {
    if member.budget.is_none() {
        return Ok(None);
    }
    let team: Team = view.fetch(&member.team)?;
    Account::of_member(view, &team, member)?.info(view)
}

/// Returns how the budget of a team, or of an agent in it, stands, as its Scrum Master is told; `None` if it
/// is neither low nor used up any more.
pub fn notice(view: &View, team: Id<Team>, agent: Option<Id<Member>>) -> Result<Option<WakeText>> {
    let Some(team) = view.get::<Team>(&team)? else { return Ok(None) };
    let Some(agent) = agent else { return Account::of_team(view, &team)?.notice(view) };
    match view.get::<Member>(&(team.id, agent))? {
        Some(member) => Account::of_member(view, &team, &member)?.notice(view),
        None => Ok(None),
    }
}
