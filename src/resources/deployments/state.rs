//! The states of deployment jobs and of their targets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What a deployment job deploys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum JobKind {
    /// A prompt, to agents.
    Agents,
    /// Versions of tools, to an environment.
    Tools,
}
crate::store::stored_enum!(JobKind { Agents = 0, Tools = 1 });

/// The state of a deployment job.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum JobState {
    /// It waits for approvals.
    PendingApproval,
    /// It is approved, or needed no approval, and has not begun.
    Approved,
    /// Its targets are being applied.
    Running,
    /// All targets were applied.
    Complete,
    /// Some targets were applied, others failed.
    Partial,
    /// No target was applied.
    Error,
    /// It was not approved in time.
    Timeout,
    /// An approver denied it.
    Denied,
    /// It was cancelled; targets that had begun may have been applied.
    Cancelled,
}
crate::store::stored_enum!(JobState {
    PendingApproval = 0,
    Approved = 1,
    Running = 2,
    Complete = 3,
    Partial = 4,
    Error = 5,
    Timeout = 6,
    Denied = 7,
    Cancelled = 8,
});

impl JobState {
    /// Whether nothing follows.
    pub fn is_final(self) -> bool {
        !matches!(self, JobState::PendingApproval | JobState::Approved | JobState::Running)
    }
}

/// The state of a target of a deployment job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TargetState {
    /// Not finished yet.
    Waiting,
    /// Deployed.
    Applied,
    /// Not deployed; `error` says why.
    Failed,
    /// Not begun when the job was cancelled, denied or timed out.
    Skipped,
}
crate::store::stored_enum!(TargetState { Waiting = 0, Applied = 1, Failed = 2, Skipped = 3 });
