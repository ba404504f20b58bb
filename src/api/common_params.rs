//! Parameters that many routes have in common: the organization, the page of a list, the time to
//! wait. The OpenAPI document is made of these types too.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use schemars::JsonSchema;
use serde::Deserialize;

use super::read::Input;
use crate::base::Int;

/// Names the organization of the request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OrgRequired {
    /// The slug of the organization that the request is about.
    pub org_slug: String,
}
impl Input for OrgRequired {}

/// Optionally names the organization of the request.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(inline)]
pub struct OrgOptional {
    /// The slug of the organization that the request is about; needed only where nothing else in
    /// the request determines it.
    pub org_slug: Option<String>,
}
impl Input for OrgOptional {}

/// The page size of a list (reference: conventions, "Lists").
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct LimitQuery {
    /// Maximum number of items in the page.
    #[schemars(extend("default" = DEFAULT_LIMIT))]
    pub limit: Option<Int<1, 200>>,
}
impl Input for LimitQuery {}
/// The page size of requests that do not give one.
pub const DEFAULT_LIMIT: i64 = 50;

/// The position of a page in its list.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct CursorQuery {
    /// The `nextCursor` of the previous page; absent or empty for the first one.
    pub cursor: Option<String>,
}
impl Input for CursorQuery {}

/// How a list is walked through.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct ReversedQuery {
    /// True: in the opposite order, so that what comes last otherwise comes first.
    pub reversed: Option<bool>,
}
impl Input for ReversedQuery {}

/// Whether a list is counted.
#[derive(Clone, Copy, Default, Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct TotalQuery {
    /// True: says in `total` how many items the list has, with these filters, to a bound.
    pub total: Option<bool>,
}
impl Input for TotalQuery {}

/// No request waits longer, whatever it asks for: proxies give up after 60 seconds.
pub const MAX_WAIT_SECS: u64 = 55;

/// The time to wait.
#[derive(Deserialize, JsonSchema)]
#[schemars(inline)]
pub struct WaitQuery {
    /// Maximum time to wait, in seconds, while there is nothing to return. More than 55 counts as 55:
    /// proxies give up after 60 seconds.
    #[schemars(extend("default" = 0))]
    pub wait: Option<Int<0, 60>>,
}
impl Input for WaitQuery {}

/// Returns the cursor for a position, signed for its list.
pub fn cursor(list: &[u8; 32], position: &[u8]) -> String {
    BASE64.encode([&cursor_tag(list, position), position].concat())
}

/// Returns the position in a cursor, if the cursor is of this list.
pub fn read_cursor(list: &[u8; 32], cursor: &str) -> Option<Vec<u8>> {
    let bytes = BASE64.decode(cursor).ok()?;
    let (tag, position) = bytes.split_first_chunk()?;
    (cursor_tag(list, position) == *tag).then(|| position.to_vec())
}

fn cursor_tag(list: &[u8; 32], position: &[u8]) -> [u8; 8] {
    let hash = blake3::keyed_hash(list, position);
    *hash.as_bytes().first_chunk().expect("a hash has 32 bytes")
}
