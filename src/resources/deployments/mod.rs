//! Deployments: what an agent runs in an environment (reference: deployments).
//!
//! A request becomes a job: its plan, with all texts filled, is frozen when the job is created
//! ([`plan`], [`jobs`]), approved if the environment requires that ([`approvals`]) and then applied
//! target by target ([`running`], [`applying`]). Each applied target is a record of its own, and the
//! newest of an agent in an environment is live ([`live`]).

mod access;
mod applying;
mod approvals;
mod changes;
mod contents;
mod delivery;
mod deployed;
mod heartbeats;
mod history;
mod in_use;
mod info;
mod job;
mod jobs;
mod live;
mod plan;
mod rollback;
mod running;
mod target;

pub use job::{CountedJob, DAY_SECS, JobState, count};
pub use jobs::count_waiting;
pub use live::Deployment;

use crate::api::Resource;
use crate::store::TableInfo;

/// Jobs, their approvals, and deployments.
pub const RESOURCE: Resource = Resource {
    tables: &[
        TableInfo::of::<job::DeploymentJob>(),
        TableInfo::of::<target::DeploymentTarget>(),
        TableInfo::of::<target::DeploymentTicket>(),
        TableInfo::of::<contents::DeploymentContent>(),
        TableInfo::of::<approvals::DeploymentApproval>(),
        TableInfo::of::<job::DeploymentDay>(),
        TableInfo::of::<job::DeploymentScope>(),
        TableInfo::of::<live::Deployment>(),
        TableInfo::of::<live::LiveDeployment>(),
        TableInfo::of::<heartbeats::AgentReport>(),
    ],
    checks: &[running::check],
    mends: &[running::mend],
    children: &[
        &jobs::RESOURCE,
        &in_use::RESOURCE,
        &changes::RESOURCE,
        &rollback::RESOURCE,
        &approvals::RESOURCE,
        &running::RESOURCE,
        &applying::RESOURCE,
        &history::RESOURCE,
        &deployed::RESOURCE,
        &heartbeats::RESOURCE,
    ],
    ..Resource::EMPTY
};

#[cfg(test)]
mod tests;
