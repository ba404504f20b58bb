//! Governance: what must be true of a text before it is published (contract §5).
//!
//! A [policy](policies) has [`rules`] and is [assigned](assignments) to registries. Whatever is
//! published in one of them is [examined](examine) first: a broken rule refuses it, or raises a
//! [flag](flags) that somebody clears later. A [judge] is a rule that asks a model.

mod assignments;
mod examination;
mod flags;
mod judge;
mod policies;
mod rules;

use std::collections::BTreeSet;

use super::registries::Registry;
use crate::api::Resource;
use crate::auth::{Access, Caller, ResourceType};
use crate::base::{Id, Result};
use crate::store::{Source, Tx, View};

pub use examination::{Subject, Verdict, examine, refuse, settle};
pub use judge::JUDGE_SECS;

/// Policies, their assignments, and flags.
pub const RESOURCE: Resource = Resource {
    children: &[
        &policies::RESOURCE,
        &assignments::RESOURCE,
        &examination::RESOURCE,
        &flags::RESOURCE,
    ],
    ..Resource::EMPTY
};

/// Removes the assignments to a registry that goes, and at most so many of its flags; says how many
/// flags. Where they are fewer than was allowed, nothing is left.
///
/// # Errors
/// If the store fails.
pub fn forget_registry(tx: &mut Tx, registry: Id<Registry>, at_most: usize) -> Result<usize> {
    assignments::forget_registry(tx, registry)?;
    flags::forget_registry(tx, registry, at_most)
}

/// The registries that a caller may hear of: not restricted ones without a grant (contract §1, "Who
/// may do what"), nor any that is gone though its flags may not all be yet. There are at most 1,000
/// in all.
fn shown(view: &View, caller: &Caller) -> Result<BTreeSet<Id<Registry>>> {
    let granted = caller.granted(view, ResourceType::Registry)?;
    let is_shown = |registry: &Registry| {
        registry.access != Access::Restricted
            || registry.is_public()
            || caller.is_admin()
            || granted.contains(&registry.id.cast())
    };
    let all = view.all(Source::<Registry>::TABLE, &())?;
    Ok(all.into_iter().filter(is_shown).map(|registry| registry.id).collect())
}

#[cfg(test)]
mod tests;
