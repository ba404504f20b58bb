//! Submitting a plan: the job with its targets, contents and approvals. It starts at once, or when it
//! has been approved.

use serde_json::{Value, json};

use super::approval;
use super::events;
use super::job::{self, DeploymentJob, JobPrompt};
use super::plan::Plan;
use super::running;
use super::state::{JobState, TargetState};
use super::target::{DeploymentTarget, PlannedTarget, TargetAgent};
use crate::api::Resource;
use crate::auth::Caller;
use crate::base::{Error, Id, Result, canonical};
use crate::outbox::EventType;
use crate::resources::environments::{self, ApprovalPolicy, Environment};
use crate::resources::registries::Registry;
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { events: &[EventType::DeploymentPendingApproval], ..Resource::EMPTY };

/// Returns who must approve a job that `creator` creates. Where self-approval is prevented, that is
/// nobody who may be the creator.
///
/// # Errors
/// 409 if nobody could.
pub fn frozen_approvals(
    environment: &Environment,
    creator: &Caller,
) -> Result<Option<ApprovalPolicy>> {
    let Some(mut policy) = environment.approvals.clone() else { return Ok(None) };
    if policy.prevent_self_approval {
        policy.approver_ids.retain(|approver| !creator.may_be(*approver));
    }
    if policy.approver_ids.is_empty() {
        return Err(Error::conflict(
            "no_approver",
            format!(
                "you are the only approver of the environment \"{}\", which prevents \
                 self-approval; name another approver there",
                environment.name
            ),
        ));
    }
    policy.min_approvals = policy.min_approvals.min(policy.approver_ids.len() as u32);
    Ok(Some(policy))
}

/// Returns the hash of a plan and of who must approve it.
///
/// # Errors
/// 500 if it cannot be written.
pub fn plan_hash(plan: &Plan, approvals: Option<&ApprovalPolicy>) -> String {
    let target = |target: &PlannedTarget| {
        let agent = target.agent.as_ref();
        json!({
            "agentId": agent.map(|agent| agent.id), "toolId": target.tool, "hash": target.hash,
        })
    };
    let targets: Value = plan.targets.iter().map(target).collect();
    let hashed = json!({
        "kind": plan.kind, "environmentId": plan.environment.id, "targets": targets,
        "approvals": approvals,
    });
    blake3::hash(canonical(&hashed).as_bytes()).to_string()
}

/// Checks that what a plan posts to the provider's endpoint can be signed, so that nobody approves
/// what cannot be applied.
///
/// # Errors
/// 409 if the environment's credential lacks the key.
pub fn check_signing_key(view: &View, plan: &Plan) -> Result<()> {
    let Some(provider) = &plan.provider else { return Ok(()) };
    match environments::push_target(view, plan.environment.id, provider)? {
        Some(target) => target.signing_key(view).map(drop),
        None => Ok(()),
    }
}

/// Creates the job of a plan.
///
/// # Errors
/// 409 if nobody could approve it, or it could not be posted.
pub fn submit(tx: &mut Tx, caller: &Caller, plan: Plan) -> Result<DeploymentJob> {
    check_signing_key(&tx.view(), &plan)?;
    let approvals = frozen_approvals(&plan.environment, caller)?;
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
        plan_hash: plan_hash(&plan, approvals.as_ref()),
        plan_bytes: plan.targets.iter().map(|target| target.bytes).sum(),
        tools: plan.tools,
        at_once: plan.at_once,
        next: 0,
        push: None,
        task: None,
        created_by: caller.user(),
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
