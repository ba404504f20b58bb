//! Who may see deployments: those who may use the environment and the registries of the prompts.
//!
//! What names an environment or a registry that was deleted is for admins alone: whether it was
//! restricted is no longer known.

use std::collections::BTreeSet;

use super::job::DeploymentJob;
use super::live::Deployment;
use crate::auth::{Caller, Restricted, visible_ids};
use crate::base::{Error, Id, Result};
use crate::resources::environments::{self, Environment};
use crate::resources::registries::{self, Registry};
use crate::store::View;

/// The environments and registries that a caller may see; none for an admin, who sees all.
pub struct Visible(Option<Lists>);

struct Lists {
    environments: BTreeSet<Id<Environment>>,
    registries: BTreeSet<Id<Registry>>,
}

impl Visible {
    /// Reads what is visible to a caller.
    ///
    /// # Errors
    /// If the store fails.
    pub fn to(view: &View, caller: &Caller) -> Result<Self> {
        if caller.is_admin() {
            return Ok(Visible(None));
        }
        let (environments, registries) = (visible_ids(view, caller)?, visible_ids(view, caller)?);
        Ok(Visible(Some(Lists { environments, registries })))
    }

    /// Whether the caller may use an environment.
    pub fn has_environment(&self, environment: Id<Environment>) -> bool {
        self.0.as_ref().is_none_or(|lists| lists.environments.contains(&environment))
    }

    fn has(&self, environment: Id<Environment>, of: &[Id<Registry>]) -> bool {
        let has_registries =
            |lists: &Lists| of.iter().all(|registry| lists.registries.contains(registry));
        self.has_environment(environment) && self.0.as_ref().is_none_or(has_registries)
    }

    /// Whether the caller may see a job.
    pub fn has_job(&self, job: &DeploymentJob) -> bool {
        self.has(job.environment, &job.registries)
    }

    /// Whether the caller may see a deployment.
    pub fn has_deployment(&self, deployment: &Deployment) -> bool {
        self.has(deployment.environment, &[deployment.registry])
    }
}

/// Checks that a caller may see what was deployed to `environment` from `registries`.
///
/// # Errors
/// 403 without a grant; 404 for others than admins if one of them was deleted.
pub fn require(
    view: &View,
    caller: &Caller,
    environment: Id<Environment>,
    registries: &[Id<Registry>],
) -> Result<()> {
    match view.get::<Restricted<Environment>>(&environment)? {
        Some(environment) => drop(environment.open(view, caller)?),
        None => require_admin(caller)?,
    }
    for registry in registries {
        match registries::find_by_id(view, *registry)? {
            Some(registry) => drop(registry.open_to_read(view, Some(caller))?),
            None => require_admin(caller)?,
        }
    }
    Ok(())
}

fn require_admin(caller: &Caller) -> Result<()> {
    if caller.is_admin() { Ok(()) } else { Err(Error::not_found()) }
}

/// Returns a job that a caller may see.
///
/// # Errors
/// 404, then 403.
pub fn fetch_job(view: &View, caller: &Caller, id: Id<DeploymentJob>) -> Result<DeploymentJob> {
    let job: DeploymentJob = view.fetch(&id)?;
    require(view, caller, job.environment, &job.registries)?;
    Ok(job)
}

/// Returns the environment with this id or slug, for use by a member.
///
/// # Errors
/// 404, then 403.
pub fn environment(view: &View, caller: &Caller, reference: &str) -> Result<Environment> {
    environments::find(view, reference)?.ok_or_else(Error::not_found)?.open(view, caller)
}
