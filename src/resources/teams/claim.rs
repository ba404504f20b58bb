//! The claim of a task by one process of an agent, its worker, and its lease
//! (reference: teams-and-wakes, "Claims of workers").

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::auth::User;
use crate::base::{Id, Text, Time};

/// What a process of an agent calls itself.
pub type WorkerName = Text<1, 128>;

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
    /// When that is, unless the worker gives a sign of life before; null without a lease.
    pub lease_ends_at: Option<Time>,
    /// Who claimed it, also through a key: what becomes of it is noted on their account.
    #[serde(skip)]
    pub by: Id<User>,
    /// Whether nobody had the task before: after the claim it is free again.
    #[serde(skip)]
    pub was_free: bool,
}
crate::base::portable!(TaskClaim { worker, since, lease_secs, lease_ends_at, by, was_free });

impl TaskClaim {
    /// Returns the claim with a lease that begins at `now`, if it has one.
    pub fn renewed(&self, now: Time) -> Self {
        let lease_ends_at = self.lease_secs.map(|secs| now.plus_secs(secs.into()));
        TaskClaim { lease_ends_at, ..self.clone() }
    }

    /// Whether its lease ends later than it can: it was given while the clock was ahead.
    pub fn is_misdated(&self, now: Time) -> bool {
        let secs = self.lease_secs.unwrap_or_default();
        self.lease_ends_at.is_some_and(|end| end.is_beyond(now, secs.into()))
    }
}
