//! Submitting a plan: the job with its targets, contents and approvals. It starts at once, or when it
//! has been approved.

use serde_json::json;

use super::approval;
use super::events;
use super::freezing::{FrozenPlan, freeze};
use super::job::{self, DeploymentJob, JobPrompt};
use super::plan::Plan;
use super::running;
use super::state::{JobState, TargetState};
use super::target::{DeploymentTarget, TargetAgent};
use crate::api::Resource;
use crate::auth::Caller;
use crate::base::{Id, Result};
use crate::outbox::EventType;
use crate::resources::registries::Registry;
use crate::store::Tx;

pub(super) const RESOURCE: Resource =
    Resource { events: &[EventType::DeploymentPendingApproval], ..Resource::EMPTY };

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
        kind: plan.kind,
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
    approval::open(tx, job.id, policy)?;
    let more = [("approverIds", json!(policy.approver_ids)), ("expiresAt", json!(job.expires_at))];
    events::publish_job(tx, EventType::DeploymentPendingApproval, &job, &more)?;
    Ok(job)
}

fn agents(plan: &Plan) -> impl Iterator<Item = &TargetAgent> {
    plan.targets.iter().filter_map(|target| target.agent.as_ref())
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
