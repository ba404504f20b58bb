//! Which published versions mention a variable, so that nobody has to look for it.
//!
//! A version mentions what its compiled texts do: what a promptlet brings in counts for the
//! promptlet and for whatever imports it (reference: registries-and-templates, "Variable usage").

use bincode::{Decode, Encode};
use std::ops::ControlFlow;

use super::artifact::Artifact;
use super::versions::{Numbers, numbers};
use super::{ArtifactId, VersionRecord};
use crate::base::{Result, VariableName, Version};
use crate::store::{Order, Record, Source, Tx, View};

/// That a version mentions a variable, in the text for some model.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VariableReference {
    /// The variable.
    pub variable: VariableName,
    /// The artifact.
    pub of: ArtifactId,
    /// The version.
    pub version: Version,
}

impl Record for VariableReference {
    const TABLE: &'static str = "artifact_variables";
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("of.registry", "derived from the version's text: written and removed with it")];
    type Key = (VariableName, ArtifactId, Numbers);
    fn key(&self) -> Self::Key {
        (self.variable.clone(), self.of.clone(), numbers(&self.version))
    }
}

/// What `row` mentions.
pub(super) fn uses(row: &VersionRecord) -> impl Iterator<Item = VariableReference> {
    row.variables.iter().map(|variable| VariableReference {
        // Compiling refuses what can be no variable's name.
        variable: VariableName::stored(variable.clone()),
        of: row.of.clone(),
        version: row.version.clone(),
    })
}

/// Notes what `row`, which is being published, mentions.
pub(super) fn add(tx: &mut Tx, row: &VersionRecord) -> Result<()> {
    uses(row).try_for_each(|used| tx.put(&used))
}

/// Takes away what is noted of `row`, which is being deleted with all of its version.
pub(super) fn forget(tx: &mut Tx, row: &VersionRecord) -> Result<()> {
    for used in uses(row) {
        if let Some(used) = tx.get::<VariableReference>(&used.key())? {
            tx.remove(&used)?;
        }
    }
    Ok(())
}

/// The versions that mention a variable, by registry, type, name and version; of each artifact the
/// highest first.
///
/// # Errors
/// If the store, or `each`, fails.
pub fn each_use(
    view: &View,
    variable: &VariableName,
    each: impl FnMut(VariableReference) -> Result<ControlFlow<()>>,
) -> Result<()> {
    view.each(Source::<VariableReference>::TABLE, variable, Order::Descending, each)
}

/// Whether a version is its artifact's newest.
///
/// # Errors
/// If the store fails.
pub fn is_latest(view: &View, used: &VariableReference) -> Result<bool> {
    let artifact = view.get::<Artifact>(&used.of)?;
    Ok(artifact.is_some_and(|artifact| artifact.latest_version.numbers() == used.version.numbers()))
}
