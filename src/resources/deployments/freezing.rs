//! Freezing a plan: who approves it, where its manifests go, and the hash of all that.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::contents::ContentHash;
use super::delivery::{
    PlannedDelivery, PlannedEndpoint, PlannedSecret, PlannedVariable, push_target,
};
use super::deployed_tool::DeployedTool;
use super::plan::Plan;
use super::target::PlannedTarget;
use crate::auth::Caller;
use crate::base::{Error, Result, canonical};
use crate::resources::environments::{self, ApprovalPolicy, Environment, PlaceholderSource};
use crate::store::View;

/// A plan with all that is shown and decided about: who approves it, where it goes, and its hash.
pub struct FrozenPlan {
    pub plan: Plan,
    /// Who must approve it; none if it needs no approval.
    pub approvals: Option<ApprovalPolicy>,
    /// Where its manifests go, and what is filled into them.
    pub delivery: PlannedDelivery,
    /// The hash of all that.
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
    let target = push_target(view, environment, plan.kind, plan.provider.as_ref())?;
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

fn plan_hash(
    plan: &Plan,
    delivery: &PlannedDelivery,
    approvals: Option<&ApprovalPolicy>,
) -> String {
    let target = |target: &PlannedTarget| {
        let agent = target.agent.as_ref();
        json!({
            "agentId": agent.map(|agent| agent.id), "toolId": target.tool, "hash": target.hash,
        })
    };
    let targets: Value = plan.targets.iter().map(target).collect();
    let hashed = json!({
        "kind": plan.kind, "environmentId": plan.environment.id, "targets": targets,
        "delivery": delivery.hashed(), "approvals": approvals,
    });
    blake3::hash(canonical(&hashed).as_bytes()).to_string()
}
