//! Revisions of the protocol: which one a request speaks, and whether its headers say so.
//!
//! The newest revision has no handshake: each request carries its version in `_meta` and in headers,
//! which must agree. The older ones begin with `initialize` and repeat the version in a header; the
//! oldest does not, so a request without any version is of it.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hyper::header::{HeaderMap, HeaderName};
use serde_json::{Value, json};

use super::era::Era;
use super::failure::{Failure, HEADER_MISMATCH, INVALID_PARAMS, UNSUPPORTED_VERSION};
use super::message::Message;

/// The revision without a handshake.
pub const MODERN: &str = "2026-07-28";

/// The revisions that begin with a handshake, newest first.
const LEGACY: [&str; 3] = ["2025-11-25", "2025-06-18", OLDEST];

/// The revision whose clients send no header with their version.
const OLDEST: &str = "2025-03-26";

const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
const METHOD: HeaderName = HeaderName::from_static("mcp-method");
const NAME: HeaderName = HeaderName::from_static("mcp-name");

/// Where a request says its version.
const VERSION_FIELD: &str = "io.modelcontextprotocol/protocolVersion";
/// Where it says what the client can do.
const CAPABILITIES_FIELD: &str = "io.modelcontextprotocol/clientCapabilities";

/// What encloses a header's value that is Base64.
const ENCODED: (&str, &str) = ("=?base64?", "?=");

/// Returns the revisions of the protocol that the server speaks, newest first.
pub fn supported() -> Vec<&'static str> {
    std::iter::once(MODERN).chain(LEGACY).collect()
}

/// Returns the era of a request, whose headers and `_meta` must agree.
///
/// # Errors
/// [`HEADER_MISMATCH`], [`UNSUPPORTED_VERSION`], [`INVALID_PARAMS`] without a required field.
pub fn era_of(headers: &HeaderMap, message: &Message) -> Result<Era, Failure> {
    let meta = &message.params["_meta"];
    let told = meta.get(VERSION_FIELD).map(|version| version.as_str().unwrap_or_default());
    let header = one(headers, &VERSION)?;
    if told.is_none() && message.method == "initialize" && header != Some(MODERN) {
        return Ok(era_named(negotiated(&message.params)));
    }
    let header = match header {
        Some(header) => header,
        None if told.is_none() && mirrors_nothing(headers) => return Ok(Era::Oldest),
        None => {
            let message = "the header MCP-Protocol-Version is missing".to_string();
            return Err(Failure::new(HEADER_MISMATCH, message));
        }
    };
    if told.is_some_and(|told| told != header) {
        let message = "the header MCP-Protocol-Version and the version in _meta differ".to_string();
        return Err(Failure::new(HEADER_MISMATCH, message));
    }
    if LEGACY.contains(&header) && told.is_none() {
        return Ok(era_named(header));
    }
    if header != MODERN {
        return Err(unsupported(header));
    }
    for field in [VERSION_FIELD, CAPABILITIES_FIELD] {
        if meta.get(field).is_none() {
            return Err(Failure::new(INVALID_PARAMS, format!("params._meta has no {field}")));
        }
    }
    mirrored(headers, &METHOD, Some(&message.method))?;
    mirrored(headers, &NAME, name_of(message))?;
    Ok(Era::Modern)
}

/// The era that the headers of a request name, before its body is read.
pub fn era_in(headers: &HeaderMap) -> Era {
    match one(headers, &VERSION) {
        Ok(Some(version)) => era_named(version),
        Ok(None) if mirrors_nothing(headers) => Era::Oldest,
        _ => Era::Modern,
    }
}

/// The era of a revision.
fn era_named(revision: &str) -> Era {
    match revision {
        OLDEST => Era::Oldest,
        known if LEGACY.contains(&known) => Era::Legacy,
        _ => Era::Modern,
    }
}

/// Whether no header repeats what the body says, as in the newest revision all requests have them.
fn mirrors_nothing(headers: &HeaderMap) -> bool {
    !headers.contains_key(METHOD) && !headers.contains_key(NAME)
}

/// A version that is not known.
fn unsupported(requested: &str) -> Failure {
    let message = "this revision of the protocol is not supported".to_string();
    let data = json!({"supported": supported(), "requested": requested});
    Failure::new(UNSUPPORTED_VERSION, message).with_data(data)
}

/// What `Mcp-Name` repeats, of the methods that have it. Without it in the body the method refuses.
fn name_of(message: &Message) -> Option<&str> {
    let field = match message.method.as_str() {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    message.params[field].as_str()
}

/// The only value of a header.
fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a str>, Failure> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next(), values.next());
    let text = first.map(|value| value.to_str()).transpose();
    match (text, second) {
        (Ok(text), None) => Ok(text),
        _ => Err(mismatch(name, "must be given once, in ASCII")),
    }
}

/// Requires that a header repeats a part of the body, if there is such a part.
fn mirrored(headers: &HeaderMap, name: &HeaderName, body: Option<&str>) -> Result<(), Failure> {
    let Some(body) = body else { return Ok(()) };
    let value = one(headers, name)?.ok_or_else(|| mismatch(name, "is missing"))?;
    let decoded = decoded(value).ok_or_else(|| mismatch(name, "has Base64 that is none"))?;
    if decoded == body { Ok(()) } else { Err(mismatch(name, "differs from the body")) }
}

/// The value of a header, which may be encoded.
fn decoded(value: &str) -> Option<String> {
    let inner = value.strip_prefix(ENCODED.0).and_then(|rest| rest.strip_suffix(ENCODED.1));
    match inner {
        Some(inner) => String::from_utf8(BASE64.decode(inner).ok()?).ok(),
        None => Some(value.into()),
    }
}

fn mismatch(name: &HeaderName, what: &str) -> Failure {
    Failure::new(HEADER_MISMATCH, format!("the header {name} {what}"))
}

/// The version that an `initialize` is answered with: the one asked for, else the newest with a
/// handshake.
pub fn negotiated(params: &Value) -> &'static str {
    let asked = params["protocolVersion"].as_str().unwrap_or_default();
    LEGACY.into_iter().find(|known| *known == asked).unwrap_or(LEGACY[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_may_be_encoded() {
        for (value, expected) in [
            ("who_am_i", Some("who_am_i")),
            ("=?base64?R3LDvMOfZQ==?=", Some("Grüße")),
            ("=?base64?PT9iYXNlNjQ/eD89?=", Some("=?base64?x?=")),
            ("=?base64??=", Some("")),
            ("=?base64?=", Some("=?base64?=")),
            ("=?Base64?YQ==?=", Some("=?Base64?YQ==?=")),
            ("=?base64?*?=", None),
            ("=?base64?/w==?=", None),
        ] {
            assert_eq!(decoded(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn the_revision_asked_for_is_answered_if_it_is_known() {
        for known in LEGACY {
            assert_eq!(negotiated(&json!({"protocolVersion": known})), known);
        }
        for other in [json!({}), json!({"protocolVersion": MODERN}), json!({"protocolVersion": 1})]
        {
            assert_eq!(negotiated(&other), LEGACY[0]);
        }
    }
}
