//! The environment that a request names, for keys whose scopes are narrowed to some.

use std::collections::BTreeSet;

use super::environment::{Environment, find};
use crate::api::TargetFinder;
use crate::auth::{Caller, Restricted, ScopeName, ScopeTarget};
use crate::base::{Id, Result};
use crate::store::{ListSource, View};

/// The environment in the first parameter of the path.
pub static ENVIRONMENT_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| named(view, hint.params.first().map(String::as_str)),
};

/// The environment in `environment`.
pub static NAMED_ENVIRONMENT: TargetFinder = TargetFinder {
    arguments: &["environment"],
    find: |view, hint| named(view, hint.target("environment")),
};

fn named(view: &View, reference: Option<&str>) -> Result<Option<ScopeTarget>> {
    let Some(reference) = reference else { return Ok(None) };
    Ok(find(view, reference)?.map(|environment| target(environment.without_caller())))
}

/// The environment, as the target of a scope.
pub fn target(environment: &Environment) -> ScopeTarget {
    ScopeTarget::named(&environment.slug)
}

/// Returns the environments for which the caller's key has the scope; `None` if for all.
pub fn in_scope(
    view: &View,
    caller: &Caller,
    name: ScopeName,
) -> Result<Option<BTreeSet<Id<Environment>>>> {
    if caller.covers(name, None) {
        return Ok(None);
    }
    let all: Vec<Restricted<Environment>> = view.all(ListSource::TABLE, &())?;
    let all = all.iter().map(Restricted::without_caller);
    let covered = all.filter(|one| caller.covers(name, Some(&target(one))));
    Ok(Some(covered.map(|one| one.id).collect()))
}

/// Opens an environment for a change of what is live or used there: all that a deployment to it needs
/// of the caller.
///
/// # Errors
/// 403 without a grant, or without the scope of the key.
pub fn open_to_deploy(
    view: &View,
    caller: &Caller,
    environment: Restricted<Environment>,
) -> Result<Environment> {
    let environment = environment.open(view, caller)?;
    caller.require_scope(ScopeName::DeploymentCreate, Some(&target(&environment)))?;
    Ok(environment)
}
