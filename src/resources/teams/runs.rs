//! Runs of agents, what they used, and what they cost (reference: teams-and-wakes, "Runs").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::changes;
use super::claim::WorkerName;
use super::lease::renew;
use super::member::{self, Member};
use super::task::{Task, fetch_task};
use super::team::{TEAM_IN_PATH, Team, fetch_team, require_team};
use super::usable::UsableMember;
use super::usage::{self, Used};
use super::{budgets, holds};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{BoundedList, Description, Id, Issue, Result, Time, Usd};
use crate::outbox::{About, EventType, publish};
use crate::resources::model_prices::{self, ModelUsage, NewModelUsage};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Page, Record, Reference,
    TableInfo, Tx, View, upgrade_shorter,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Run>()],
    events: &[EventType::TeamRunFailed],
    ..Resource::EMPTY
};

/// A run uses at most 50 models.
const MAX_MODELS: usize = 50;

// ── Record ───────────────────────────────────────────────────────────────────

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RunStatus {
    /// Without an error.
    Succeeded,
    /// With an error.
    Failed,
    /// Stopped before its end.
    Cancelled,
}
crate::store::stored_enum!(RunStatus { Succeeded = 0, Failed = 1, Cancelled = 2 });

crate::base::portable! {
/// A finished run of an agent.
#[derive(Clone, Debug, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "AgentRun")]
pub struct Run {
    pub id: Id<Run>,
    /// The agent's team.
    #[serde(skip)]
    pub team_id: Id<Team>,
    /// The agent that ran.
    pub agent_id: Id<Member>,
    /// How it ended.
    pub status: RunStatus,
    /// The cost in US dollars.
    pub cost_usd: Option<f64>,
    /// The error message.
    pub error: Option<Description>,
    /// The task it worked on.
    pub task_id: Option<Id<Task>>,
    /// When it was reported.
    pub created_at: Time,
    /// What it used of each model.
    pub usage: Vec<ModelUsage>,
}
}

impl Output for Run {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

static TEAM: Reference<Run, Team> = Reference::cascade(
    &["team_id"],
    |team: &Team| team.id.to_bytes(),
    |run: &Run, _| vec![run.team_id.to_bytes()],
)
.deferred();

/// Runs by team, in the order in which they were reported.
pub static BY_TEAM: Index<Run, (Id<Team>, Id<Run>)> =
    Index::non_unique("runs.by_team", |run| Some((run.team_id, run.id)));

type TaskOfTeam = (Id<Team>, Id<Task>);

/// The same by task.
pub static BY_TASK: Index<Run, (TaskOfTeam, Id<Run>)> =
    Index::non_unique("runs.by_task", |run| Some(((run.team_id, run.task_id?), run.id)));

impl Record for Run {
    const TABLE: &'static str = "runs";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TEAM, &BY_TASK];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEAM];
    const UNBOUND: &'static [(&'static str, &'static str)] = &[
        ("agent_id", "history: the agent may have left; its runs stay"),
        ("task_id", "a task is removed with its team alone, and this with it"),
    ];
    const VERSION: u8 = 2;
    type Key = (Id<Team>, Id<Member>, Id<Run>);
    fn key(&self) -> Self::Key {
        (self.team_id, self.agent_id, self.id)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

// ── What callers send ────────────────────────────────────────────────────────

/// A finished run to record.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [
        {"status": "succeeded", "costUsd": 0.04},
        {"status": "succeeded", "usage": [{"model": "gpt-5", "input": 1200, "output": 300, "cached": 1000}]},
    ],
))]
#[schemars(rename = "NewAgentRun")]
pub struct NewRun {
    /// How it ended.
    status: RunStatus,
    /// The cost in US dollars. If absent, what its usage costs.
    cost_usd: Option<Usd>,
    /// What it used of each model.
    usage: Option<BoundedList<NewModelUsage, 0, MAX_MODELS>>,
    /// The error message.
    error: Option<Description>,
    /// The task of the team that it worked on.
    task_id: Option<Id<Task>>,
    /// The process of the agent that reports it, whose leases it renews.
    worker: Option<WorkerName>,
}

impl Input for NewRun {
    fn check(&self, issues: &mut Vec<Issue>) {
        model_prices::check(self.usage.as_deref().unwrap_or_default(), issues);
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

/// Lists an agent's runs, newest first.
fn list(view: &View, req: &Req<(Id<Team>, Id<Member>)>) -> Result<Page<Run>> {
    let (team, agent) = req.params;
    require_team(view, team)?;
    let agent = UsableMember::fetch(view, req.caller(), (team, agent))?;
    view.page(ListSource::TABLE, &agent.key(), Order::Descending, &req.page, |_| true)
}

/// Records a run, and adds what it used and cost to the sums and the spending of this month.
pub fn create(tx: &mut Tx, req: &Req<(Id<Team>, Id<Member>), NewRun>) -> Result<Run> {
    let (team, agent) = req.params;
    let team = fetch_team(&tx.view(), team)?;
    let member = UsableMember::fetch(&tx.view(), req.caller(), (team.id, agent))?;
    holds::require_not_paused(&tx.view(), &member)?;
    renew(tx, &member, req.input.worker.as_ref())?;
    if let Some(task) = req.input.task_id {
        fetch_task(&tx.view(), team.id, task)?;
    }
    let used = model_prices::priced(&tx.view(), req.input.usage.as_deref().unwrap_or_default())?;
    let reported = req.input.cost_usd.map(Usd::get);
    let run = Run {
        id: tx.new_id(),
        team_id: team.id,
        agent_id: member.id,
        status: req.input.status,
        cost_usd: reported.or_else(|| model_prices::total(&used)),
        error: req.input.error.clone(),
        task_id: req.input.task_id,
        created_at: tx.now(),
        usage: used,
    };
    tx.insert(&run)?;
    let is_cost_reported = reported.is_some();
    let used = Used { usage: &run.usage, cost_usd: run.cost_usd, is_cost_reported };
    usage::add(tx, &team, (&member, run.task_id), &used)?;
    changes::tell(tx, team.id);
    if run.status == RunStatus::Failed {
        let payload = json!({
            "teamId": team.id, "teamName": team.name,
            "agentId": member.id, "stableKey": member.stable_key,
            "agentName": member::name(&tx.view(), &member)?,
            "runId": run.id, "taskId": run.task_id,
        });
        let about = About::resource("run", run.id).guarded_by("agent", member.agent);
        publish(tx, EventType::TeamRunFailed, about, payload)?;
    }
    if let Some(cost_usd) = run.cost_usd {
        budgets::spend(tx, &team, &member, cost_usd)?;
    }
    Ok(run)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/teams/{teamId}/agents/{agentId}/runs";
    vec![
        Route::get(ALL, MEMBER, "run.list", op::list(list))
            .needs_for(ScopeName::TeamRead, &TEAM_IN_PATH)
            .about("List an agent's runs, newest first"),
        Route::post(ALL, MEMBER, "run.create", op::write(create))
            .needs_for(ScopeName::TeamWork, &TEAM_IN_PATH)
            .about("Record a finished run of an agent"),
    ]
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::base::Kind;
    use crate::outbox::Event;
    use crate::resources::teams::spending::MonthlySpending;
    use crate::resources::teams::testing::{self, add_agent, events, task, team};
    use crate::resources::testing::Fixture;

    type Agent = (Id<Team>, Id<Member>);

    fn agent(fixture: &Fixture, monthly_usd: Option<f64>) -> Agent {
        let team = team(fixture, "crew", monthly_usd);
        (team, add_agent(fixture, team, "ann"))
    }

    fn run(fixture: &Fixture, agent: Agent, input: Value) -> Result<Run> {
        fixture.write(create, agent, Fixture::input(input)?)
    }

    fn published(fixture: &Fixture, event_type: EventType) -> Vec<Event> {
        events(fixture).into_iter().filter(|entry| entry.event_type == event_type).collect()
    }

    fn spending(fixture: &Fixture) -> Vec<MonthlySpending> {
        fixture.store.read_now(fixture.org, |view| view.all(ListSource::TABLE, &())).unwrap()
    }

    #[test]
    fn only_a_failed_run_is_an_event() {
        let fixture = Fixture::new();
        let ann = agent(&fixture, None);
        for status in ["succeeded", "cancelled", "failed"] {
            run(&fixture, ann, json!({"status": status, "error": "no network"})).unwrap();
        }
        let published = published(&fixture, EventType::TeamRunFailed);
        let newest = &fixture.read(list, ann, ()).unwrap().items[0];
        assert_eq!(published.len(), 1);
        assert_eq!(published[0].payload.0["runId"], newest.id.to_string());
    }

    #[test]
    fn a_run_of_an_unknown_agent_or_task_is_404_without_cost() {
        let fixture = Fixture::new();
        let ann = agent(&fixture, Some(1.0));
        let other_team = team(&fixture, "other", None);
        let dear = json!({"status": "failed", "costUsd": 5});
        let mut astray = dear.clone();
        astray["taskId"] = json!(task(&fixture, other_team, json!({"title": "Not ours"})).id);
        for (agent, input) in
            [(ann, astray), ((other_team, ann.1), dear.clone()), ((ann.0, Id::NIL), dear)]
        {
            let refused = run(&fixture, agent, input).unwrap_err();
            assert_eq!(refused.kind(), Kind::NotFound);
        }
        assert_eq!(testing::published(&fixture), [EventType::TeamAgentHired]);
        assert!(spending(&fixture).is_empty());
        assert!(fixture.read(list, ann, ()).unwrap().items.is_empty());
    }

    #[test]
    fn a_run_has_exactly_these_fields() {
        let fixture = Fixture::new();
        let ann = agent(&fixture, None);
        let task = task(&fixture, ann.0, json!({"title": "Count"})).id;
        let input = json!({"status": "succeeded", "costUsd": 0.25, "taskId": task});
        let run = run(&fixture, ann, input).unwrap();
        let expected = json!({
            "id": run.id, "agentId": ann.1, "status": "succeeded", "costUsd": 0.25,
            "error": null, "taskId": task, "createdAt": run.created_at, "usage": [],
        });
        assert_eq!(serde_json::to_value(&run).unwrap(), expected);
    }
}
