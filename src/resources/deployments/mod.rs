//! Deployments: what an agent runs in an environment (reference: deployments).
//!
//! A request becomes a job: its plan, with all texts filled, is frozen when the job is created
//! ([`plan`], [`submit`]), approved if the environment requires that ([`decisions`]) and then applied
//! target by target ([`running`], [`applying`]). Each applied target is a record of its own, and the
//! newest of an agent in an environment is live ([`live`]).

mod access;
mod applying;
mod approval;
mod changes;
mod consistency;
mod contents;
mod days;
mod decisions;
mod delivery;
mod deployed;
mod deployed_tool;
mod events;
mod freezing;
mod heartbeats;
mod heatmap;
mod history;
mod in_use;
mod info;
mod job;
mod jobs;
mod live;
mod outdated;
mod places;
mod plan;
mod plan_tools;
mod preview;
mod prompt_places;
mod push;
mod reports;
mod rollback;
mod running;
mod scope_target;
mod state;
mod submit;
mod target;

pub use days::{CountedJob, DAY_SECS, count};
pub use live::Deployment;
pub use state::JobState;

use crate::api::Resource;
use crate::store::TableInfo;

/// Jobs, their approvals, and deployments.
pub const RESOURCE: Resource = Resource {
    tables: &[
        TableInfo::of::<job::DeploymentJob>(),
        TableInfo::of::<target::DeploymentTarget>(),
        TableInfo::of::<target::DeploymentTicket>(),
        TableInfo::of::<contents::DeploymentContent>(),
        TableInfo::of::<approval::DeploymentApproval>(),
        TableInfo::of::<days::DeploymentDay>(),
        TableInfo::of::<days::DeploymentScope>(),
        TableInfo::of::<live::Deployment>(),
        TableInfo::of::<live::LiveDeployment>(),
        TableInfo::of::<reports::AgentReport>(),
    ],
    sweeps: &[reports::FIND_PLACES],
    checks: &[consistency::check],
    mends: &[consistency::mend],
    children: &[
        &jobs::RESOURCE,
        &in_use::RESOURCE,
        &changes::RESOURCE,
        &preview::RESOURCE,
        &rollback::RESOURCE,
        &decisions::RESOURCE,
        &submit::RESOURCE,
        &running::RESOURCE,
        &applying::RESOURCE,
        &push::RESOURCE,
        &history::RESOURCE,
        &heatmap::RESOURCE,
        &deployed::RESOURCE,
        &places::RESOURCE,
        &prompt_places::RESOURCE,
        &heartbeats::RESOURCE,
    ],
    ..Resource::EMPTY
};

#[cfg(test)]
mod tests;
