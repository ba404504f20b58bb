//! Versions of a tool: its last state under each version number. The row of the current version
//! changes with the tool; earlier rows never change.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use super::tool::{Tool, ToolKind};
use crate::api::{Output, Req, ResourceRef};
use crate::auth::User;
use crate::base::{Description, Error, Id, JsonMap, Name, Prompt, Result, Time, Version};
use crate::store::{
    AnyReference, Export, Key, ListSource, Order, Page, Record, Reference, Tx, View,
};

/// A tool has at most 10,000 versions: more than one a day for 27 years.
const MAX_VERSIONS: usize = 10_000;

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
}
crate::base::portable!(ToolVersion {
    tool,
    version,
    name,
    description,
    prompt,
    kind,
    provider_config,
    created_by,
    created_at,
});

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
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("created_by", "history: who made it may have left")];
    // By its numbers, so that versions are sorted.
    type Key = (Id<Tool>, u64, u64, u64);
    fn key(&self) -> Self::Key {
        key(self.tool, &self.version)
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

/// Stores the state of `tool` under its current version; `by` is recorded as its creator if the
/// version is new.
///
/// # Errors
/// 409 if the tool has [`MAX_VERSIONS`] versions.
pub fn store(tx: &mut Tx, tool: &Tool, by: Id<User>) -> Result<()> {
    let known = version(&tx.view(), tool.id, &tool.version)?;
    let (created_by, created_at) = match known {
        Some(known) => (known.created_by, known.created_at),
        None => {
            check_count_limit(&tx.view(), tool.id)?;
            (by, tx.now())
        }
    };
    tx.put(&ToolVersion {
        tool: tool.id,
        version: tool.version.clone(),
        name: tool.name.clone(),
        description: tool.description.clone(),
        prompt: tool.prompt.clone(),
        kind: tool.kind.clone(),
        provider_config: tool.provider_config.clone(),
        created_by,
        created_at,
    })
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
