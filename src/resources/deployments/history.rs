//! The history of deployments, and deploying one of them again.

use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{self, Visible};
use super::contents;
use super::info::{
    DeployedTool, DeploymentInfo, JobInfo, bounded_page, job_info, stored_deployment_info,
};
use super::job::PlannedTool;
use super::live::{BY_AGENT, BY_AGENT_AND_ENVIRONMENT, BY_ENVIRONMENT, BY_TIME, Deployment};
use super::plan::Plan;
use super::state::JobKind;
use super::submit::submit;
use super::target::{DeploymentTarget, PlannedTarget};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, Restricted, SESSION_MEMBER};
use crate::base::{Error, Id, Result, Time};
use crate::resources::agents::{self, Agent};
use crate::resources::environments::{self, Environment};
use crate::store::{Index, Key, Order, Page, PageRequest, Record, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A page ends after 20,000 deployments that the caller may not see, as other lists do.
const MAX_SCANNED: usize = 20_000;

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

impl Input for DeploymentFilter {}

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
        visible: &Visible<'_>,
        part: &PageRequest,
    ) -> Result<Page<Deployment>> {
        let scan = Scan { view, visible, part, from: self.from, to: self.to };
        let Query { agent, environment, .. } = self;
        match (agent, environment) {
            (None, None) => scan.page(&BY_TIME, |time| time),
            (Some(agent), None) => scan.page(&BY_AGENT, |time| (*agent, time)),
            (None, Some(environment)) => scan.page(&BY_ENVIRONMENT, |time| (*environment, time)),
            (Some(agent), Some(environment)) => {
                scan.page(&BY_AGENT_AND_ENVIRONMENT, |time| (*agent, *environment, time))
            }
        }
    }
}

/// A position in an index, as bytes.
struct Position(Vec<u8>);

impl Key for Position {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.0);
    }
    fn read(_: &mut &[u8]) -> Option<Self> {
        None // No record has it as its key.
    }
}

/// A scan of deployments between two times, newest first.
struct Scan<'a> {
    view: &'a View<'a>,
    visible: &'a Visible<'a>,
    part: &'a PageRequest,
    from: Time,
    to: Time,
}

impl Scan<'_> {
    fn page<K: Key>(
        &self,
        index: &'static Index<Deployment, K>,
        key: impl Fn(Time) -> K,
    ) -> Result<Page<Deployment>> {
        let from = key(self.from);
        let end = key(self.to).to_bytes();
        // A cursor is signed, so it is a position of this list.
        let to = Position(self.part.after.clone().map_or(end.clone(), |after| after.min(end)));
        let (mut items, mut scanned, mut last, mut next) = (Vec::new(), 0, None, None);
        self.view.entries(index, &from, &to, Order::Descending, |own, id| {
            let deployment: Deployment = self.view.fetch(&id)?;
            let is_visible = self.visible.has_deployment(&deployment);
            if scanned == MAX_SCANNED || (is_visible && items.len() == self.part.limit) {
                next = last.take();
                return Ok(ControlFlow::Break(()));
            }
            scanned += 1;
            last = Some((own, id).to_bytes());
            if is_visible {
                items.push(deployment);
            }
            Ok(ControlFlow::Continue(()))
        })?;
        let position =
            |deployment: &Deployment| (key(deployment.deployed_at), deployment.key()).to_bytes();
        Ok(bounded_page(Page { items, next }, |deployment| deployment.bytes, position))
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
    let visible = Visible::to(view, req.caller())?;
    query.page(view, &visible, &req.page)?.try_map(|one| stored_deployment_info(view, one))
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
    let visible = Visible::to(view, req.caller())?;
    query.page(view, &visible, &req.page)?.try_map(|one| stored_deployment_info(view, one))
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
        .about("List an agent's deployments, newest first"),
        Route::post(
            "/agents/{stableKey}/deployment-history/{deploymentId}/redeploy",
            MEMBER,
            "agent_deployment.redeploy",
            op::write(redeploy),
        )
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
