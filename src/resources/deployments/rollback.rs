//! Rolling a job back: one job brings its targets back to what was live before it, all in one
//! transaction.

use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{self, fetch_job};
use super::history::add_again;
use super::info::{JobInfo, job_info};
use super::job::DeploymentJob;
use super::live::{Deployment, is_live};
use super::plan::Plan;
use super::state::JobKind;
use super::submit::submit;
use super::target::targets;
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, Restricted};
use crate::base::{Error, Result};
use crate::resources::environments::Environment;
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// How a job is rolled back.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"force": false}]))]
pub struct Rollback {
    /// Whether agents that were deployed again since are brought back too; `false` by default.
    force: Option<bool>,
}

impl Input for Rollback {}

pub(super) fn roll_back(
    tx: &mut Tx,
    req: &Req<crate::base::Id<DeploymentJob>, Rollback>,
) -> Result<JobInfo> {
    let caller = req.caller();
    let job = fetch_job(&tx.view(), caller, req.params)?;
    if !job.state.is_final() {
        return Err(Error::conflict(
            "deployment_unfinished",
            "the deployment is not finished; cancel it or let it finish",
        ));
    }
    let applied = applied(&tx.view(), &job)?;
    let replaced = replaced(&tx.view(), &applied, req.input.force.unwrap_or(false))?;
    for deployment in &replaced {
        let (registry, agent) = ([deployment.registry], [deployment.agent]);
        access::require(&tx.view(), caller, deployment.environment, &registry, &agent)?;
    }
    let environment: Restricted<Environment> = tx.fetch(&job.environment)?;
    let environment = environment.open(&tx.view(), caller)?;
    let provider = replaced.first().map(|deployment| deployment.provider.clone());
    if replaced.iter().any(|deployment| Some(&deployment.provider) != provider.as_ref()) {
        return Err(Error::conflict(
            "providers_differ",
            "the agents had different providers before; redeploy each of them from its history",
        ));
    }
    let mut plan = Plan::new(JobKind::Agents, environment, provider);
    plan.at_once = true;
    replaced.iter().try_for_each(|deployment| add_again(&tx.view(), &mut plan, deployment))?;
    let job = submit(tx, caller, plan)?;
    job_info(&tx.view(), job)
}

/// The deployments that a job applied.
fn applied(view: &View, job: &DeploymentJob) -> Result<Vec<Deployment>> {
    let ids = targets(view, job.id)?.into_iter().filter_map(|target| target.deployment);
    let applied: Vec<Deployment> = ids.map(|id| view.fetch(&id)).collect::<Result<_>>()?;
    if applied.is_empty() {
        return Err(Error::conflict("nothing_deployed", "the job deployed no agent"));
    }
    Ok(applied)
}

/// What was live before these deployments.
///
/// # Errors
/// 409 that names the agents that cannot be brought back.
fn replaced(view: &View, applied: &[Deployment], force: bool) -> Result<Vec<Deployment>> {
    let (mut first, mut newer, mut replaced) = (Vec::new(), Vec::new(), Vec::new());
    for deployment in applied {
        if !force && !is_live(view, deployment)? {
            newer.push(deployment.stable_key.to_string());
        }
        match deployment.previous {
            Some(previous) => replaced.push(view.fetch(&previous)?),
            None => first.push(deployment.stable_key.to_string()),
        }
    }
    if !first.is_empty() {
        return Err(Error::conflict(
            "nothing_before",
            format!("nothing was deployed before to: {}", first.join(", ")),
        ));
    }
    if !newer.is_empty() {
        return Err(Error::conflict(
            "deployed_since",
            format!(
                "deployed again since, or deleted; send force to bring back: {}",
                newer.join(", ")
            ),
        ));
    }
    Ok(replaced)
}

fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/agents/deployments/{jobId}/rollback",
            MEMBER,
            "deployment.roll_back",
            op::write(roll_back),
        )
        .about("Bring a job's agents back to before it"),
    ]
}
