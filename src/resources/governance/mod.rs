//! Governance: what must be true of a text before it is published
//! (reference: registries-and-templates, "Policies").
//!
//! A [policy](policies) has [`rules`] and is [assigned](assignments) to registries. Whatever is
//! published in one of them is [examined](evaluate) first: a broken rule refuses it, or raises a
//! [flag](flags) that somebody clears later. A [judge] is a rule that asks a model.

mod assignments;
mod examination;
mod flags;
mod judge;
mod policies;
mod provider_uses;
mod rules;

use std::collections::BTreeSet;

use super::registries::Registry;
use crate::api::Resource;
use crate::auth::{Caller, visible_ids};
use crate::base::{Id, Result};
use crate::store::{TableInfo, View};

pub use examination::{Subject, Verdict, evaluate, refuse, settle};
pub use judge::JUDGE_SECS;
use provider_uses::ProviderReference;

/// Policies, their assignments, and flags.
pub const RESOURCE: Resource = Resource {
    tables: &[TableInfo::of::<ProviderReference>()],
    children: &[
        &policies::RESOURCE,
        &assignments::RESOURCE,
        &examination::RESOURCE,
        &flags::RESOURCE,
    ],
    ..Resource::EMPTY
};

/// The registries that a caller may hear of: not restricted ones without a grant
/// (reference: identity-and-rights, "Restricted resources"), nor any that is gone though its flags
/// may not all be yet. There are at most 1,000 in all.
fn shown(view: &View, caller: &Caller) -> Result<BTreeSet<Id<Registry>>> {
    visible_ids(view, caller)
}

#[cfg(test)]
mod tests;
