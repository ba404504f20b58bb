//! Who may see deployments: those who may use the environment, the agents and the registries of the
//! prompts. A public registry, too, is used by those with a grant: what anybody reads are its
//! prompts.
//!
//! Of what was deleted, admins alone see what was restricted until then.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use super::job::DeploymentJob;
use super::live::{Deployment, LiveDeployment};
use crate::auth::{
    Caller, Granted, Restrictable, Restricted, ScopeName, hidden_ids, restricted_deleted_since,
    usable_ids, was_restricted,
};
use crate::base::{Error, Id, Result, Time};
use crate::resources::agents::{Agent, Fleet, NAMES_BY_FLEET};
use crate::resources::environments::{self, Environment};
use crate::resources::registries::{self, Registry};
use crate::store::{ListSource, Order, Record, View};

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

/// What is hidden from a caller, for counts.
#[derive(Default)]
pub struct Hidden {
    /// Environments, also deleted ones.
    pub environments: BTreeSet<Id<Environment>>,
    /// Registries and agents, also deleted ones.
    pub subjects: BTreeSet<Id<Granted>>,
}

impl Hidden {
    /// Returns what is hidden from a caller: nothing from an admin. What was deleted before `since` is
    /// left out.
    pub fn from(view: &View, caller: &Caller, since: Time) -> Result<Self> {
        let mut hidden = Hidden::default();
        if caller.is_admin() {
            return Ok(hidden);
        }
        hidden.environments = invisible(view, caller)?;
        let registries: BTreeSet<Id<Registry>> = invisible(view, caller)?;
        hidden.subjects.extend(registries.into_iter().map(Id::cast));
        for fleet in hidden_ids::<Fleet>(view, caller)? {
            let fleet: Id<Fleet> = fleet.cast();
            let end = fleet.successor();
            view.entries(&NAMES_BY_FLEET, &fleet, &end, Order::Ascending, |_, agent| {
                hidden.subjects.insert(agent.cast());
                Ok(std::ops::ControlFlow::Continue(()))
            })?;
        }
        for deleted in restricted_deleted_since(view, since)? {
            hidden.environments.insert(deleted.cast());
            hidden.subjects.insert(deleted);
        }
        Ok(hidden)
    }
}

/// Returns the ids of the resources of a type that are not visible to a caller.
fn invisible<T: Restrictable>(view: &View, caller: &Caller) -> Result<BTreeSet<Id<T>>>
where
    Restricted<T>: Record,
{
    let visible = usable_ids::<T>(view, caller)?;
    let all: Vec<Restricted<T>> = view.all(ListSource::TABLE, &())?;
    let ids = all.iter().map(Restricted::id);
    Ok(ids.filter(|id| !visible.contains(id)).collect())
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
