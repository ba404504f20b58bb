//! The versions of the tools used in an environment: `toolVersions` of its representation.
//!
//! References change with updates and deployments of tools
//! (reference: agents, "Versions of tools"); no route writes them directly.

use bincode::{Decode, Encode};

use super::environment::{Environment, mark_updated};
use crate::auth::{Restricted, User};
use crate::base::{Error, Id, Result, StringMap, Version};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Record, Reference, Tx, View,
};

/// An environment refers to at most 1,000 tools: its representation contains all references.
const MAX_REFERENCES: usize = 1000;

/// The type of `tools::Tool` in ids of this layer.
pub enum ToolId {}

crate::base::portable! {
/// The use of a tool in an environment.
#[derive(Clone, Debug, Encode, Decode)]
pub struct ToolReference {
    environment: Id<Environment>,
    pub tool: Id<ToolId>,
    version: Version,
}
}

/// References by tool.
pub static BY_TOOL: Index<ToolReference, Id<ToolId>> =
    Index::non_unique("environment_tools.by_tool", |reference| Some(reference.tool));

static ENVIRONMENT: Reference<ToolReference, Restricted<Environment>> = Reference::cascade(
    &["environment"],
    |environment: &Restricted<Environment>| environment.id().to_bytes(),
    |in_use: &ToolReference, _| vec![in_use.environment.to_bytes()],
);

impl Record for ToolReference {
    const TABLE: &'static str = "environment_tools";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_TOOL];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&ENVIRONMENT];
    type Key = (Id<Environment>, Id<ToolId>);
    fn key(&self) -> Self::Key {
        (self.environment, self.tool)
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        // The representation of the environment has changed, unless it was deleted itself.
        if tx.view().has::<Restricted<Environment>>(&self.environment)? {
            mark_updated(tx, self.environment, None)?;
        }
        Ok(())
    }
}

/// Returns the versions of the tools used in an environment, by tool id.
pub(super) fn tool_versions(view: &View, environment: Id<Environment>) -> Result<StringMap> {
    let references = view.all(ListSource::<ToolReference>::TABLE, &environment)?;
    let pair =
        |reference: ToolReference| (reference.tool.to_string(), reference.version.into_string());
    Ok(references.into_iter().map(pair).collect())
}

/// Returns the version of `tool` used in `environment`, if it refers to one.
pub fn tool_version(
    view: &View,
    environment: Id<Environment>,
    tool: Id<ToolId>,
) -> Result<Option<Version>> {
    Ok(view.get::<ToolReference>(&(environment, tool))?.map(|reference| reference.version))
}

/// Returns the environments that refer to `tool`, each with the version.
pub fn references_to(view: &View, tool: Id<ToolId>) -> Result<Vec<(Id<Environment>, Version)>> {
    let references: Vec<ToolReference> = view.all(&BY_TOOL, &tool)?;
    Ok(references.into_iter().map(|one| (one.environment, one.version)).collect())
}

/// Sets the version of `tool` used in `environment`, on behalf of `by`.
///
/// # Errors
/// 409 if the environment has reached its limit of tools.
pub fn add_tool_reference(
    tx: &mut Tx,
    environment: Id<Environment>,
    (tool, version): (Id<ToolId>, &Version),
    by: Id<User>,
) -> Result<()> {
    match tx.get::<ToolReference>(&(environment, tool))? {
        Some(reference) if reference.version == *version => return Ok(()),
        Some(_) => {}
        None => check_count_limit(&tx.view(), environment)?,
    }
    tx.put(&ToolReference { environment, tool, version: version.clone() })?;
    mark_updated(tx, environment, Some(by))
}

fn check_count_limit(view: &View, environment: Id<Environment>) -> Result<()> {
    let all = view.count(ListSource::<ToolReference>::TABLE, &environment, MAX_REFERENCES)?;
    if all < MAX_REFERENCES {
        return Ok(());
    }
    Err(Error::conflict("tool_references_full", "an environment refers to at most 1,000 tools"))
}
