//! `/.well-known/nostr.json`: the public keys of verified handles on the domain that is asked for
//! (NIP-05).

use serde_json::json;

use super::public::verified_handle;
use crate::api::{PublicDocument, PublicRequest};
use crate::base::{Domain, Result};
use crate::store::View;

/// The document of one name. Without a name it has none: names are not for collecting.
pub const NOSTR_JSON: PublicDocument =
    PublicDocument { path: "/.well-known/nostr.json", read: names };

fn names(view: &View, request: &PublicRequest) -> Result<Vec<u8>> {
    let mut names = serde_json::Map::new();
    if let Some(name) = request.parameter("name")
        && let Ok(domain) = Domain::parse(request.host)
        && let Some(found) = verified_handle(view, &domain, &name)?
    {
        names.insert(found.name, found.pubkey.as_str().into());
    }
    Ok(json!({ "names": names }).to_string().into())
}
