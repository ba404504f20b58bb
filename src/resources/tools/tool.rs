//! The record of a tool.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::Serialize;

use crate::api::{Output, ResourceRef};
use crate::auth::User;
use crate::base::{Description, Id, JsonMap, Name, Prompt, Result, Tag, Text, Time, Version};
use crate::resources::environments::{self, ToolReference};
use crate::resources::tags;
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Record, Reference, codec, no_upgrade,
};

crate::base::portable! {
/// A tool that agents may call.
#[derive(Clone, Debug, PartialEq, Encode, Decode, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    pub id: Id<Tool>,
    pub name: Name,
    pub description: Option<Description>,
    /// Instructions for agents that use it.
    pub prompt: Option<Prompt>,
    /// Any word; `GET /tools/types` lists the known ones.
    #[serde(rename = "type")]
    pub kind: ToolKind,
    /// The tool's definition per provider, stored as sent.
    pub provider_config: JsonMap,
    /// Its current version.
    pub version: Version,
    /// The user who created it, also through a key.
    pub created_by: Id<User>,
    pub created_at: Time,
    /// The user who last changed it, also through a key; null if an earlier release wrote it.
    pub updated_by: Option<Id<User>>,
    /// When any field last changed.
    pub updated_at: Time,
    pub tags: Vec<Tag>,
}
}

/// A tool as stored in version 1, without who changed it. Its fields never change.
#[derive(Encode, Decode)]
struct ToolV1 {
    id: Id<Tool>,
    name: Name,
    description: Option<Description>,
    prompt: Option<Prompt>,
    kind: ToolKind,
    provider_config: JsonMap,
    version: Version,
    created_by: Id<User>,
    created_at: Time,
    updated_at: Time,
}

impl From<ToolV1> for Tool {
    fn from(old: ToolV1) -> Self {
        let ToolV1 { id, name, description, prompt, kind, provider_config, version, .. } = old;
        let ToolV1 { created_by, created_at, updated_at, .. } = old;
        Tool {
            id,
            name,
            description,
            prompt,
            kind,
            provider_config,
            version,
            created_by,
            created_at,
            updated_by: None,
            updated_at,
            tags: Vec::new(),
        }
    }
}

impl Output for Tool {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

/// Tools by type.
pub static BY_KIND: Index<Tool, ToolKind> =
    Index::non_unique("tools.by_type", |tool| Some(tool.kind.clone()));

/// Tools by each of their tags, folded.
pub static BY_TAG: Index<Tool, String> =
    Index::of_several("tools.by_tag", |tool| tags::keys(&tool.tags));

/// Declared here because environments know only the tool's id. At most one row per environment.
static IN_USE: Reference<ToolReference, Tool> = Reference::cascade(
    &["tool"],
    |tool: &Tool| tool.id.to_bytes(),
    |in_use: &ToolReference, _| vec![in_use.tool.to_bytes()],
)
.by(&environments::BY_TOOL);

impl Record for Tool {
    const TABLE: &'static str = "tools";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_KIND, &BY_TAG];
    const REFERRED_BY: &'static [&'static dyn AnyReference] = &[&IN_USE];
    const VERSION: u8 = 3;
    type Key = Id<Tool>;
    fn key(&self) -> Self::Key {
        self.id
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        match version {
            1 => Ok(codec::decode_body::<ToolV1>(body)?.into()),
            2 => codec::decode_shorter(body),
            _ => Err(no_upgrade::<Self>(version)),
        }
    }
}

/// The type of a tool.
pub type ToolKind = Text<1, 64>;
