//! Approval policies of deployments to an environment
//! (reference: agents, "Approvals of environments").
//!
//! Approvers are members of the organization. A policy always has an approver: the last one can be
//! removed from the organization only after the policy is changed.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::auth::{Membership, User};
use crate::base::{Error, Id, Int, Issue, Result};
use crate::store::View;

/// A policy has at most 50 approvers: each is notified of every deployment, and copied into its
/// job.
const MAX_APPROVERS: usize = 50;

/// The approvers of deployments to an environment, and how many of them must approve.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalPolicy {
    /// Users who may approve; at least one.
    pub approver_ids: Vec<Id<User>>,
    /// Number of approvals required, from 1 to the number of approvers.
    pub min_approvals: u32,
    /// Whether the creator of a deployment may not approve it.
    pub prevent_self_approval: bool,
}
crate::base::portable!(ApprovalPolicy { approver_ids, min_approvals, prevent_self_approval });

/// An approval policy to set.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewApprovalPolicy {
    /// Distinct members of the organization, 1 to 50.
    #[schemars(extend("minItems" = 1, "maxItems" = MAX_APPROVERS, "uniqueItems" = true))]
    approver_ids: Vec<Id<User>>,
    /// Number of approvals required; all approvers by default.
    min_approvals: Option<Int<1, { MAX_APPROVERS as i64 }>>,
    /// Whether the creator of a deployment may not approve it; `false` by default.
    prevent_self_approval: Option<bool>,
}

impl NewApprovalPolicy {
    /// Adds an issue for each violated rule, with paths below the field `approvals`.
    pub(super) fn check(&self, issues: &mut Vec<Issue>) {
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
    pub(super) fn resolve(&self, view: &View) -> Result<ApprovalPolicy> {
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{make, shown};
    use super::super::{EnvironmentPatch, NewEnvironment, update};
    use super::*;
    use crate::base::Kind;
    use crate::resources::testing::{Fixture, user};

    fn issues(approvals: serde_json::Value) -> Vec<String> {
        let body = json!({"slug": "production", "name": "Production", "approvals": approvals});
        let error = Fixture::input::<NewEnvironment>(body).err().expect("a problem");
        error.issues().iter().map(|issue| issue.path.clone()).collect()
    }

    #[test]
    fn approvers_are_1_to_50_and_distinct_and_bound_the_approvals() {
        let id = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(issues(json!({})), ["approvals.approverIds"]);
        assert_eq!(issues(json!({"approverIds": []})), ["approvals.approverIds"]);
        assert_eq!(issues(json!({"approverIds": vec!["x"; 51]})), ["approvals.approverIds"]);
        assert_eq!(issues(json!({"approverIds": [id, id]})), ["approvals.approverIds[1]"]);
        for min in [0, 2] {
            let approvals = json!({"approverIds": [id], "minApprovals": min});
            assert_eq!(issues(approvals), ["approvals.minApprovals"]);
        }
    }

    #[test]
    fn only_members_approve_and_defaults_are_filled_in() {
        let fixture = Fixture::new();
        let (_, outsider) = fixture.other_org("other");
        let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
        for unknown in [json!(user(&outsider)), json!("no id")] {
            let approvals = json!({"approverIds": [ada, unknown]});
            let body = json!({"slug": "a", "name": "A", "approvals": approvals});
            let refused = make(&fixture, body).unwrap_err();
            assert_eq!(refused.kind(), Kind::NotFound);
            assert_eq!(refused.path(), Some("approvals.approverIds[1]"));
        }
        let body = json!({"slug": "a", "name": "A", "approvals": {"approverIds": [ben, ada]}});
        let approvals = make(&fixture, body).unwrap().approvals.unwrap();
        let all = ApprovalPolicy {
            approver_ids: vec![ben, ada],
            min_approvals: 2,
            prevent_self_approval: false,
        };
        assert_eq!(approvals, all);
    }

    #[test]
    fn a_removed_member_is_no_approver_but_the_last_approver_stays() {
        let fixture = Fixture::new();
        let (ada, ben) = (user(&fixture.owner), user(&fixture.member));
        let both = json!({"slug": "a", "name": "A", "approvals": {"approverIds": [ada, ben]}});
        let both = make(&fixture, both).unwrap();
        let leave = |who| {
            fixture.store.write_blocking(fixture.org, move |tx| {
                let membership: Membership = tx.fetch(&(who, tx.org()))?;
                tx.remove(&membership)
            })
        };
        fixture.pass_secs(60);
        leave(ben).unwrap();
        let left = shown(&fixture, both.id);
        let approvals = left.approvals.unwrap();
        assert_eq!((approvals.approver_ids, approvals.min_approvals), (vec![ada], 1));
        assert!(left.updated_at > both.updated_at);

        let refused = leave(ada).unwrap_err();
        assert_eq!(refused.code(), "last_approver");
        assert!(refused.message().contains("\"A\""));

        let none = Fixture::input::<EnvironmentPatch>(json!({"approvals": null})).unwrap();
        fixture.write_as(&fixture.owner, update, both.id, none).unwrap();
        leave(ada).unwrap();
        assert_eq!(shown(&fixture, both.id).approvals, None);
    }
}
