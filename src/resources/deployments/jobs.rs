//! Creating, listing and cancelling deployment jobs.

use schemars::JsonSchema;
use serde::Deserialize;

use super::access::{Visible, fetch_job};
use super::applying::skip;
use super::approval::{self, DeploymentApproval, WAITING_FOR};
use super::freezing::freeze;
use super::info::{JobInfo, job_info};
use super::job::{BY_ENVIRONMENT, BY_ENVIRONMENT_AND_STATE, BY_STATE, DeploymentJob, save};
use super::plan::{NewDeployment, plan_agents};
use super::plan_tools::{NewToolDeployment, plan_tools};
use super::running::resume_next;
use super::scope_target::JOB_IN_PATH;
use super::state::{JobState, TargetState};
use super::submit::{submit, submit_frozen};
use super::target::targets;
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Id, Result};
use crate::resources::environments::{self};
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send ────────────────────────────────────────────────────────

/// The filter of a list of jobs.
#[derive(Deserialize, JsonSchema)]
pub struct JobFilter {
    /// Only jobs in this state.
    state: Option<JobState>,
    /// Only jobs of this environment, by id or slug.
    environment: Option<String>,
    /// Only jobs that wait for the caller's approval.
    approver: Option<JobApprover>,
}

impl Input for JobFilter {}

/// The approver of listed jobs.
#[derive(Clone, Copy, Debug, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobApprover {
    /// The caller.
    Me,
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn create(tx: &mut Tx, req: &Req<(), NewDeployment>) -> Result<JobInfo> {
    let plan = plan_agents(&tx.view(), req.caller(), &req.input)?;
    let frozen = freeze(&tx.view(), req.caller(), plan)?;
    if req.input.plan_hash.as_ref().is_some_and(|expected| *expected != frozen.hash) {
        return Err(Error::conflict(
            "plan_changed",
            "the plan is another one than the one previewed; preview it again",
        ));
    }
    let job = submit_frozen(tx, req.caller(), frozen)?;
    job_info(&tx.view(), job)
}

pub(super) fn create_tools(tx: &mut Tx, req: &Req<(), NewToolDeployment>) -> Result<JobInfo> {
    let plan = plan_tools(&tx.view(), req.caller(), &req.input)?;
    let job = submit(tx, req.caller(), plan)?;
    job_info(&tx.view(), job)
}

pub(super) fn list(view: &View, req: &Req<(), JobFilter>) -> Result<Page<JobInfo>> {
    let JobFilter { state, environment, approver } = &req.input;
    let environment = match environment {
        None => None,
        Some(reference) => match environments::find(view, reference)? {
            None => return Ok(Page::single(Vec::new())),
            Some(environment) => Some(environment.id()),
        },
    };
    let visible = Visible::to(view, req.caller())?;
    if approver.is_some() {
        return list_waiting(view, req, environment, &visible);
    }
    let (order, part) = (Order::Descending, &req.page);
    let keep = |job: &DeploymentJob| visible.has_job(job);
    match (environment, *state) {
        (None, None) => view.page_map(ListSource::TABLE, &(), order, part, keep, job_info),
        (None, Some(state)) => view.page_map(&BY_STATE, &state, order, part, keep, job_info),
        (Some(at), None) => view.page_map(&BY_ENVIRONMENT, &at, order, part, keep, job_info),
        (Some(at), Some(state)) => {
            view.page_map(&BY_ENVIRONMENT_AND_STATE, &(at, state), order, part, keep, job_info)
        }
    }
}

/// Lists the jobs that wait for the caller's approval.
fn list_waiting(
    view: &View,
    req: &Req<(), JobFilter>,
    environment: Option<Id<environments::Environment>>,
    visible: &Visible<'_>,
) -> Result<Page<JobInfo>> {
    let user = req.caller().user();
    let is_wanted = |job: DeploymentJob| {
        visible.has_job(&job)
            && environment.is_none_or(|environment| job.environment == environment)
            && req.input.state.is_none_or(|state| job.state == state)
    };
    // A job that cannot be read is reported when it is read again.
    let keep = |approval: &DeploymentApproval| {
        view.get(&approval.job).map_or(true, |job| job.is_some_and(is_wanted))
    };
    let info =
        |view: &View, approval: DeploymentApproval| job_info(view, view.fetch(&approval.job)?);
    view.page_map(&WAITING_FOR, &user, Order::Descending, &req.page, keep, info)
}

pub(super) fn get(view: &View, req: &Req<Id<DeploymentJob>>) -> Result<JobInfo> {
    job_info(view, fetch_job(view, req.caller(), req.params)?)
}

/// Cancels a job: targets that have not begun are skipped.
pub(super) fn cancel(tx: &mut Tx, req: &Req<Id<DeploymentJob>>) -> Result<JobInfo> {
    let caller = req.caller();
    let job = fetch_job(&tx.view(), caller, req.params)?;
    if job.created_by != caller.user() && !caller.is_admin() {
        return Err(Error::forbidden(
            "creator_required",
            "only its creator and organization admins cancel a deployment",
        ));
    }
    if job.state.is_final() {
        return Err(Error::conflict("deployment_finished", "the deployment is already finished"));
    }
    let job = end_early(tx, &job, JobState::Cancelled, "the deployment was cancelled")?;
    job_info(&tx.view(), job)
}

/// Ends a job before all of its targets are applied; those that have not begun are skipped.
pub fn end_early(
    tx: &mut Tx,
    job: &DeploymentJob,
    state: JobState,
    why: &str,
) -> Result<DeploymentJob> {
    approval::close(tx, job.id)?;
    let ended = save(tx, job, DeploymentJob { state, ..job.clone() })?;
    for target in targets(&tx.view(), job.id)? {
        let is_posted = job.push.is_some() && target.position == job.next;
        if target.state == TargetState::Waiting && !is_posted {
            skip(tx, &target, why)?;
            if target.ticket.is_some() {
                resume_next(tx, job.environment, target.planned.subject())?;
            }
        }
    }
    Ok(ended)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/agents/deployments";
    const ONE: &str = "/agents/deployments/{jobId}";
    vec![
        Route::get(ALL, MEMBER, "deployment.list", op::list(list))
            .needs_listed(ScopeName::DeploymentRead)
            .about("List deployment jobs, newest first"),
        Route::post(ALL, MEMBER, "deployment.create", op::write(create))
            .needs_for(ScopeName::DeploymentCreate, &environments::NAMED_ENVIRONMENT)
            .about("Deploy a prompt to agents"),
        Route::post(
            "/agents/tool-deployments",
            MEMBER,
            "deployment.create_tools",
            op::write(create_tools),
        )
        .needs_for(ScopeName::DeploymentCreate, &environments::NAMED_ENVIRONMENT)
        .about("Deploy versions of tools to an environment"),
        Route::get(ONE, MEMBER, "deployment.get", op::read(get))
            .needs_for(ScopeName::DeploymentRead, &JOB_IN_PATH)
            .about("Get a deployment job with its targets"),
        Route::post(
            "/agents/deployments/{jobId}/cancel",
            MEMBER,
            "deployment.cancel",
            op::write(cancel),
        )
        .needs_for(ScopeName::DeploymentCancel, &JOB_IN_PATH)
        .about("Cancel a deployment job"),
    ]
}
