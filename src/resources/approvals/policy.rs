//! Approval policies: of deployments to an environment (reference: agents, "Approvals of
//! environments") and of changes of a protected label (reference: registries-and-templates, "Protected
//! labels").
//!
//! Approvers are members of the organization. A policy always has an approver: the last one can be
//! removed from the organization only after the policy is changed.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::{Caller, Membership, User};
use crate::base::{Error, Id, Int, Issue, Result};
use crate::store::View;

/// A policy has at most 50 approvers: each is notified of all that waits for approval, and copied into
/// it.
const MAX_APPROVERS: usize = 50;

crate::base::portable! {
/// Who approves, and how many of them must.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPolicy {
    /// Users who may approve; at least one.
    pub approver_ids: Vec<Id<User>>,
    /// Number of approvals required, from 1 to the number of approvers.
    pub min_approvals: u32,
    /// Whether who asks may not approve it.
    pub prevent_self_approval: bool,
}
}

impl ApprovalPolicy {
    /// Returns the policy of what somebody asks for now. Where self-approval is prevented, nobody who may
    /// be the one who asks approves it. `None` if that leaves nobody.
    pub fn frozen_for(&self, asks: &Caller) -> Option<Self> {
        let mut frozen = self.clone();
        if frozen.prevent_self_approval {
            frozen.approver_ids.retain(|approver| !asks.may_be(*approver));
        }
        frozen.bounded()
    }

    /// Returns the policy without a user; `None` if that leaves nobody.
    pub fn without(&self, user: Id<User>) -> Option<Self> {
        let mut left = self.clone();
        left.approver_ids.retain(|approver| *approver != user);
        left.bounded()
    }

    /// Lowers the required approvals to the number of approvers.
    fn bounded(mut self) -> Option<Self> {
        self.min_approvals = self.min_approvals.min(self.approver_ids.len() as u32);
        (!self.approver_ids.is_empty()).then_some(self)
    }

    /// Whether what satisfies this policy satisfies the other one, too.
    pub fn implies(&self, other: &Self) -> bool {
        self.min_approvals >= other.min_approvals
            && self.approver_ids.iter().all(|approver| other.approver_ids.contains(approver))
    }

    /// The approvers, in the order in which their approvals are listed.
    pub fn approvers(&self) -> Vec<Id<User>> {
        let mut approvers = self.approver_ids.clone();
        approvers.sort();
        approvers
    }
}

/// An approval policy to set.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewApprovalPolicy {
    /// Distinct members of the organization, 1 to 50.
    #[schemars(extend("minItems" = 1, "maxItems" = MAX_APPROVERS, "uniqueItems" = true))]
    approver_ids: Vec<Id<User>>,
    /// Number of approvals required; all approvers by default.
    min_approvals: Option<Int<1, { MAX_APPROVERS as i64 }>>,
    /// Whether who asks may not approve it; `false` by default.
    prevent_self_approval: Option<bool>,
}

impl NewApprovalPolicy {
    /// Adds an issue for each violated rule, with paths below the field `approvals`.
    pub fn check(&self, issues: &mut Vec<Issue>) {
        let number = self.approver_ids.len();
        if number == 0 || number > MAX_APPROVERS {
            issues.push(Issue::new(
                "approvals.approverIds",
                format!("must name 1 to {MAX_APPROVERS} members"),
            ));
        }
        let mut seen = BTreeSet::new();
        for (index, id) in self.approver_ids.iter().enumerate() {
            // Invalid ids are all read as the nil id, which is 404 later.
            if !id.is_nil() && !seen.insert(id) {
                let path = format!("approvals.approverIds[{index}]");
                issues.push(Issue::new(path, "must not be repeated"));
            }
        }
        if self.min_approvals.is_some_and(|min| min.get() as usize > number) {
            issues.push(Issue::new(
                "approvals.minApprovals",
                "must be at most the number of approvers",
            ));
        }
    }

    /// Returns the policy with defaults filled in.
    ///
    /// # Errors
    /// 404 for an approver who is not a member, 400 for a service account.
    pub fn resolve(&self, view: &View) -> Result<ApprovalPolicy> {
        for (index, approver) in self.approver_ids.iter().enumerate() {
            let path = || format!("approvals.approverIds[{index}]");
            let membership = view.fetch::<Membership>(&(*approver, view.org()));
            membership.map_err(|error| error.at(path()))?;
            if view.fetch::<User>(approver)?.is_service() {
                return Err(Error::invalid_at(path(), "must be a person, not a service account"));
            }
        }
        let all = self.approver_ids.len() as u32;
        Ok(ApprovalPolicy {
            approver_ids: self.approver_ids.clone(),
            min_approvals: self.min_approvals.map_or(all, |min| min.get() as u32),
            prevent_self_approval: self.prevent_self_approval.unwrap_or(false),
        })
    }
}
