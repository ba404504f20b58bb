//! Rolling a job back: one job brings its targets back to what was live before it, all in one
//! transaction. A target of which nothing was live before, or that is deleted, cannot be brought back.

use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{self, JOB_IN_PATH, fetch_job};
use super::history::add_again;
use super::info::{JobInfo, job_info};
use super::job::{DeploymentJob, JobKind, TargetState};
use super::jobs::submit;
use super::live::{Deployment, is_live};
use super::plan::{Plan, add_tool_target};
use super::target::{DeploymentTarget, targets};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{Caller, MEMBER, Restricted, ScopeName};
use crate::base::{Error, Id, Result};
use crate::resources::agents::Agent;
use crate::resources::environments::{self, Environment};
use crate::resources::tools::{self, Tool};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// How a job is rolled back.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"force": false}]))]
pub struct Rollback {
    /// Whether targets that were deployed again since are brought back too; `false` by default.
    force: Option<bool>,
}

impl Input for Rollback {}

pub(super) fn roll_back(tx: &mut Tx, req: &Req<Id<DeploymentJob>, Rollback>) -> Result<JobInfo> {
    let (view, caller) = (&tx.view(), req.caller());
    let job = fetch_job(view, caller, req.params)?;
    if job.is_unfinished() {
        return Err(Error::conflict(
            "deployment_unfinished",
            "the deployment is not finished; cancel it or let it finish",
        ));
    }
    let environment: Restricted<Environment> = view.fetch(&job.environment)?;
    let environment = environment.open(view, caller)?;
    let force = req.input.force.unwrap_or(false);
    let mut plan = match job.kind {
        JobKind::Agents => back_agents(view, caller, &job, environment, force)?,
        JobKind::Tools => back_tools(view, &job, environment, force)?,
    };
    plan.at_once = true;
    let job = submit(tx, caller, plan)?;
    job_info(&tx.view(), job)
}

/// Why targets cannot be brought back, each with those of which it is true.
#[derive(Default)]
struct Obstacles {
    deleted: Vec<String>,
    first: Vec<String>,
    newer: Vec<String>,
}

impl Obstacles {
    /// Refuses with 409, naming the targets.
    fn check(&self, force: bool) -> Result<()> {
        let Obstacles { deleted, first, newer } = self;
        if !deleted.is_empty() {
            let deleted = deleted.join(", ");
            return Err(Error::conflict("target_deleted", format!("deleted since: {deleted}")));
        }
        if !first.is_empty() {
            return Err(Error::conflict(
                "nothing_before",
                format!("nothing was deployed before to: {}", first.join(", ")),
            ));
        }
        if !force && !newer.is_empty() {
            return Err(Error::conflict(
                "deployed_since",
                format!("deployed again since; send force to bring back: {}", newer.join(", ")),
            ));
        }
        Ok(())
    }
}

/// The applied targets of a job.
fn applied(view: &View, job: &DeploymentJob) -> Result<Vec<DeploymentTarget>> {
    let mut applied = targets(view, job.id)?;
    applied.retain(|target| target.state == TargetState::Applied);
    if applied.is_empty() {
        return Err(Error::conflict("nothing_deployed", "the deployment applied no target"));
    }
    Ok(applied)
}

/// Plans what was live of the agents before a job.
fn back_agents(
    view: &View,
    caller: &Caller,
    job: &DeploymentJob,
    environment: Environment,
    force: bool,
) -> Result<Plan> {
    let (mut obstacles, mut previous) = (Obstacles::default(), Vec::<Deployment>::new());
    for id in applied(view, job)?.iter().filter_map(|target| target.deployment) {
        let deployment: Deployment = view.fetch(&id)?;
        let name = deployment.stable_key.to_string();
        if !view.has::<Restricted<Agent>>(&deployment.agent)? {
            obstacles.deleted.push(name);
            continue;
        }
        if !is_live(view, &deployment)? {
            obstacles.newer.push(name.clone());
        }
        match deployment.previous {
            Some(id) => previous.push(view.fetch(&id)?),
            None => obstacles.first.push(name),
        }
    }
    for deployment in &previous {
        access::require_deployment(view, caller, deployment)?;
    }
    obstacles.check(force)?;
    let provider = previous.first().map(|deployment| deployment.provider.clone());
    if previous.iter().any(|deployment| Some(&deployment.provider) != provider.as_ref()) {
        return Err(Error::conflict(
            "providers_differ",
            "the agents had different providers before; redeploy each of them from its history",
        ));
    }
    let mut plan = Plan::new(environment, provider);
    previous.iter().try_for_each(|deployment| add_again(view, &mut plan, deployment))?;
    Ok(plan)
}

/// Plans the versions of tools that the environment used before a job.
fn back_tools(
    view: &View,
    job: &DeploymentJob,
    environment: Environment,
    force: bool,
) -> Result<Plan> {
    let (mut obstacles, mut previous) = (Obstacles::default(), Vec::new());
    for target in applied(view, job)? {
        let Some(id) = target.planned.tool() else { continue };
        let Some(tool) = view.get::<Tool>(&id)? else {
            obstacles.deleted.push(id.to_string());
            continue;
        };
        let used = environments::tool_version(view, environment.id, id.cast())?;
        if used.as_ref() != Some(&target.planned.version) {
            obstacles.newer.push(tool.name.to_string());
        }
        match target.replaced {
            Some(version) => previous.push((id, version)),
            None => obstacles.first.push(tool.name.to_string()),
        }
    }
    obstacles.check(force)?;
    let mut plan = Plan::new(environment, None);
    for (id, version) in previous {
        let tool = tools::version(view, id, &version)?
            .ok_or_else(|| Error::internal(format!("{id} lacks the version {version}")))?;
        add_tool_target(&mut plan, (id, tool))?;
    }
    Ok(plan)
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/agents/deployments/{jobId}/rollback",
            MEMBER,
            "deployment.roll_back",
            op::write(roll_back),
        )
        .needs_for(ScopeName::DeploymentCreate, &JOB_IN_PATH)
        .about("Bring a job's targets back to before it"),
    ]
}
