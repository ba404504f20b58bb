//! Spending of monthly budgets: who is told, and what stops (reference: teams-and-wakes, "Budgets").
//!
//! A budget holds back by its state, which counts for its month alone: whoever asks after that is not held
//! back. Those that wait are told to look again when the month has ended, or the budget is raised.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::accounts::Account;
use super::budget::{Budget, BudgetInfo, BudgetLevel, OnExhausted, to_nano};
use super::member::{self, Member, scrum_master};
use super::spending::{BudgetState, CURRENT, CurrentPlace, MonthlySpending};
use super::team::{Team, reaches};
use super::team_changes::{TeamChange, TeamChangeKind};
use super::usable::UsableMembers;
use super::wakes::{self, WakeCause};
use super::{changes, holds, rousing};
use crate::api::{Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Id, Kind, Name, Result, Time};
use crate::outbox::{
    About, EventType, Job, JobHandler, Prepared, RetentionSettings, SWEEP_ROWS, Sweep,
    SweepProgress, Target, enqueue, no_effect, publish,
};
use crate::store::{ListSource, Order, Page, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    jobs: &[JUDGE_MEMBERS],
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

// ── What follows ─────────────────────────────────────────────────────────────

/// Stores how a budget stands, and tells of what is new; `acting` is who knows already.
fn judge(tx: &mut Tx, account: &Account, acting: Option<&Member>) -> Result<()> {
    let now = tx.now();
    let blank = account.blank(account.team.calendar().month(now));
    let stored = tx.get::<BudgetState>(&blank.key())?;
    let level = account.level();
    if level == BudgetLevel::Fine && stored.is_none() {
        return Ok(());
    }
    let old = stored.clone().unwrap_or(blank);
    let is_exhausted = level == BudgetLevel::Exhausted;
    let pauses = account.budget.is_some_and(|budget| budget.on_exhausted == OnExhausted::Pause);
    let is_held = is_exhausted && pauses;
    let new = BudgetState {
        low_since: (level != BudgetLevel::Fine).then(|| old.low_since.unwrap_or(now)),
        exhausted_at: is_exhausted.then(|| old.exhausted_at.unwrap_or(now)),
        exhaustion_published: old.exhaustion_published || is_exhausted,
        // A month that has ended goes on where another zone is set, or a clock.
        is_over: false,
        held_since: is_held.then(|| old.held_since.unwrap_or(now)),
        hold_published: old.hold_published || is_held,
        ..old.clone()
    };
    if stored.as_ref() != Some(&new) {
        tx.put(&new)?;
    }
    let Some(budget) = account.budget else { return Ok(()) };
    let is_newly_exhausted = is_exhausted && old.exhausted_at.is_none();
    let told = |state: &BudgetState| (state.exhaustion_published, state.hold_published);
    if told(&new) != told(&old) {
        publish_exhausted(tx, account, budget)?;
    } else if is_newly_exhausted && stored.is_some() {
        note(tx, account.team, new.agent, TeamChangeKind::BudgetExhausted)?;
    }
    let is_new = (new.low_since.is_some() && old.low_since.is_none())
        || is_newly_exhausted
        || (is_held && old.held_since.is_none());
    if is_new { tell_scrum_master(tx, account, acting) } else { Ok(()) }
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
fn tell_scrum_master(tx: &mut Tx, account: &Account, acting: Option<&Member>) -> Result<()> {
    let Some(master) = scrum_master(&tx.view(), account.team.id)? else { return Ok(()) };
    if acting.is_some_and(|acting| acting.id == master.id) {
        return Ok(());
    }
    match account.notice(&tx.view())? {
        Some(text) => {
            let agent = account.member.map(|member| member.id);
            wakes::wake(tx, &master, &WakeCause::BudgetLow(agent, &text))
        }
        None => Ok(()),
    }
}

/// Judges the budget of a team anew after a change of it.
pub fn team_changed(tx: &mut Tx, team: &Team) -> Result<()> {
    judge(tx, &Account::of_team(&tx.view(), team)?, None)?;
    if holds::of_team(&tx.view(), team)?.is_some() { Ok(()) } else { rouse_team(tx, team.id) }
}

/// Judges the budgets of a team and of its agents anew after a change of its time zone, in which another
/// month may be the current one.
pub fn zone_changed(tx: &mut Tx, team: &Team) -> Result<()> {
    judge_members(tx, team, Id::NIL)?;
    team_changed(tx, team)
}

/// Does the same for the budgets of a team's agents as a change of its time zone has begun; the target is
/// the last agent that was seen to, the concurrency key the team.
const JUDGE_MEMBERS: JobHandler =
    JobHandler { kind: "team.judge_budgets", prepare: judge_next_members, settle: no_effect };

fn judge_next_members(tx: &mut Tx, job: &Job) -> Result<Prepared> {
    let key: Id<Target> = job.concurrency_key.unwrap_or(Id::NIL);
    if let Some(team) = tx.get::<Team>(&key.cast())? {
        judge_members(tx, &team, job.target.cast())?;
    }
    Ok(Prepared::Done)
}

/// Judges the budgets of some of a team's agents, from the one after `last` on, and enqueues the job for the
/// others.
fn judge_members(tx: &mut Tx, team: &Team, last: Id<Member>) -> Result<()> {
    let (members, next) = rousing::next_members(tx, team.id, last)?;
    for member in members.iter().filter(|member| member.budget.is_some()) {
        judge(tx, &Account::of_member(&tx.view(), team, member)?, None)?;
    }
    match next {
        Some(next) => {
            let now = tx.now();
            enqueue(tx, &JUDGE_MEMBERS, next.cast(), Some(team.id.cast()), now).map(drop)
        }
        None => Ok(()),
    }
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

/// So many are told in one transaction: servers that share a store tell each other of so many at once.
const AT_ONCE: usize = rousing::AT_ONCE;

/// Ends the months of some budgets, those behind the place where the step before this one ended. What
/// cannot be read is noted as damage, and left as it is.
fn end_months(tx: &mut Tx, settings: &RetentionSettings) -> Result<SweepProgress> {
    let found = current(&tx.view(), settings)?;
    let mut teams: BTreeMap<Id<Team>, Option<Team>> = BTreeMap::new();
    let mut ended = 0;
    for ((month, subject), key) in &found {
        let team = match teams.entry(key.0) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(place) => place.insert(readable(tx.get::<Team>(&key.0))?),
        };
        let Some(team) = team else { continue }; // It is being removed, with this.
        if team.calendar().month(tx.now()) <= key.2 {
            continue;
        }
        readable(tx.attempt(|tx| end_month(tx, team, key)).map(Some))?;
        ended += 1;
        if ended == AT_ONCE {
            return Ok(SweepProgress::MoreBehind((*month, subject.uuid())));
        }
    }
    let last = found.last().filter(|_| found.len() == SWEEP_ROWS);
    Ok(last.map_or(SweepProgress::Clean, |((month, subject), _)| {
        SweepProgress::MoreBehind((*month, subject.uuid()))
    }))
}

/// Returns the places of the next budgets whose month may have ended, as many as one step looks at.
fn current(
    view: &View,
    settings: &RetentionSettings,
) -> Result<Vec<(CurrentPlace, <BudgetState as Record>::Key)>> {
    // Where the next month may have begun; on most days those of this month are not looked at.
    let end = (view.now().plus_secs(24 * 3600).month_start(), Id::<()>::NIL);
    let behind: Option<CurrentPlace> = settings.behind.map(|(month, id)| (month, Id::new(id)));
    let start = behind.unwrap_or((Time::from_millis(i64::MIN), Id::NIL));
    let mut found = Vec::new();
    view.entries(&CURRENT, &start, &end, Order::Ascending, |place, key| {
        if Some(place) != behind {
            found.push((place, key));
        }
        let is_full = found.len() == SWEEP_ROWS;
        Ok(if is_full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(found)
}

/// Leaves out what cannot be read.
fn readable<T>(read: Result<Option<T>>) -> Result<Option<T>> {
    match read {
        Err(error) if error.kind() == Kind::Internal => Ok(None),
        read => read,
    }
}

fn end_month(tx: &mut Tx, team: &Team, key: &<BudgetState as Record>::Key) -> Result<()> {
    let Some(state) = tx.get::<BudgetState>(key)? else { return Ok(()) };
    tx.replace(&state, &BudgetState { is_over: true, ..state.clone() })?;
    if state.exhausted_at.is_none() {
        return Ok(());
    }
    tx.unmark_deletion(); // A wake is for a disk that has place.
    let member: Option<Member> = match state.agent {
        None => None,
        Some(agent) => match tx.get(&(team.id, agent))? {
            Some(member) => Some(member),
            None => return Ok(()),
        },
    };
    let account = match &member {
        None => Account::of_team(&tx.view(), team)?,
        Some(member) => Account::of_member(&tx.view(), team, member)?,
    };
    if account.level() == BudgetLevel::Exhausted {
        return judge(tx, &account, None); // Of nothing, nothing is left in any month.
    }
    note(tx, team, state.agent, TeamChangeKind::BudgetRenewed)?;
    match (state.held_since, &member) {
        (None, _) => Ok(()),
        (Some(_), None) => rouse_team(tx, team.id),
        (Some(_), Some(member)) => rousing::rouse(tx, member),
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
        let level = account.level();
        let (Some(budget), Some(low_since)) = (account.info(view)?, state.low_since) else {
            return Ok(None);
        };
        // It may have been raised while another month was the current one.
        if level == BudgetLevel::Fine {
            return Ok(None);
        }
        Ok(Some(LowBudget {
            budget,
            low_since,
            exhausted_at: state.exhausted_at.filter(|_| level == BudgetLevel::Exhausted),
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
