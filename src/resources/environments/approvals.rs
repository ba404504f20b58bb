//! Who must approve a deployment to an environment
//! (reference: agents, "Approvals of environments").
//!
//! Approvers are members of the organization. An environment that has approvals always has an
//! approver: the last one can leave only after the approvals were changed.

use std::collections::BTreeSet;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Environment;
use crate::auth::{Membership, Restricted, User};
use crate::base::{Error, Id, Int, Issue, Result};
use crate::store::{Key, Org, Reference, Tx, View};

/// At most 50 people are asked: each is asked for every deployment, and copied into its job.
const MAX_APPROVERS: usize = 50;

/// Who must approve, and how many of them.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    /// Those who may approve, at least one.
    pub approver_ids: Vec<Id<User>>,
    /// How many of them must, from 1 to their number.
    pub min_approvals: u32,
    /// Whether who creates a deployment is no approver of it.
    pub prevent_self_approval: bool,
}

/// Who shall approve.
#[derive(Clone, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewApprovals {
    /// Distinct members of the organization, 1 to 50.
    approver_ids: Vec<Id<User>>,
    /// All of them where it is absent.
    min_approvals: Option<Int<1, { MAX_APPROVERS as i64 }>>,
    /// No where it is absent.
    prevent_self_approval: Option<bool>,
}

impl NewApprovals {
    /// Adds a problem for each rule that is broken; they stand in the field `approvals`.
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
            // Texts that are no id all read as the one that names nothing: they are 404.
            if !id.is_nil() && !seen.insert(id) {
                let path = format!("approvals.approverIds[{index}]");
                issues.push(Issue::new(path, "must be given once"));
            }
        }
        if self.min_approvals.is_some_and(|min| min.get() as usize > number) {
            issues.push(Issue::new(
                "approvals.minApprovals",
                "must be at most the number of approvers",
            ));
        }
    }

    /// With defaults filled in.
    ///
    /// # Errors
    /// 404 for an approver who is no member.
    pub(super) fn settle(&self, view: &View) -> Result<Approvals> {
        for approver in &self.approver_ids {
            view.fetch::<Membership>(&(*approver, view.org()))?;
        }
        let all = self.approver_ids.len() as u32;
        Ok(Approvals {
            approver_ids: self.approver_ids.clone(),
            min_approvals: self.min_approvals.map_or(all, |min| min.get() as u32),
            prevent_self_approval: self.prevent_self_approval.unwrap_or(false),
        })
    }
}

/// The environments that a member approves deployments to. All of the organization's are looked at,
/// which are at most 1,000.
pub(super) static APPROVERS: Reference<Restricted<Environment>, Membership> = Reference::clear(
    &["approvals.approver_ids"],
    without_approver,
    |_: &Membership| Vec::new(),
    |environment: &Restricted<Environment>, org| {
        let approvals = environment.without_caller().approvals.iter();
        let approvers = approvals.flat_map(|approvals| &approvals.approver_ids);
        approvers.map(|approver| (*approver, org).to_bytes()).collect()
    },
);

/// Removes a member who leaves from an environment's approvals; `minApprovals` sinks to the number
/// left where it is more.
///
/// # Errors
/// 409 where they are the last approver: without one, deployments would wait for nobody.
fn without_approver(
    tx: &Tx,
    old: &Restricted<Environment>,
    (user, _): &(Id<User>, Id<Org>),
) -> Result<Restricted<Environment>> {
    let mut new = Environment { updated_at: tx.now(), ..old.without_caller().clone() };
    let Some(left) = &mut new.approvals else { return Ok(old.clone()) };
    left.approver_ids.retain(|approver| approver != user);
    if left.approver_ids.is_empty() {
        return Err(Error::conflict(
            "last_approver",
            format!(
                "this member is the only approver of the environment \"{}\"; \
                 name another approver there first",
                new.name
            ),
        ));
    }
    left.min_approvals = left.min_approvals.min(left.approver_ids.len() as u32);
    Ok(Restricted::new(new))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{make, shown};
    use super::super::{EnvironmentPatch, NewEnvironment, update};
    use super::*;
    use crate::api::Principal;
    use crate::base::Kind;
    use crate::resources::testing::World;

    fn user(who: &Principal) -> Id<User> {
        match who {
            Principal::Caller(caller) => caller.user(),
            _ => panic!("nobody in an organization"),
        }
    }

    fn issues(approvals: serde_json::Value) -> Vec<String> {
        let body = json!({"slug": "production", "name": "Production", "approvals": approvals});
        let error = World::input::<NewEnvironment>(body).err().expect("a problem");
        error.issues().iter().map(|issue| issue.path.clone()).collect()
    }

    #[test]
    fn approvers_are_1_to_50_and_distinct_and_no_more_approve_than_there_are() {
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
        let world = World::new();
        let (_, stranger) = world.other_org("other");
        let (ada, ben) = (user(&world.owner), user(&world.member));
        for unknown in [json!(user(&stranger)), json!("nobody")] {
            let approvals = json!({"approverIds": [ada, unknown]});
            let body = json!({"slug": "a", "name": "A", "approvals": approvals});
            assert_eq!(make(&world, body).unwrap_err().kind(), Kind::NotFound);
        }
        let body = json!({"slug": "a", "name": "A", "approvals": {"approverIds": [ben, ada]}});
        let approvals = make(&world, body).unwrap().approvals.unwrap();
        let all = Approvals {
            approver_ids: vec![ben, ada],
            min_approvals: 2,
            prevent_self_approval: false,
        };
        assert_eq!(approvals, all);
    }

    #[test]
    fn a_member_who_leaves_approves_no_more_but_the_last_approver_stays() {
        let world = World::new();
        let (ada, ben) = (user(&world.owner), user(&world.member));
        let both = json!({"slug": "a", "name": "A", "approvals": {"approverIds": [ada, ben]}});
        let both = make(&world, both).unwrap();
        let leave = |who| {
            world.store.write_now(world.org, move |tx| {
                let membership: Membership = tx.fetch(&(who, tx.org()))?;
                tx.remove(&membership)
            })
        };
        world.pass_secs(60);
        leave(ben).unwrap();
        let left = shown(&world, both.id);
        let approvals = left.approvals.unwrap();
        assert_eq!((approvals.approver_ids, approvals.min_approvals), (vec![ada], 1));
        assert!(left.updated_at > both.updated_at);

        let refused = leave(ada).unwrap_err();
        assert_eq!(refused.code(), "last_approver");
        assert!(refused.message().contains("\"A\""));

        let none = World::input::<EnvironmentPatch>(json!({"approvals": null})).unwrap();
        world.write_as(&world.owner, update, both.id, none).unwrap();
        leave(ada).unwrap();
        assert_eq!(shown(&world, both.id).approvals, None);
    }
}
