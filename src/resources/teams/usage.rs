//! What runs have used, summed by month, day, model, agent and task (reference: teams-and-wakes, "Usage").
//!
//! Each run is added to the sums when it is reported, so that what is shown costs what is shown, however
//! many runs there were.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::member::{self, Member};
use super::task::Task;
use super::team::{TEAM_IN_PATH, Team, fetch_team};
use super::usable::UsableMembers;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Id, Name, Result, TextRule, Time, Title, Validated};
use crate::resources::agents;
use crate::resources::model_prices::{ModelName, ModelUsage};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Usage>()], ..Resource::EMPTY };

/// Sums of so many models a month are kept for a team; what others used is with what no model is known of.
const MAX_MODELS: usize = 200;

// ── Record ───────────────────────────────────────────────────────────────────

/// What usage is summed by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UsageBy {
    /// All of each month.
    Month,
    /// Each day of a month.
    #[default]
    Day,
    /// Each model.
    Model,
    /// Each agent.
    Agent,
    /// Each task.
    Task,
}
crate::store::stored_enum!(UsageBy { Month = 0, Day = 1, Model = 2, Agent = 3, Task = 4 });

crate::base::portable! {
/// What the runs of a team that are about one subject have used in a month.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Usage {
    team: Id<Team>,
    by: UsageBy,
    /// The month ([`Calendar::month`](super::zone::Calendar::month)).
    month_start: Time,
    day: Option<Time>,
    /// `None` also for what no model was named for.
    model: Option<ModelName>,
    agent: Option<Id<Member>>,
    task: Option<Id<Task>>,
    amounts: Amounts,
}
}

crate::base::portable! {
/// What is summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Encode, Decode)]
pub struct Amounts {
    runs: u64,
    /// Tokens, also those from a cache.
    input: u64,
    output: u64,
    cached: u64,
    /// In billionths of a US dollar.
    cost_nano: u64,
    /// Tokens of input and output of which nobody knows what they cost.
    unpriced: u64,
}
}

impl Amounts {
    fn plus(self, other: Self) -> Self {
        Amounts {
            runs: self.runs.saturating_add(other.runs),
            input: self.input.saturating_add(other.input),
            output: self.output.saturating_add(other.output),
            cached: self.cached.saturating_add(other.cached),
            cost_nano: self.cost_nano.saturating_add(other.cost_nano),
            unpriced: self.unpriced.saturating_add(other.unpriced),
        }
    }

    /// Of one model in a run.
    fn of(usage: &ModelUsage, run: &Used<'_>) -> Self {
        let ModelUsage { input, output, cached, .. } = *usage;
        let is_cost_known = usage.cost_usd.is_some() || run.is_cost_reported;
        Amounts {
            runs: 1,
            input,
            output,
            cached,
            cost_nano: nano(usage.cost_usd.unwrap_or(0.0)),
            unpriced: if is_cost_known { 0 } else { input.saturating_add(output) },
        }
    }

    fn cost_usd(self) -> f64 {
        self.cost_nano as f64 / 1e9
    }
}

fn nano(usd: f64) -> u64 {
    (usd * 1e9).round() as u64
}

type Month = (Id<Team>, UsageBy, Time);

/// Sums by their cost: what is dearest is shown first.
static BY_COST: Index<Usage, (Month, u64)> = Index::non_unique("usage.by_cost", |usage| {
    let is_long = matches!(usage.by, UsageBy::Model | UsageBy::Agent | UsageBy::Task);
    is_long.then_some(((usage.team, usage.by, usage.month_start), usage.amounts.cost_nano))
});

static TEAM: Reference<Usage, Team> = Reference::cascade(
    &["team"],
    |team: &Team| team.id.to_bytes(),
    |usage: &Usage, _| vec![usage.team.to_bytes()],
)
.deferred();

impl Record for Usage {
    const TABLE: &'static str = "usage";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_COST];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("agent", "history: the agent may have left"),
        ("task", "a task is removed with its team alone, and this with it"),
    ];
    type Key = (Month, (Option<Time>, Option<ModelName>, Option<Id<Member>>, Option<Id<Task>>));
    fn key(&self) -> Self::Key {
        let month = (self.team, self.by, self.month_start);
        (month, (self.day, self.model.clone(), self.agent, self.task))
    }
}

// ── What a run adds ──────────────────────────────────────────────────────────

/// What a run has used, and what it cost.
pub struct Used<'a> {
    pub usage: &'a [ModelUsage],
    /// As reported or, if it was not, what its models cost.
    pub cost_usd: Option<f64>,
    /// Whether the cost of the whole run was reported.
    pub is_cost_reported: bool,
}

/// Adds what a run has used to the sums of its team.
pub fn add(
    tx: &mut Tx,
    team: &Team,
    (member, task): (&Member, Option<Id<Task>>),
    used: &Used<'_>,
) -> Result<()> {
    let (calendar, now) = (team.calendar(), tx.now());
    let cost_nano = nano(used.cost_usd.unwrap_or(0.0));
    let parts: Vec<(&ModelName, Amounts)> =
        used.usage.iter().map(|part| (&part.model, Amounts::of(part, used))).collect();
    let tokens = parts.iter().fold(Amounts::default(), |sum, (_, part)| sum.plus(*part));
    let whole = Amounts { runs: 1, cost_nano, ..tokens };
    let blank = |by, amounts| Usage {
        team: team.id,
        by,
        month_start: calendar.month(now),
        day: None,
        model: None,
        agent: None,
        task: None,
        amounts,
    };
    sum(tx, blank(UsageBy::Month, whole))?;
    sum(tx, Usage { day: Some(calendar.day(now)), ..blank(UsageBy::Day, whole) })?;
    sum(tx, Usage { agent: Some(member.id), ..blank(UsageBy::Agent, whole) })?;
    // What a restricted agent costs is for those who may use it, and tasks are for all.
    if agents::is_open(&tx.view(), member.agent)? {
        sum(tx, Usage { task, ..blank(UsageBy::Task, whole) })?;
    }
    let (named, mut rest) = by_model(&tx.view(), (team, calendar.month(now)), &parts)?;
    for (model, amounts) in named {
        sum(tx, Usage { model: Some(model.clone()), ..blank(UsageBy::Model, amounts) })?;
    }
    // What its models do not explain.
    rest.cost_nano += cost_nano.saturating_sub(tokens.cost_nano);
    if parts.is_empty() || rest != Amounts::default() {
        sum(tx, blank(UsageBy::Model, Amounts { runs: 1, ..rest }))?;
    }
    Ok(())
}

/// Divides what a run used into the sums of models that are kept or can be begun, and the rest.
fn by_model<'a>(
    view: &View,
    (team, month): (&Team, Time),
    parts: &[(&'a ModelName, Amounts)],
) -> Result<(Vec<(&'a ModelName, Amounts)>, Amounts)> {
    let place = (team.id, UsageBy::Model, month);
    let (mut named, mut rest, mut free) = (Vec::new(), Amounts::default(), None);
    for (model, amounts) in parts {
        let key = (place, (None, Some(ModelName::clone(model)), None, None));
        if !view.has::<Usage>(&key)? {
            let left = match free {
                Some(left) => left,
                None => MAX_MODELS - view.count(ListSource::<Usage>::TABLE, &place, MAX_MODELS)?,
            };
            free = Some(left.saturating_sub(1));
            if left == 0 {
                rest = rest.plus(*amounts);
                continue;
            }
        }
        named.push((*model, *amounts));
    }
    Ok((named, rest))
}

fn sum(tx: &mut Tx, added: Usage) -> Result<()> {
    let old: Option<Usage> = tx.get(&added.key())?;
    match old {
        None => tx.insert(&added),
        Some(old) => {
            let amounts = old.amounts.plus(added.amounts);
            tx.replace(&old, &Usage { amounts, ..old.clone() })
        }
    }
}

/// Returns what the runs of an agent have cost in this month.
pub fn spent_by_agent(view: &View, team: &Team, agent: Id<Member>) -> Result<f64> {
    Ok(this_month(view, team, Some(agent))?.cost_usd())
}

/// Returns how many tokens a team, or an agent in it, has used in this month of which nobody knows what they
/// cost.
pub fn unpriced_tokens(view: &View, team: &Team, agent: Option<Id<Member>>) -> Result<u64> {
    Ok(this_month(view, team, agent)?.unpriced)
}

fn this_month(view: &View, team: &Team, agent: Option<Id<Member>>) -> Result<Amounts> {
    let by = if agent.is_some() { UsageBy::Agent } else { UsageBy::Month };
    let month = (team.id, by, team.calendar().month(view.now()));
    let usage: Option<Usage> = view.get(&(month, (None, None, agent, None)))?;
    Ok(usage.map_or(Amounts::default(), |usage| usage.amounts))
}

// ── What callers send and see ────────────────────────────────────────────────

/// A month, such as 2026-11.
pub type MonthName = Validated<MonthRule>;

/// The rule of [`MonthName`].
pub struct MonthRule;
impl TextRule for MonthRule {
    fn check(text: String) -> Result<String, String> {
        match month_of(&text) {
            Some(_) if text.len() == 7 => Ok(text),
            _ => Err("must be a month, such as 2026-11".into()),
        }
    }
    fn schema() -> serde_json::Value {
        json!({"type": "string", "minLength": 7, "maxLength": 7, "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])$"})
    }
}

fn month_of(text: &str) -> Option<Time> {
    Time::parse(&format!("{text}-01T00:00:00Z"))
}

/// Which sums to list.
#[derive(Deserialize, JsonSchema)]
pub struct UsageFilter {
    /// What is summed by. `day` if absent.
    by: Option<UsageBy>,
    /// The month alone. If absent the current one in the team's time zone; all with `by=month`.
    month: Option<MonthName>,
    /// True: only sums with tokens of which nobody knows what they cost.
    unpriced: Option<bool>,
}
impl Input for UsageFilter {}

/// What runs of a team have used. The field that it is summed by has a value, but for what is of none.
#[derive(Debug, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "TeamUsage")]
pub struct UsageInfo {
    /// The month in the team's time zone, such as 2026-11.
    month: String,
    /// The day in the team's time zone, such as 2026-11-28.
    day: Option<String>,
    /// The model; null also for what no model was named for.
    model: Option<ModelName>,
    agent_id: Option<Id<Member>>,
    /// The agent's current name; null if it has left.
    agent_name: Option<Name>,
    /// The task; null also for runs without one.
    task_id: Option<Id<Task>>,
    /// The task's current title.
    task_title: Option<Title>,
    /// How many runs were reported.
    runs: u64,
    /// Input tokens, also those from a cache.
    input: u64,
    /// Output tokens.
    output: u64,
    /// Those of the input tokens that came from a cache.
    cached: u64,
    /// The cost in US dollars, as far as it is known.
    cost_usd: f64,
    /// Those of the input and output tokens that count nothing in `costUsd`: neither was their cost
    /// reported, nor had their model a price.
    unpriced_tokens: u64,
}

impl Output for UsageInfo {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

impl UsageInfo {
    fn of(view: &View, usage: Usage) -> Result<Self> {
        let member: Option<Member> = match usage.agent {
            Some(agent) => view.get(&(usage.team, agent))?,
            None => None,
        };
        let task: Option<Task> = match usage.task {
            Some(task) => view.get(&(usage.team, task))?,
            None => None,
        };
        let text = |time: Time, length: usize| -> String {
            time.to_string().chars().take(length).collect()
        };
        let Amounts { runs, input, output, cached, unpriced, .. } = usage.amounts;
        Ok(UsageInfo {
            month: text(usage.month_start, 7),
            day: usage.day.map(|day| text(day, 10)),
            model: usage.model,
            agent_id: usage.agent,
            agent_name: member.map(|member| member::name(view, &member)).transpose()?,
            task_id: usage.task,
            task_title: task.map(|task| task.title),
            runs,
            input,
            output,
            cached,
            cost_usd: usage.amounts.cost_usd(),
            unpriced_tokens: unpriced,
        })
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists what a team has used: months with the newest first, days in their order, all others with the
/// dearest first.
fn list(view: &View, req: &Req<Id<Team>, UsageFilter>) -> Result<Page<UsageInfo>> {
    let team = fetch_team(view, req.params)?;
    let by = req.input.by.unwrap_or_default();
    let named = req.input.month.as_ref().and_then(|month| month_of(month));
    let month = (team.id, by, named.unwrap_or_else(|| team.calendar().month(view.now())));
    let usable = UsableMembers::of(view, req.caller());
    let is_unpriced = req.input.unpriced == Some(true);
    let is_listed = |usage: &Usage| {
        usage.agent.is_none_or(|agent| usable.has(team.id, agent))
            && (usage.amounts.unpriced > 0 || !is_unpriced)
    };
    let (table, part, show) = (ListSource::TABLE, &req.page, UsageInfo::of);
    match by {
        UsageBy::Month if named.is_none() => {
            view.page_map(table, &(team.id, by), Order::Descending, part, is_listed, show)
        }
        UsageBy::Month | UsageBy::Day => {
            view.page_map(table, &month, Order::Ascending, part, is_listed, show)
        }
        UsageBy::Model | UsageBy::Agent | UsageBy::Task => {
            view.page_map(&BY_COST, &month, Order::Descending, part, is_listed, show)
        }
    }
}

fn routes() -> Vec<Route> {
    vec![
        Route::get("/teams/{teamId}/usage", MEMBER, "team_usage.list", op::list(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("List what a team's runs have used and cost"),
    ]
}

#[cfg(test)]
mod tests;
