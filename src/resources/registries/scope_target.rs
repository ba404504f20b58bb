//! The registry that a request names, for keys whose scopes are narrowed to some.

use super::registry::{Registry, find};
use crate::api::TargetFinder;
use crate::auth::ScopeTarget;
use crate::base::Result;
use crate::store::View;

/// The registry in `registryRef`.
pub static NAMED_REGISTRY: TargetFinder = TargetFinder {
    arguments: &["registryRef"],
    find: |view, hint| registry_target(view, hint.target("registryRef")),
};

/// The registry in the first parameter of the path.
pub static REGISTRY_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| registry_target(view, hint.params.first().map(String::as_str)),
};

/// Returns the registry that a request names by this reference.
pub fn registry_target(view: &View, reference: Option<&str>) -> Result<Option<ScopeTarget>> {
    let Some(reference) = reference else { return Ok(None) };
    let found = find(view, reference)?;
    Ok(found.map(|registry| target(registry.without_caller())))
}

/// The registry, as the target of a scope.
pub fn target(registry: &Registry) -> ScopeTarget {
    ScopeTarget::named(&registry.slug)
}
