//! Creating, listing and cancelling deployment jobs.
//!
//! A plan is frozen: who approves it, where its manifests go, and the hash of all that. A preview shows
//! it; submitted, it becomes a job with targets, contents and approvals, which starts at once, or when
//! it has been approved.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::{JOB_IN_PATH, Visible, fetch_job, filtered_environment};
use super::approvals::{self, DeploymentApproval, WAITING_FOR, end_early};
use super::contents::{ContentHash, DeployedTool};
use super::delivery::{
    PlannedDelivery, PlannedEndpoint, PlannedSecret, PlannedVariable, push_target,
};
use super::info::{JobInfo, job_info};
use super::job::{
    self, BY_ENVIRONMENT, BY_ENVIRONMENT_AND_STATE, BY_STATE, DeploymentJob, JobPrompt, JobState,
    TargetState,
};
use super::plan::{NewDeployment, NewToolDeployment, Plan, plan_agents, plan_tools};
use super::running;
use super::target::{DeploymentTarget, PlannedTarget, TargetAgent, publish_job};
use crate::api::{Input, Req, Resource, Route, op};
use crate::auth::{Caller, MEMBER, ScopeName};
use crate::base::{Error, Id, Result, canonical};
use crate::outbox::EventType;
use crate::resources::approvals::{ApprovalPolicy, Waiting, count_open};
use crate::resources::environments::{self, Environment, PlaceholderSource};
use crate::resources::registries::Registry;
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::DeploymentPendingApproval], ..Resource::EMPTY };

// ── What callers send ────────────────────────────────────────────────────────

/// The filter of a list of jobs.
#[derive(Deserialize, JsonSchema)]
pub struct JobFilter {
    /// Only jobs in this state.
    state: Option<JobState>,
    /// Only jobs of this environment, by id or slug.
    environment: Option<String>,
    /// Only jobs that wait for the caller's approval.
    approver: Option<Waiting>,
}

impl Input for JobFilter {}

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
    let Some(environment) = filtered_environment(view, environment.as_ref())? else {
        return Ok(Page::single(Vec::new()));
    };
    let visible = Visible::to(view, req.caller())?;
    // Nothing waits for a viewer, who decides nothing.
    if approver.is_some() && !req.caller().may_write() {
        return Ok(Page::single(Vec::new()));
    }
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
    environment: Option<Id<Environment>>,
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

/// Counts the jobs that wait for a caller's approval, to `at_most`; none if they cannot decide.
pub fn count_waiting(view: &View, caller: &Caller, at_most: usize) -> Result<usize> {
    // Read once there is something: mostly nothing waits.
    let mut visible = None;
    count_open(view, caller, &WAITING_FOR, at_most, |approval: DeploymentApproval| {
        let visible = match &mut visible {
            Some(visible) => visible,
            none => none.insert(Visible::to(view, caller)?),
        };
        let job = view.get::<DeploymentJob>(&approval.job)?;
        Ok(job.is_some_and(|job| visible.has_job(&job)))
    })
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

// ── Freezing ─────────────────────────────────────────────────────────────────

/// A plan with all that is shown and decided about: who approves it, where it goes, and its hash.
pub struct FrozenPlan {
    pub plan: Plan,
    /// Who must approve it; none if it needs no approval.
    pub approvals: Option<ApprovalPolicy>,
    /// Where its manifests go, and what is filled into them.
    pub delivery: PlannedDelivery,
    pub hash: String,
}

/// Freezes a plan: every job is of a frozen one, and every preview shows one.
///
/// # Errors
/// 409 if nobody could approve it or it could not be posted, 413 if it becomes too large.
pub fn freeze(view: &View, creator: &Caller, mut plan: Plan) -> Result<FrozenPlan> {
    let delivery = plan_delivery(view, &mut plan)?;
    let approvals = frozen_approvals(&plan.environment, creator)?;
    let hash = plan_hash(&plan, &delivery, approvals.as_ref());
    Ok(FrozenPlan { plan, approvals, delivery, hash })
}

/// Plans the delivery of a plan's manifests.
///
/// # Errors
/// 409 if what is posted could not be signed, so that nobody approves what cannot be applied; 413 if
/// the plan becomes too large.
fn plan_delivery(view: &View, plan: &mut Plan) -> Result<PlannedDelivery> {
    let environment = plan.environment.id;
    let target = push_target(view, environment, plan.provider.as_ref())?;
    let Some(target) = target else { return Ok(PlannedDelivery::default()) };
    target.signing_key(view)?;
    let (credential, set_at) = target.credential();
    let endpoint = Some(PlannedEndpoint { host: target.host(), credential, set_at });
    let mut delivery = PlannedDelivery { endpoint, ..PlannedDelivery::default() };
    let hashes: BTreeSet<ContentHash> =
        plan.targets.iter().flat_map(|target| target.tools.iter().copied()).collect();
    let mut names = BTreeSet::new();
    for hash in &hashes {
        names.extend(plan.contents.json::<DeployedTool>(hash)?.placeholders());
    }
    for name in names {
        match environments::placeholder_source(view, environment, &name)? {
            Some(PlaceholderSource::Secret(secret, set_at)) => {
                delivery.secrets.push(PlannedSecret { name, secret, set_at });
            }
            Some(PlaceholderSource::Variable(value)) => {
                let value = plan.contents.add(value)?;
                delivery.variables.push(PlannedVariable { name, value });
            }
            // Its target fails, unless it has a value by then, which nobody approved.
            None => {}
        }
    }
    Ok(delivery)
}

/// Returns who must approve a job that `creator` creates. Where self-approval is prevented, that is
/// nobody who may be the creator.
///
/// # Errors
/// 409 if nobody could.
fn frozen_approvals(environment: &Environment, creator: &Caller) -> Result<Option<ApprovalPolicy>> {
    let Some(policy) = &environment.approvals else { return Ok(None) };
    let frozen = policy.frozen_for(creator).ok_or_else(|| {
        Error::conflict(
            "no_approver",
            format!(
                "you are the only approver of the environment \"{}\", which prevents \
                 self-approval; name another approver there",
                environment.name
            ),
        )
    })?;
    Ok(Some(frozen))
}

fn plan_hash(
    plan: &Plan,
    delivery: &PlannedDelivery,
    approvals: Option<&ApprovalPolicy>,
) -> String {
    let target = |target: &PlannedTarget| {
        json!({
            "agentId": target.agent().map(|agent| agent.id), "toolId": target.tool(),
            "hash": target.hash,
        })
    };
    let targets: Value = plan.targets.iter().map(target).collect();
    let hashed = json!({
        "kind": plan.kind(), "environmentId": plan.environment.id, "targets": targets,
        "delivery": delivery.hashed(), "approvals": approvals,
    });
    blake3::hash(canonical(&hashed).as_bytes()).to_string()
}

// ── Submitting ───────────────────────────────────────────────────────────────

/// Creates the job of a plan.
///
/// # Errors
/// As [`freeze`].
pub fn submit(tx: &mut Tx, caller: &Caller, plan: Plan) -> Result<DeploymentJob> {
    let frozen = freeze(&tx.view(), caller, plan)?;
    submit_frozen(tx, caller, frozen)
}

/// Creates the job of a frozen plan.
pub fn submit_frozen(tx: &mut Tx, caller: &Caller, frozen: FrozenPlan) -> Result<DeploymentJob> {
    let FrozenPlan { plan, approvals, delivery, hash } = frozen;
    let hours = i64::from(plan.environment.approval_timeout_hours);
    let job = DeploymentJob {
        id: tx.new_id(),
        kind: plan.kind(),
        state: if approvals.is_some() { JobState::PendingApproval } else { JobState::Approved },
        environment: plan.environment.id,
        registries: registries(&plan),
        agents: agents(&plan).map(|agent| agent.id).collect(),
        prompt: prompt(&plan),
        provider: plan.provider.clone(),
        plan_hash: hash,
        plan_bytes: plan.targets.iter().map(|target| target.bytes).sum(),
        tools: plan.tools,
        delivery: Some(delivery),
        at_once: plan.at_once,
        next: 0,
        push: None,
        task: None,
        created_by: caller.user(),
        sponsor: caller.identity.sponsor.as_ref().map(|sponsor| sponsor.user),
        created_at: tx.now(),
        updated_at: tx.now(),
        finished_at: None,
        expires_at: approvals.is_some().then(|| tx.now().plus_secs(hours * 3600)),
        approvals,
    };
    job::insert(tx, &job)?;
    plan.contents.insert(tx, job.id)?;
    for (position, planned) in (0..).zip(plan.targets) {
        tx.insert(&DeploymentTarget {
            job: job.id,
            position,
            environment: job.environment,
            planned,
            state: TargetState::Waiting,
            ticket: None,
            deployment: None,
            replaced: None,
            error: None,
        })?;
    }
    let Some(policy) = &job.approvals else { return running::start(tx, &job) };
    approvals::open(tx, job.id, policy)?;
    let more = [("approverIds", json!(policy.approver_ids)), ("expiresAt", json!(job.expires_at))];
    publish_job(tx, EventType::DeploymentPendingApproval, &job, &more)?;
    Ok(job)
}

fn agents(plan: &Plan) -> impl Iterator<Item = &TargetAgent> {
    plan.targets.iter().filter_map(PlannedTarget::agent)
}

fn registries(plan: &Plan) -> Vec<Id<Registry>> {
    let mut registries: Vec<_> = agents(plan).map(|agent| agent.registry).collect();
    registries.sort();
    registries.dedup();
    registries
}

fn prompt(plan: &Plan) -> JobPrompt {
    JobPrompt {
        registry_ref: common(agents(plan).map(|agent| agent.registry_ref.clone())),
        name: common(agents(plan).map(|agent| agent.prompt_name.to_string())),
        version: common(plan.targets.iter().map(|target| target.version.clone())),
        model: common(agents(plan).map(|agent| agent.model.to_string())),
    }
}

/// Returns the value that all have, if they have the same.
fn common<T: PartialEq>(mut values: impl Iterator<Item = T>) -> Option<T> {
    let first = values.next()?;
    values.all(|value| value == first).then_some(first)
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/agents/deployments";
    const ONE: &str = "/agents/deployments/{jobId}";
    vec![
        Route::get(ALL, MEMBER, "deployment.list", op::walk(list))
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
