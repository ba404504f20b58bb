//! Whether a job that waits or runs may still be applied: its creator may still deploy there, and its
//! manifests go where the plan says, with what the plan says filled in. The same rule refuses its
//! approval, fails its targets, and is shown.

use super::delivery::push_target;
use super::job::DeploymentJob;
use crate::auth::{Restricted, present_caller};
use crate::base::Result;
use crate::resources::agents::Agent;
use crate::resources::environments::Environment;
use crate::resources::registries;
use crate::store::View;

/// Why the targets of a job are not applied any more; `None` if they are, or if it is finished.
pub fn outdated(view: &View, job: &DeploymentJob) -> Result<Option<String>> {
    if !job.is_unfinished() {
        return Ok(None);
    }
    if !creator_may_deploy(view, job)? {
        return Ok(Some(
            "who created this, or answered for the key that did, has left the organization or may \
             not deploy it any more"
                .into(),
        ));
    }
    // A job of an earlier release did not say where it goes.
    let Some(delivery) = &job.delivery else { return Ok(None) };
    let target = push_target(view, job.environment, job.kind, job.provider.as_ref())?;
    delivery.deviation(view, job.environment, target.as_ref())
}

/// Whether the creator of a job is a member who may use all that it needs, as through a key of the
/// sponsor that the job has, if it has one. What was deleted since does not count: the plan has its
/// contents.
fn creator_may_deploy(view: &View, job: &DeploymentJob) -> Result<bool> {
    let creator = present_caller(view, job.created_by, job.sponsor, job.created_at)?;
    let Some(creator) = creator else { return Ok(false) };
    if let Some(environment) = view.get::<Restricted<Environment>>(&job.environment)?
        && environment.open_if_usable(view, &creator)?.is_none()
    {
        return Ok(false);
    }
    for agent in &job.agents {
        if let Some(agent) = view.get::<Restricted<Agent>>(agent)?
            && agent.open_if_usable(view, &creator)?.is_none()
        {
            return Ok(false);
        }
    }
    for registry in &job.registries {
        if let Some(registry) = registries::find_by_id(view, *registry)?
            && registry.open_if_usable(view, &creator)?.is_none()
        {
            return Ok(false);
        }
    }
    Ok(true)
}
