//! What requests have beside what their routes take: the organization, the part of a list, the
//! seconds to wait. The document is made of these types too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use schemars::JsonSchema;
use serde::Deserialize;

use super::read::Input;
use super::request::Raw;
use crate::base::{Error, Int, Result};
use crate::store::Part;

/// Says which organization the request is about.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OrgRequired {
    /// The organization that the request is about.
    pub org_slug: String,
}
impl Input for OrgRequired {}

/// May say which organization the request is about.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OrgOptional {
    /// The organization that the request is about, where what it names does not tell.
    pub org_slug: Option<String>,
}
impl Input for OrgOptional {}

/// May name a registry, and by it the organization that the request is about.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct RegistryOptional {
    /// `<orgSlug>/<registrySlug>`, the registry's id, or, under an API key, its slug.
    pub registry_ref: Option<String>,
}
impl Input for RegistryOptional {}

/// How much of a list is wanted (contract §1, "A list").
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LimitQuery {
    /// How many items at most.
    #[schemars(extend("default" = DEFAULT_LIMIT))]
    pub limit: Option<Int<1, 200>>,
}
impl Input for LimitQuery {}
const DEFAULT_LIMIT: i64 = 50;

/// Where in a list the wanted part begins.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CursorQuery {
    /// The `nextCursor` of the part before.
    cursor: Option<String>,
}
impl Input for CursorQuery {}

/// How long to wait.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitQuery {
    /// The seconds to wait for something when there is nothing yet.
    #[schemars(extend("default" = 0))]
    pub wait: Option<Int<0, 60>>,
}
impl Input for WaitQuery {}

/// What some kinds of routes read beside their input.
pub struct Extra {
    /// The part of a list.
    pub part: Part,
    /// The key that the cursors of this list are signed with.
    pub list: [u8; 32],
    /// How long to wait, in seconds.
    pub wait_secs: u64,
}

impl Extra {
    /// For what reads nothing beside its input.
    pub fn none() -> Self {
        let part = Part { limit: DEFAULT_LIMIT as usize, after: None };
        Extra { part, list: [0; 32], wait_secs: 0 }
    }

    /// Takes the limit that was sent, or the usual one.
    pub fn set_limit(&mut self, limit: Option<Int<1, 200>>) {
        self.part.limit = limit.map_or(DEFAULT_LIMIT, Int::get) as usize;
    }

    /// Takes the cursor that was sent.
    ///
    /// # Errors
    /// 400 if it is not one of this list's.
    pub fn set_cursor(&mut self, raw: &Raw, CursorQuery { cursor }: CursorQuery) -> Result<()> {
        self.list = raw.list;
        if let Some(cursor) = cursor {
            let wrong = || Error::invalid_at("cursor", "is not a cursor of this list");
            self.part.after = Some(read_cursor(&raw.list, &cursor).ok_or_else(wrong)?);
        }
        Ok(())
    }
}

/// A position, signed for its list.
pub fn cursor(list: &[u8; 32], position: &[u8]) -> String {
    BASE64.encode([&cursor_tag(list, position), position].concat())
}

fn read_cursor(list: &[u8; 32], cursor: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(cursor).ok()?;
    let (tag, position) = bytes.split_first_chunk()?;
    (cursor_tag(list, position) == *tag).then(|| position.to_vec())
}

fn cursor_tag(list: &[u8; 32], position: &[u8]) -> [u8; 8] {
    let hash = blake3::keyed_hash(list, position);
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}
