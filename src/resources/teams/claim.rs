//! The claim of a task by one process of an agent, its worker
//! (reference: teams-and-wakes, "Claims of workers").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::User;
use crate::base::{Id, Text, Time};

/// What a process of an agent calls itself.
pub type WorkerName = Text<1, 128>;

crate::base::portable! {
/// The claim of a task by one process of its agent.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskClaim {
    /// The process that has the task, as it called itself.
    pub worker: WorkerName,
    /// Since when it has the task.
    pub since: Time,
    /// After so many seconds without a sign of life the task is open again; null if it is never.
    pub lease_secs: Option<u32>,
    /// Who claimed it, also through a key: what becomes of it is noted on their account.
    #[serde(skip)]
    pub by: Id<User>,
    /// Whether nobody had the task before: after the claim it is free again.
    #[serde(skip)]
    pub was_free: bool,
}
}
