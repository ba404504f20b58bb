//! Who may see deployments: those who may use the environment, the agents and the registries of the
//! prompts.
//!
//! What names an environment, an agent or a registry that was deleted is for admins alone: whether it was
//! restricted is no longer known.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::job::DeploymentJob;
use super::live::Deployment;
use crate::auth::{Caller, Restricted, visible_ids};
use crate::base::{Error, Id, Result};
use crate::resources::agents::Agent;
use crate::resources::environments::{self, Environment};
use crate::resources::registries::{self, Registry};
use crate::store::View;

/// The environments, agents and registries that a caller may see; none for an admin, who sees all.
pub struct Visible<'a>(Option<Lists<'a>>);

struct Lists<'a> {
    view: View<'a>,
    caller: &'a Caller,
    environments: BTreeSet<Id<Environment>>,
    registries: BTreeSet<Id<Registry>>,
    /// Whether an agent is visible; agents are read as they are met, since there may be many.
    agents: RefCell<BTreeMap<Id<Agent>, bool>>,
}

impl Lists<'_> {
    fn has_agent(&self, id: Id<Agent>) -> bool {
        if let Some(known) = self.agents.borrow().get(&id) {
            return *known;
        }
        let found = self.view.get::<Restricted<Agent>>(&id);
        let opened = found.and_then(|agent| match agent {
            Some(agent) => agent.open_if_usable(&self.view, self.caller),
            None => Ok(None),
        });
        // An agent that cannot be read is not shown.
        let is_visible = matches!(opened, Ok(Some(_)));
        self.agents.borrow_mut().insert(id, is_visible);
        is_visible
    }
}

impl<'a> Visible<'a> {
    /// Reads what is visible to a caller.
    ///
    /// # Errors
    /// If the store fails.
    pub fn to(view: &View<'a>, caller: &'a Caller) -> Result<Self> {
        if caller.is_admin() {
            return Ok(Visible(None));
        }
        let (environments, registries) = (visible_ids(view, caller)?, visible_ids(view, caller)?);
        let agents = RefCell::default();
        Ok(Visible(Some(Lists { view: *view, caller, environments, registries, agents })))
    }

    /// Whether the caller may use an environment.
    pub fn has_environment(&self, environment: Id<Environment>) -> bool {
        self.0.as_ref().is_none_or(|lists| lists.environments.contains(&environment))
    }

    fn has(&self, environment: Id<Environment>, of: &[Id<Registry>], to: &[Id<Agent>]) -> bool {
        let has_others = |lists: &Lists| {
            of.iter().all(|registry| lists.registries.contains(registry))
                && to.iter().all(|agent| lists.has_agent(*agent))
        };
        self.has_environment(environment) && self.0.as_ref().is_none_or(has_others)
    }

    /// Whether the caller may see a job.
    pub fn has_job(&self, job: &DeploymentJob) -> bool {
        self.has(job.environment, &job.registries, &job.agents)
    }

    /// Whether the caller may see a deployment.
    pub fn has_deployment(&self, deployment: &Deployment) -> bool {
        self.has(deployment.environment, &[deployment.registry], &[deployment.agent])
    }
}

/// Checks that a caller may see what was deployed to `agents` in `environment` from `registries`.
///
/// # Errors
/// 403 without a grant; 404 for others than admins if one of them was deleted.
pub fn require(
    view: &View,
    caller: &Caller,
    environment: Id<Environment>,
    registries: &[Id<Registry>],
    agents: &[Id<Agent>],
) -> Result<()> {
    match view.get::<Restricted<Environment>>(&environment)? {
        Some(environment) => drop(environment.open(view, caller)?),
        None => require_admin(caller, "environment")?,
    }
    for registry in registries {
        match registries::find_by_id(view, *registry)? {
            Some(registry) => drop(registry.open_to_read(view, Some(caller))?),
            None => require_admin(caller, "registry")?,
        }
    }
    for agent in agents {
        match view.get::<Restricted<Agent>>(agent)? {
            Some(agent) => drop(agent.open(view, caller)?),
            None => require_admin(caller, "agent")?,
        }
    }
    Ok(())
}

fn require_admin(caller: &Caller, kind: &str) -> Result<()> {
    if caller.is_admin() { Ok(()) } else { Err(Error::no_such(kind)) }
}

/// Returns a job that a caller may see.
///
/// # Errors
/// 404, then 403.
pub fn fetch_job(view: &View, caller: &Caller, id: Id<DeploymentJob>) -> Result<DeploymentJob> {
    let job: DeploymentJob = view.fetch(&id)?;
    require(view, caller, job.environment, &job.registries, &job.agents)?;
    Ok(job)
}

/// Returns the environment with this id or slug, for use by a member.
///
/// # Errors
/// 404, then 403.
pub fn environment(view: &View, caller: &Caller, reference: &str) -> Result<Environment> {
    find_environment(view, reference)?.open(view, caller)
}

/// Returns the environment with this id or slug.
///
/// # Errors
/// 404 if there is none.
pub fn find_environment(view: &View, reference: &str) -> Result<Restricted<Environment>> {
    let missing = || Error::no_such("environment").at("environment");
    environments::find(view, reference)?.ok_or_else(missing)
}
