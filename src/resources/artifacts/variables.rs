//! The published versions that use a variable, from the stored references.
//!
//! A version uses the variables of its compiled texts: a variable of a promptlet counts for the
//! promptlet and for everything that imports it (reference: registries-and-templates,
//! "Variable usage").

use std::ops::ControlFlow;

use super::artifact::Artifact;
use crate::base::{Result, VariableName};
use crate::store::{ListSource, Order, View};

pub use super::version::VariableReference;

/// Calls `each` for every version that uses a variable, ordered by registry, type, name and version,
/// all descending, so that the highest version of an artifact comes first.
///
/// # Errors
/// If the store or `each` fails.
pub fn scan_versions_using(
    view: &View,
    variable: &VariableName,
    each: impl FnMut(VariableReference) -> Result<ControlFlow<()>>,
) -> Result<()> {
    view.for_each(ListSource::<VariableReference>::TABLE, variable, Order::Descending, each)
}

/// Returns whether a version is the latest of its artifact.
pub fn is_latest(view: &View, reference: &VariableReference) -> Result<bool> {
    let artifact = view.get::<Artifact>(&reference.of)?;
    let latest = artifact.map(|artifact| artifact.latest_version.numbers());
    Ok(latest == Some(reference.version.numbers()))
}
