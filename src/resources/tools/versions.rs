//! Versions of a tool: its last state under each version number. The row of the current version
//! changes with the tool unless an environment refers to it or a deployment has it; earlier rows never
//! change.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::tool::{Tool, ToolKind};
use crate::api::{Output, Req, ResourceRef};
use crate::auth::User;
use crate::base::{
    Description, Error, Id, JsonMap, Name, Prompt, Result, Time, Version, VersionMessage,
};
use crate::resources::environments;
use crate::store::{
    AnyReference, Export, Key, ListSource, Order, Page, Record, Reference, Tx, View,
    upgrade_shorter,
};

/// A tool has at most 10,000 versions: more than one a day for 27 years.
const MAX_VERSIONS: usize = 10_000;

crate::base::portable! {
/// The last state of a tool under a version.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolVersion {
    #[serde(skip)]
    tool: Id<Tool>,
    /// The version, three numbers.
    pub version: Version,
    /// The tool's name.
    pub name: Name,
    /// Its description.
    pub description: Option<Description>,
    /// Its prompt.
    pub prompt: Option<Prompt>,
    /// Its type.
    #[serde(rename = "type")]
    pub kind: ToolKind,
    /// Its configuration, by provider.
    pub provider_config: JsonMap,
    /// The user who set this version.
    pub created_by: Id<User>,
    /// When the version was set.
    pub created_at: Time,
    /// The user who last changed what it is; null if an earlier release wrote it.
    pub updated_by: Option<Id<User>>,
    /// When that was; null if an earlier release wrote it.
    pub updated_at: Option<Time>,
    /// What changed and why, as who set this version says.
    pub message: Option<VersionMessage>,
}
}

impl Output for ToolVersion {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

static TOOL: Reference<ToolVersion, Tool> = Reference::cascade(
    &["tool"],
    |tool: &Tool| tool.id.to_bytes(),
    |version: &ToolVersion, _| vec![version.tool.to_bytes()],
)
.deferred();

impl Record for ToolVersion {
    const TABLE: &'static str = "tool_versions";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TOOL];
    const VERSION: u8 = 2;
    // By its numbers, so that versions are sorted.
    type Key = (Id<Tool>, u64, u64, u64);
    fn key(&self) -> Self::Key {
        key(self.tool, &self.version)
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

fn key(tool: Id<Tool>, version: &Version) -> (Id<Tool>, u64, u64, u64) {
    let [major, minor, patch] = version.numbers();
    (tool, major, minor, patch)
}

/// Returns the last state of `tool` under this version, if it ever had it.
pub fn version(view: &View, tool: Id<Tool>, version: &Version) -> Result<Option<ToolVersion>> {
    view.get(&key(tool, version))
}

/// Whether a version of a tool is or was part of a deployment. Deployments, which this layer does not
/// know, answer it.
pub type IsDeployed = fn(&View, Id<Tool>, &Version) -> Result<bool>;

/// Stores the state of `tool` under its current version; `by` is recorded as its creator, with the
/// message, if the version is new. All that is stored of versions goes through here.
///
/// # Errors
/// 409 if the tool has [`MAX_VERSIONS`] versions, or if what the version stands for would change
/// though an environment or a deployment relies on it.
pub fn store(
    tx: &mut Tx,
    tool: &Tool,
    (by, message): (Id<User>, Option<VersionMessage>),
    is_deployed: IsDeployed,
) -> Result<()> {
    let new = ToolVersion {
        tool: tool.id,
        version: tool.version.clone(),
        name: tool.name.clone(),
        description: tool.description.clone(),
        prompt: tool.prompt.clone(),
        kind: tool.kind.clone(),
        provider_config: tool.provider_config.clone(),
        created_by: by,
        created_at: tx.now(),
        updated_by: Some(by),
        updated_at: Some(tx.now()),
        message,
    };
    let Some(known) = version(&tx.view(), tool.id, &tool.version)? else {
        check_count_limit(&tx.view(), tool.id)?;
        return tx.insert(&new);
    };
    if known.content()? != new.content()? {
        check_unused(&tx.view(), &known, is_deployed)?;
    }
    let ToolVersion { created_by, created_at, message, .. } = known;
    tx.put(&ToolVersion { created_by, created_at, message, ..new })
}

impl ToolVersion {
    /// What a manifest takes from it, as text: also another order of the fields is another content.
    fn content(&self) -> Result<String> {
        serde_json::to_string(&(&self.name, &self.kind, &self.prompt, &self.provider_config))
            .map_err(|e| Error::internal(format!("a version of a tool cannot be written: {e}")))
    }
}

/// Refuses to change what a version stands for once somebody relies on it: what was approved under its
/// number must be what runs.
fn check_unused(view: &View, known: &ToolVersion, is_deployed: IsDeployed) -> Result<()> {
    let numbers = known.version.numbers();
    let mut references = environments::references_to(view, known.tool.cast())?.into_iter();
    let by = if references.any(|(_, version)| version.numbers() == numbers) {
        "environments use"
    } else if is_deployed(view, known.tool, &known.version)? {
        "deployments have"
    } else {
        return Ok(());
    };
    Err(Error::conflict(
        "tool_version_in_use",
        format!(
            "{by} version {} of the tool, so that its name, type, prompt and providerConfig do not \
             change any more; send bumpVersion with the change to make a new version",
            known.version
        ),
    ))
}

fn check_count_limit(view: &View, tool: Id<Tool>) -> Result<()> {
    let all = view.count(ListSource::<ToolVersion>::TABLE, &tool, MAX_VERSIONS)?;
    if all < MAX_VERSIONS {
        return Ok(());
    }
    Err(Error::conflict("tool_versions_full", "a tool has at most 10,000 versions"))
}

/// Lists a tool's versions, highest first.
pub fn list(view: &View, req: &Req<Id<Tool>>) -> Result<Page<ToolVersion>> {
    let tool: Tool = view.fetch(&req.params)?;
    view.page(ListSource::TABLE, &tool.id, Order::Descending, &req.page, |_| true)
}
