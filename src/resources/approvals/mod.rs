//! Approvals by people, the same for deployments and for changes of protected labels: who approves
//! ([`policy`]), and who decides, also on behalf of an approver ([`deciding`]) (reference: deployments,
//! "Approvals").

mod deciding;
mod policy;

use crate::api::Resource;

/// They declare nothing of their own.
pub const RESOURCE: Resource = Resource::EMPTY;

pub use deciding::{
    Approval, ApprovalDecision, ApprovalInfo, Decider, Vote, Waiting, approvers_and_keys, close,
    count_open, counted, to_info,
};
pub use policy::{ApprovalPolicy, NewApprovalPolicy};
