//! What requests have beside what their routes take: the organization, the part of a list, the
//! seconds to wait. The document is made of these types too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use schemars::JsonSchema;
use serde::Deserialize;

use super::read::Input;
use crate::base::Int;

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

/// How much of a list is wanted (reference: conventions, "Lists").
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LimitQuery {
    /// How many items at most.
    #[schemars(extend("default" = DEFAULT_LIMIT))]
    pub limit: Option<Int<1, 200>>,
}
impl Input for LimitQuery {}
/// The items of a part where the caller does not say how many.
pub const DEFAULT_LIMIT: i64 = 50;

/// Where in a list the wanted part begins.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CursorQuery {
    /// The `nextCursor` of the part before.
    pub cursor: Option<String>,
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

/// A position, signed for its list.
pub fn cursor(list: &[u8; 32], position: &[u8]) -> String {
    BASE64.encode([&cursor_tag(list, position), position].concat())
}

/// The position in a cursor, if it is one of this list.
pub fn read_cursor(list: &[u8; 32], cursor: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(cursor).ok()?;
    let (tag, position) = bytes.split_first_chunk()?;
    (cursor_tag(list, position) == *tag).then(|| position.to_vec())
}

fn cursor_tag(list: &[u8; 32], position: &[u8]) -> [u8; 8] {
    let hash = blake3::keyed_hash(list, position);
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}
