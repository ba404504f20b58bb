//! Who may see deployments: those who may use the environment, the agents and the registries of the
//! prompts. A public registry, too, is used by those with a grant: what anybody reads are its
//! prompts. Of what was deleted, admins alone see what was restricted until then.
//!
//! And whether a job that waits or runs may still be applied: its creator may still deploy there, and
//! its manifests go where the plan says, with what the plan says filled in. The same rule refuses its
//! approval, fails its targets, and is shown.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::delivery::push_target;
use super::job::DeploymentJob;
use super::live::{Deployment, LiveDeployment};
use crate::api::TargetFinder;
use crate::auth::{
    Caller, Granted, Restrictable, Restricted, ScopeName, ScopeTarget, present_caller, usable_ids,
    was_restricted,
};
use crate::base::{Error, Id, Result};
use crate::resources::agents::Agent;
use crate::resources::environments::{self, Environment};
use crate::resources::registries::{self, Registry};
use crate::store::{Record, View};

/// What a caller may see.
pub struct Visible<'a> {
    /// What grants permit; everything to an admin.
    granted: Option<Lists<'a>>,
    /// The environments that the scopes of the caller's key permit; all without such scopes.
    in_scope: Option<BTreeSet<Id<Environment>>>,
}

struct Lists<'a> {
    view: View<'a>,
    caller: &'a Caller,
    environments: BTreeSet<Id<Environment>>,
    registries: BTreeSet<Id<Registry>>,
    /// Whether something else is visible: agents, and what was deleted. It is read as it is met,
    /// since there may be much.
    others: RefCell<BTreeMap<Id<Granted>, bool>>,
}

impl Lists<'_> {
    fn has_agent(&self, id: Id<Agent>) -> bool {
        self.has_other(id, || match self.view.get::<Restricted<Agent>>(&id)? {
            Some(agent) => Ok(agent.open_if_usable(&self.view, self.caller)?.is_some()),
            None => Ok(!was_restricted(&self.view, id)?),
        })
    }

    fn has_environment(&self, id: Id<Environment>) -> bool {
        self.environments.contains(&id) || self.was_open(id)
    }

    fn has_registry(&self, id: Id<Registry>) -> bool {
        self.registries.contains(&id) || self.was_open(id)
    }

    /// Whether a resource was deleted and was not restricted.
    fn was_open<T: Restrictable>(&self, id: Id<T>) -> bool
    where
        Restricted<T>: Record<Key = Id<T>>,
    {
        self.has_other(id, || {
            Ok(!self.view.has::<Restricted<T>>(&id)? && !was_restricted(&self.view, id)?)
        })
    }

    fn has_other<T: ?Sized>(&self, id: Id<T>, read: impl FnOnce() -> Result<bool>) -> bool {
        if let Some(known) = self.others.borrow().get(&id.cast()) {
            return *known;
        }
        // What cannot be read is not shown.
        let is_visible = read().unwrap_or(false);
        self.others.borrow_mut().insert(id.cast(), is_visible);
        is_visible
    }
}

impl<'a> Visible<'a> {
    /// Reads what is visible to a caller.
    pub fn to(view: &View<'a>, caller: &'a Caller) -> Result<Self> {
        let in_scope = environments::in_scope(view, caller, ScopeName::DeploymentRead)?;
        if caller.is_admin() {
            return Ok(Visible { granted: None, in_scope });
        }
        let (environments, registries) = (usable_ids(view, caller)?, usable_ids(view, caller)?);
        let others = RefCell::default();
        let granted = Some(Lists { view: *view, caller, environments, registries, others });
        Ok(Visible { granted, in_scope })
    }

    fn has(&self, environment: Id<Environment>, of: &[Id<Registry>], to: &[Id<Agent>]) -> bool {
        let is_in_scope = self.in_scope.as_ref().is_none_or(|all| all.contains(&environment));
        is_in_scope
            && self.granted.as_ref().is_none_or(|lists| {
                lists.has_environment(environment)
                    && of.iter().all(|registry| lists.has_registry(*registry))
                    && to.iter().all(|agent| lists.has_agent(*agent))
            })
    }

    /// Whether the caller may see what happens in an environment.
    pub fn has_environment(&self, environment: Id<Environment>) -> bool {
        self.has(environment, &[], &[])
    }

    /// Whether the caller may see a job.
    pub fn has_job(&self, job: &DeploymentJob) -> bool {
        self.has(job.environment, &job.registries, &job.agents)
    }

    /// Whether the caller may see a deployment.
    pub fn has_deployment(&self, deployment: &Deployment) -> bool {
        self.has(deployment.environment, &[deployment.registry], &[deployment.agent])
    }

    /// Whether the caller may see what is live of an agent in an environment.
    pub fn has_live(&self, live: &LiveDeployment) -> bool {
        self.has(live.environment, live.registry.as_slice(), &[live.agent])
    }
}

/// Checks that a caller may see what was deployed to `agents` in `environment` from `registries`.
///
/// # Errors
/// 403 without a grant; 404 for others than admins if one of them was deleted and was restricted.
pub fn require(
    view: &View,
    caller: &Caller,
    environment: Id<Environment>,
    registries: &[Id<Registry>],
    agents: &[Id<Agent>],
) -> Result<()> {
    match view.get::<Restricted<Environment>>(&environment)? {
        Some(environment) => drop(environment.open(view, caller)?),
        None => require_open(view, caller, environment, "environment")?,
    }
    for registry in registries {
        match registries::find_by_id(view, *registry)? {
            Some(registry) => drop(registry.open(view, caller)?),
            None => require_open(view, caller, *registry, "registry")?,
        }
    }
    for agent in agents {
        match view.get::<Restricted<Agent>>(agent)? {
            Some(agent) => drop(agent.open(view, caller)?),
            None => require_open(view, caller, *agent, "agent")?,
        }
    }
    Ok(())
}

/// Checks that a caller may see what belongs to something that was deleted.
fn require_open<T: ?Sized>(view: &View, caller: &Caller, id: Id<T>, kind: &str) -> Result<()> {
    if caller.is_admin() || !was_restricted(view, id)? { Ok(()) } else { Err(Error::no_such(kind)) }
}

/// Checks that a caller may see a deployment.
///
/// # Errors
/// As [`require`].
pub fn require_deployment(view: &View, caller: &Caller, deployment: &Deployment) -> Result<()> {
    let (registry, agent) = ([deployment.registry], [deployment.agent]);
    require(view, caller, deployment.environment, &registry, &agent)
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

/// Returns what a filter names, if there is one; `None` if nothing has that name, so that nothing is
/// listed.
pub fn filtered<T>(
    filter: Option<&String>,
    find: impl FnOnce(&str) -> Result<Option<T>>,
) -> Result<Option<Option<T>>> {
    Ok(match filter {
        None => Some(None),
        Some(name) => find(name)?.map(Some),
    })
}

/// Returns the environment that a filter names, as [`filtered`].
pub fn filtered_environment(
    view: &View,
    filter: Option<&String>,
) -> Result<Option<Option<Id<Environment>>>> {
    filtered(filter, |name| Ok(environments::find(view, name)?.map(|found| found.id())))
}

/// Returns the environment with this id or slug.
///
/// # Errors
/// 404 if there is none.
pub fn find_environment(view: &View, reference: &str) -> Result<Restricted<Environment>> {
    let missing = || Error::no_such("environment").at("environment");
    environments::find(view, reference)?.ok_or_else(missing)
}

// ── Who may still deploy ─────────────────────────────────────────────────────

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
    let target = push_target(view, job.environment, job.provider.as_ref())?;
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

// ── Keys for some environments ───────────────────────────────────────────────

/// The environment of the job in the first parameter of the path.
pub static JOB_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.first().map_or(Id::NIL, |param| Id::parse(param));
        let job = view.get::<DeploymentJob>(&id)?;
        job.map_or(Ok(None), |job| scope_of(view, job.environment))
    },
};

/// The environment of the deployment in the second parameter of the path.
pub static DEPLOYMENT_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.get(1).map_or(Id::NIL, |param| Id::parse(param));
        let deployment = view.get::<Deployment>(&id)?;
        deployment.map_or(Ok(None), |deployment| scope_of(view, deployment.environment))
    },
};

fn scope_of(view: &View, id: Id<Environment>) -> Result<Option<ScopeTarget>> {
    let found = view.get::<Restricted<Environment>>(&id)?;
    Ok(found.map(|found| environments::scope_target(found.without_caller())))
}
