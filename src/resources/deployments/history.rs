//! The history of deployments, and deploying one of them again.

use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{self, Visible};
use super::contents;
use super::deployed_tool::DeployedTool;
use super::info::{DeploymentInfo, JobInfo, job_info, stored_deployment_info};
use super::job::PlannedTool;
use super::live::{BY_AGENT, BY_AGENT_AND_ENVIRONMENT, BY_ENVIRONMENT, BY_TIME, Deployment};
use super::plan::Plan;
use super::scope_target::DEPLOYMENT_IN_PATH;
use super::state::JobKind;
use super::submit::submit;
use super::target::{DeploymentTarget, PlannedTarget};
use crate::api::{Input, Req, Resource, Route, op, order_issue};
use crate::auth::{Caller, MEMBER, Restricted, SESSION_MEMBER, ScopeName};
use crate::base::{Error, Id, Issue, Result, Time};
use crate::resources::agents::{self, Agent};
use crate::resources::environments::{self, Environment};
use crate::store::{Page, PageRequest, Record, Tx, View};

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

fn environment_id(view: &View, reference: &str) -> Result<Option<Id<Environment>>> {
    Ok(environments::find(view, reference)?.map(|environment| environment.id()))
}

/// Lists the deployments of an agent, newest first.
pub(super) fn of_agent(
    view: &View,
    req: &Req<String, HistoryFilter>,
) -> Result<Page<DeploymentInfo>> {
    let agent = agents::fetch(view, req.caller(), &req.params)?;
    let environment = match &req.input.environment {
        None => None,
        Some(reference) => match environment_id(view, reference)? {
            None => return Ok(Page::single(Vec::new())),
            found => found,
        },
    };
    let query = Query { agent: Some(agent.id), environment, from: Time::from_millis(0), to: END };
    query.page(view, req.caller(), &req.page)
}

/// Lists all deployments, newest first.
pub(super) fn list(view: &View, req: &Req<(), DeploymentFilter>) -> Result<Page<DeploymentInfo>> {
    let filter = &req.input;
    let agent = match &filter.stable_key {
        None => None,
        Some(stable_key) => match agents::by_stable_key(view, stable_key)? {
            None => return Ok(Page::single(Vec::new())),
            Some(agent) => Some(agent.id()),
        },
    };
    let environment = match &filter.environment {
        None => None,
        Some(reference) => match environment_id(view, reference)? {
            None => return Ok(Page::single(Vec::new())),
            found => found,
        },
    };
    let from = filter.from.unwrap_or(Time::from_millis(0));
    let query = Query { agent, environment, from, to: filter.to.unwrap_or(END) };
    query.page(view, req.caller(), &req.page)
}

pub(super) fn get(view: &View, req: &Req<Id<Deployment>>) -> Result<DeploymentInfo> {
    let deployment: Deployment = view.fetch(&req.params)?;
    let (registry, agent) = ([deployment.registry], [deployment.agent]);
    access::require(view, req.caller(), deployment.environment, &registry, &agent)?;
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
    let mut plan = Plan::new(JobKind::Agents, environment, Some(deployment.provider.clone()));
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
    let targets = super::target::targets(view, job)?;
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
    ]
}
