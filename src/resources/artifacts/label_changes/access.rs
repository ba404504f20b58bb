//! The change that a request names: those who may use its registry see it.

use super::super::label_change::LabelChange;
use crate::api::TargetFinder;
use crate::auth::{Caller, ScopeTarget};
use crate::base::{Id, Result};
use crate::resources::registries::{self, Registry};
use crate::store::{Record as _, View};

/// Returns a change with its registry, which the caller may use.
///
/// # Errors
/// 404, then 403.
pub fn fetch(view: &View, caller: &Caller, id: Id<LabelChange>) -> Result<(LabelChange, Registry)> {
    let change: LabelChange = view.fetch(&id)?;
    // A sweep removes it after its registry.
    let registry = registries::find_by_id(view, change.of.registry)?;
    let registry = registry.ok_or_else(|| LabelChange::missing(&id))?.open(view, caller)?;
    Ok((change, registry))
}

/// The label and the registry of the change in the first parameter of the path.
pub static CHANGE_IN_PATH: TargetFinder = TargetFinder {
    arguments: &[],
    find: |view, hint| {
        let id = hint.params.first().map_or(Id::NIL, |param| Id::parse(param));
        let Some(change) = view.get::<LabelChange>(&id)? else { return Ok(None) };
        let registry = registries::find_by_id(view, change.of.registry)?;
        Ok(registry.map(|registry| ScopeTarget {
            label: Some(change.label.into_string()),
            ..registries::scope_target(registry.without_caller())
        }))
    },
};
