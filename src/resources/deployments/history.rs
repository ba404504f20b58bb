//! The history of deployments, deploying one of them again, and the heatmap: jobs per day and state,
//! from the counts that are kept with each change of a state.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::access::{self, DEPLOYMENT_IN_PATH, Visible, filtered, filtered_environment};
use super::contents::{self, DeployedTool};
use super::info::{DeploymentInfo, JobInfo, job_info, stored_deployment_info};
use super::job::{
    Day, DeploymentDay, DeploymentScope, JobState, PlannedTool, Scope, day_of, start_of,
};
use super::jobs::submit;
use super::live::{BY_AGENT, BY_AGENT_AND_ENVIRONMENT, BY_ENVIRONMENT, BY_TIME, Deployment};
use super::plan::Plan;
use super::target::{DeploymentTarget, PlannedTarget, targets};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op, order_issue};
use crate::auth::{
    Caller, Granted, MEMBER, Restrictable, Restricted, SESSION_MEMBER, ScopeName, hidden_ids,
    restricted_deleted_since, usable_ids,
};
use crate::base::{Error, Id, Issue, Result, Time};
use crate::resources::agents::{self, Agent, Fleet, NAMES_BY_FLEET};
use crate::resources::environments::Environment;
use crate::resources::registries::Registry;
use crate::store::{ListSource, Order, Page, PageRequest, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send ────────────────────────────────────────────────────────

/// The filter of an agent's history.
#[derive(Deserialize, JsonSchema)]
pub struct HistoryFilter {
    /// Only deployments to this environment, by id or slug.
    environment: Option<String>,
}

impl Input for HistoryFilter {}

/// The filter of all deployments.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeploymentFilter {
    /// Only deployments of this agent.
    stable_key: Option<String>,
    /// Only deployments to this environment, by id or slug.
    environment: Option<String>,
    /// Only deployments from this time on.
    from: Option<Time>,
    /// Only deployments before this time.
    to: Option<Time>,
}

impl Input for DeploymentFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(order_issue(self.from, self.to));
    }
}

// ── Lists ────────────────────────────────────────────────────────────────────

/// Which deployments are listed.
struct Query {
    agent: Option<Id<Agent>>,
    environment: Option<Id<Environment>>,
    from: Time,
    to: Time,
}

/// The time of no deployment: after all others.
const END: Time = Time::from_millis(i64::MAX);

impl Query {
    fn page(
        &self,
        view: &View,
        caller: &Caller,
        part: &PageRequest,
    ) -> Result<Page<DeploymentInfo>> {
        let Query { agent, environment, from, to } = *self;
        let visible = Visible::to(view, caller)?;
        let keep = |one: &Deployment| visible.has_deployment(one);
        let info = stored_deployment_info;
        match (agent, environment) {
            (None, None) => view.page_map_between(&BY_TIME, (&from, &to), part, keep, info),
            (Some(agent), None) => {
                let range = (&(agent, from), &(agent, to));
                view.page_map_between(&BY_AGENT, range, part, keep, info)
            }
            (None, Some(at)) => {
                let range = (&(at, from), &(at, to));
                view.page_map_between(&BY_ENVIRONMENT, range, part, keep, info)
            }
            (Some(agent), Some(at)) => {
                let range = (&(agent, at, from), &(agent, at, to));
                view.page_map_between(&BY_AGENT_AND_ENVIRONMENT, range, part, keep, info)
            }
        }
    }
}

/// Lists the deployments of an agent, newest first.
pub(super) fn of_agent(
    view: &View,
    req: &Req<String, HistoryFilter>,
) -> Result<Page<DeploymentInfo>> {
    let agent = agents::fetch(view, req.caller(), &req.params)?;
    let Some(environment) = filtered_environment(view, req.input.environment.as_ref())? else {
        return Ok(Page::single(Vec::new()));
    };
    let query = Query { agent: Some(agent.id), environment, from: Time::from_millis(0), to: END };
    query.page(view, req.caller(), &req.page)
}

/// Lists all deployments, newest first.
pub(super) fn list(view: &View, req: &Req<(), DeploymentFilter>) -> Result<Page<DeploymentInfo>> {
    let filter = &req.input;
    let agent = |key: &str| Ok(agents::by_stable_key(view, key)?.map(|agent| agent.id()));
    let Some(agent) = filtered(filter.stable_key.as_ref(), agent)? else {
        return Ok(Page::single(Vec::new()));
    };
    let Some(environment) = filtered_environment(view, filter.environment.as_ref())? else {
        return Ok(Page::single(Vec::new()));
    };
    let from = filter.from.unwrap_or(Time::from_millis(0));
    let query = Query { agent, environment, from, to: filter.to.unwrap_or(END) };
    query.page(view, req.caller(), &req.page)
}

pub(super) fn get(view: &View, req: &Req<Id<Deployment>>) -> Result<DeploymentInfo> {
    let deployment: Deployment = view.fetch(&req.params)?;
    access::require_deployment(view, req.caller(), &deployment)?;
    stored_deployment_info(view, deployment)
}

// ── Redeploying ──────────────────────────────────────────────────────────────

/// Deploys an earlier deployment of an agent again, exactly as it was.
pub(super) fn redeploy(tx: &mut Tx, req: &Req<(String, Id<Deployment>)>) -> Result<JobInfo> {
    let (stable_key, id) = &req.params;
    let agent = agents::fetch(&tx.view(), req.caller(), stable_key)?;
    let deployment: Deployment = tx.fetch(id)?;
    if deployment.agent != agent.id {
        return Err(Deployment::missing(id));
    }
    let caller = req.caller();
    let environment: Restricted<Environment> = tx.fetch(&deployment.environment)?;
    access::require(&tx.view(), caller, deployment.environment, &[deployment.registry], &[])?;
    let environment = environment.open(&tx.view(), caller)?;
    let mut plan = Plan::new(environment, Some(deployment.provider.clone()));
    add_again(&tx.view(), &mut plan, &deployment)?;
    let job = submit(tx, caller, plan)?;
    job_info(&tx.view(), job)
}

/// Adds an earlier deployment to a plan, exactly as it was.
///
/// # Errors
/// 413 if the plan becomes too large.
pub fn add_again(view: &View, plan: &mut Plan, deployment: &Deployment) -> Result<()> {
    let job = deployment.job;
    let targets = targets(view, job)?;
    let is_it = |target: &DeploymentTarget| target.deployment == Some(deployment.id);
    let planned: PlannedTarget = targets
        .into_iter()
        .find(is_it)
        .map(|target| target.planned)
        .ok_or_else(|| Error::internal(format!("{} has no target", deployment.id)))?;
    for hash in planned.text.iter().chain([&planned.config]).chain(&planned.tools) {
        plan.contents.add(contents::text(view, job, hash)?)?;
    }
    for hash in &planned.tools {
        let tool: DeployedTool = contents::json(view, job, hash)?;
        let DeployedTool { tool_id, name, version, .. } = tool;
        plan.add_tool(PlannedTool { tool: tool_id, name, version })?;
    }
    plan.add_target(planned)
}

// ── The heatmap ──────────────────────────────────────────────────────────────

/// The days shown by default: a year.
const DEFAULT_DAYS: Day = 365;

/// At most ten years are shown at once: a row is read for each day.
const MAX_DAYS: Day = 3_660;

/// The days of a heatmap.
#[derive(Deserialize, JsonSchema)]
pub struct HeatmapQuery {
    /// The time from which days are shown; 365 days before the end by default.
    from: Option<Time>,
    /// The time up to which days are shown; now by default.
    to: Option<Time>,
}

impl Input for HeatmapQuery {
    fn check(&self, issues: &mut Vec<Issue>) {
        issues.extend(order_issue(self.from, self.to));
    }
}

/// The deployment jobs that were created on a day.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct HeatmapDay {
    /// The day, UTC.
    #[schemars(extend("format" = "date"))]
    date: String,
    /// The number of jobs by their current state, without zeros.
    counts: BTreeMap<JobState, u64>,
}

impl Output for HeatmapDay {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Lists the days with jobs, newest first, all on one page.
pub(super) fn heatmap(view: &View, req: &Req<(), HeatmapQuery>) -> Result<Page<HeatmapDay>> {
    let to = req.input.to.unwrap_or(view.now().plus_millis(1));
    // The day of the last moment before `to`.
    let end = day_of(to.plus_millis(-1)) + 1;
    let first = end.saturating_sub(DEFAULT_DAYS);
    let start = req.input.from.map_or(first, day_of);
    if end.saturating_sub(start) > MAX_DAYS {
        return Err(Error::invalid_at("from", "must be at most 3,660 days before to"));
    }
    let mut days = Days { view, start, end, counts: BTreeMap::new() };
    days.add(None, None, |count, more| count + more)?;
    let hidden = Hidden::from(view, req.caller(), start_of(start))?;
    for environment in &hidden.environments {
        days.add(Some(*environment), None, u64::saturating_sub)?;
    }
    for (environment, scope) in scopes(view, &hidden)? {
        days.add(Some(environment), Some(scope), u64::saturating_sub)?;
    }
    Ok(Page::single(days.into_items()))
}

type Counts = BTreeMap<JobState, u64>;

/// The counts of the days from `start` until before `end`.
struct Days<'a> {
    view: &'a View<'a>,
    start: Day,
    end: Day,
    counts: BTreeMap<Day, Counts>,
}

impl Days<'_> {
    /// Adds the rows of an environment or scope, or subtracts them.
    fn add(
        &mut self,
        environment: Option<Id<Environment>>,
        scope: Option<Id<Scope>>,
        change: fn(u64, u64) -> u64,
    ) -> Result<()> {
        let (from, to) = ((environment, scope, self.start), (environment, scope, self.end));
        let mut keys = Vec::new();
        self.view.record_keys::<DeploymentDay>(&from, &to, Order::Ascending, |key| {
            keys.push(key);
            Ok(ControlFlow::Continue(()))
        })?;
        for key in keys {
            let row: DeploymentDay = self.view.fetch(&key)?;
            let counts = self.counts.entry(row.day).or_default();
            for (state, number) in row.counts {
                let count = counts.entry(state).or_default();
                *count = change(*count, number);
            }
        }
        Ok(())
    }

    fn into_items(self) -> Vec<HeatmapDay> {
        let newest = self.counts.into_iter().rev();
        let day = |(day, mut counts): (Day, Counts)| {
            counts.retain(|_, count| *count > 0);
            let date = start_of(day).to_string().chars().take(10).collect();
            (!counts.is_empty()).then_some(HeatmapDay { date, counts })
        };
        newest.filter_map(day).collect()
    }
}

/// The scopes of visible environments that have something hidden, each once.
fn scopes(view: &View, hidden: &Hidden) -> Result<BTreeSet<(Id<Environment>, Id<Scope>)>> {
    let mut scopes = BTreeSet::new();
    for subject in &hidden.subjects {
        let end = subject.successor();
        view.record_keys::<DeploymentScope>(subject, &end, Order::Ascending, |key| {
            let (_, environment, scope) = key;
            if !hidden.environments.contains(&environment) {
                scopes.insert((environment, scope));
            }
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(scopes)
}

/// What is hidden from a caller, for counts.
#[derive(Default)]
pub struct Hidden {
    /// Environments, also deleted ones.
    pub environments: BTreeSet<Id<Environment>>,
    /// Registries and agents, also deleted ones.
    pub subjects: BTreeSet<Id<Granted>>,
}

impl Hidden {
    /// Returns what is hidden from a caller: nothing from an admin. What was deleted before `since` is
    /// left out.
    pub fn from(view: &View, caller: &Caller, since: Time) -> Result<Self> {
        let mut hidden = Hidden::default();
        if caller.is_admin() {
            return Ok(hidden);
        }
        hidden.environments = invisible(view, caller)?;
        let registries: BTreeSet<Id<Registry>> = invisible(view, caller)?;
        hidden.subjects.extend(registries.into_iter().map(Id::cast));
        for fleet in hidden_ids::<Fleet>(view, caller)? {
            let fleet: Id<Fleet> = fleet.cast();
            let end = fleet.successor();
            view.entries(&NAMES_BY_FLEET, &fleet, &end, Order::Ascending, |_, agent| {
                hidden.subjects.insert(agent.cast());
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
        }
        for deleted in restricted_deleted_since(view, since)? {
            hidden.environments.insert(deleted.cast());
            hidden.subjects.insert(deleted);
        }
        Ok(hidden)
    }
}

/// Returns the ids of the resources of a type that are not visible to a caller.
fn invisible<T: Restrictable>(view: &View, caller: &Caller) -> Result<BTreeSet<Id<T>>>
where
    Restricted<T>: Record,
{
    let visible = usable_ids::<T>(view, caller)?;
    let all: Vec<Restricted<T>> = view.all(ListSource::TABLE, &())?;
    let ids = all.iter().map(Restricted::id);
    Ok(ids.filter(|id| !visible.contains(id)).collect())
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/agents/{stableKey}/deployment-history",
            MEMBER,
            "agent_deployment.list",
            op::list(of_agent),
        )
        .needs_listed(ScopeName::DeploymentRead)
        .about("List an agent's deployments, newest first"),
        Route::post(
            "/agents/{stableKey}/deployment-history/{deploymentId}/redeploy",
            MEMBER,
            "agent_deployment.redeploy",
            op::write(redeploy),
        )
        .needs_for(ScopeName::DeploymentCreate, &DEPLOYMENT_IN_PATH)
        .about("Deploy an earlier deployment again"),
        Route::get("/deployments", SESSION_MEMBER, "deployment_record.list", op::list(list))
            .about("List deployments, newest first"),
        Route::get(
            "/deployments/{deploymentId}",
            SESSION_MEMBER,
            "deployment_record.get",
            op::read(get),
        )
        .about("Get a deployment"),
        Route::get("/deployments/heatmap", SESSION_MEMBER, "heatmap.get", op::list(heatmap))
            .about("Count deployment jobs per day and state"),
    ]
}
