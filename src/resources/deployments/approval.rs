//! The record of approvals: one for each required approver of a job.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::job::DeploymentJob;
use crate::auth::User;
use crate::base::{Description, Id, Result, Time};
use crate::resources::environments::ApprovalPolicy;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View,
};

/// The decision of an approver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ApprovalDecision {
    /// Not decided.
    Pending,
    /// Decided: yes.
    Approved,
    /// Decided: no.
    Denied,
}
crate::store::stored_enum!(ApprovalDecision { Pending = 0, Approved = 1, Denied = 2 });

/// The approval of a job by one of its approvers.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DeploymentApproval {
    pub id: Id<DeploymentApproval>,
    pub job: Id<DeploymentJob>,
    /// The approver.
    pub user: Id<User>,
    pub decision: ApprovalDecision,
    /// Whether it can still be decided.
    pub open: bool,
    /// When it was decided.
    pub decided_at: Option<Time>,
    /// The approver's comment.
    pub comment: Option<Description>,
    /// The name of the key that decided on the approver's behalf.
    pub via: Option<String>,
}
crate::base::portable!(DeploymentApproval {
    id,
    job,
    user,
    decision,
    open,
    decided_at,
    comment,
    via,
});

/// Approvals that wait for a user, by job.
pub static WAITING_FOR: Index<DeploymentApproval, (Id<User>, Id<DeploymentJob>)> = Index::unique(
    "deployment_approvals.open",
    "approval_exists",
    "the user is an approver of this deployment already",
    |approval| approval.open.then_some((approval.user, approval.job)),
);

static JOB: Reference<DeploymentApproval, DeploymentJob> = Reference::cascade(
    &["job"],
    |job: &DeploymentJob| job.id.to_bytes(),
    |approval: &DeploymentApproval, _| vec![approval.job.to_bytes()],
);

impl Record for DeploymentApproval {
    const TABLE: &'static str = "deployment_approvals";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&WAITING_FOR];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&JOB];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("user", "frozen: an approver who has left can no longer decide")];
    type Key = (Id<DeploymentJob>, Id<User>);
    fn key(&self) -> Self::Key {
        (self.job, self.user)
    }
}

/// Returns the approvals of a job.
pub fn approvals(view: &View, job: Id<DeploymentJob>) -> Result<Vec<DeploymentApproval>> {
    view.all(ListSource::TABLE, &job)
}

/// Creates the approvals of a job. Their ids have the order of their keys, which is that of lists.
pub fn open(tx: &mut Tx, job: Id<DeploymentJob>, policy: &ApprovalPolicy) -> Result<()> {
    let mut users = policy.approver_ids.clone();
    users.sort();
    users.into_iter().try_for_each(|user| {
        tx.insert(&DeploymentApproval {
            id: tx.new_id(),
            job,
            user,
            decision: ApprovalDecision::Pending,
            open: true,
            decided_at: None,
            comment: None,
            via: None,
        })
    })
}

/// Closes the undecided approvals of a job, which no longer waits for them.
pub fn close(tx: &mut Tx, job: Id<DeploymentJob>) -> Result<()> {
    let open = approvals(&tx.view(), job)?.into_iter().filter(|approval| approval.open);
    open.into_iter().try_for_each(|approval| {
        tx.replace(&approval, &DeploymentApproval { open: false, ..approval.clone() })
    })
}
