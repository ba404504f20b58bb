//! The path of what a 404 is about: the parameter or field of the request that named it.
//!
//! The store knows the key of the record that does not exist, the request what was sent where. Both
//! are the same for a foreign record and one that never existed, so the answers are too.

use serde_json::Value;

use super::request::Request;
use crate::api::request::path_names;
use crate::base::{Error, Id, Kind};
use crate::store::Key;

/// Adds the path to the error of a request, if it is a 404 that lacks one.
pub fn locate_in(error: Error, request: &Request) -> Error {
    if !lacks_path(&error) {
        return error;
    }
    match request.arguments.parse(&request.query) {
        Ok((arguments, _)) => locate(error, request.route.path, &request.params, &arguments),
        Err(_) => error,
    }
}

fn lacks_path(error: &Error) -> bool {
    error.kind() == Kind::NotFound && error.path().is_none()
}

/// Adds the path, if the request has what the key says; parameters of the path first, the last one
/// before the others.
fn locate(error: Error, path: &'static str, params: &[String], arguments: &Value) -> Error {
    let Some(key) = error.missing_key().filter(|_| lacks_path(&error)) else { return error };
    let mut texts: Vec<(String, &str)> =
        path_names(path).map(String::from).zip(params.iter().map(String::as_str)).collect();
    texts.reverse();
    collect(String::new(), arguments, &mut texts);
    let noun = error.message().rsplit(' ').next().unwrap_or_default().to_ascii_lowercase();
    // The last part of a key is what is missing; its first parts say where. Of several parameters
    // with the same text, the one whose name says what it is.
    let found = texts.iter().enumerate().filter_map(|(order, (path, text))| {
        let part = part_of(key, path, text)?;
        Some((part, !path.to_ascii_lowercase().contains(&noun), order, path))
    });
    match found.min().map(|(.., path)| path.clone()) {
        Some(path) => error.at(path),
        None => error,
    }
}

/// The part of a key that a text names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum KeyPart {
    Last,
    First,
}

fn part_of(key: &[u8], path: &str, text: &str) -> Option<KeyPart> {
    let id = Id::<()>::parse(text);
    // Any text is a malformed id, but only where an id is expected.
    let is_id = !id.is_nil() || path.to_ascii_lowercase().trim_end_matches(']').contains("id");
    let number = text.parse::<u32>().unwrap_or(0);
    let encoded = [id.to_bytes(), text.to_string().to_bytes(), number.to_bytes()];
    let mut encoded = encoded.iter().skip(usize::from(!is_id));
    if encoded.clone().any(|bytes| key.ends_with(bytes)) {
        return Some(KeyPart::Last);
    }
    encoded.any(|bytes| key.starts_with(bytes)).then_some(KeyPart::First)
}

/// Collects the texts in `value` with their paths, except the slug of the organization.
fn collect<'a>(path: String, value: &'a Value, texts: &mut Vec<(String, &'a str)>) {
    match value {
        Value::String(text) if path != "orgSlug" => texts.push((path, text)),
        Value::Array(items) => {
            for (n, item) in items.iter().enumerate() {
                collect(format!("{path}[{n}]"), item, texts);
            }
        }
        Value::Object(fields) => {
            for (name, field) in fields {
                let inner = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                collect(inner, field, texts);
            }
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const A: &str = "01890a5d-ac96-774b-bcce-b302099a8057";
    const B: &str = "01890a5d-ac96-774b-bcce-b302099a8058";

    fn located(noun: &str, key: Vec<u8>, arguments: Value) -> Option<String> {
        let error = Error::no_such(noun).missing(key);
        let params = [A.to_string(), "scribe".into(), "7".into()];
        let path = "/teams/{teamId}/agents/{stableKey}/versions/{version}";
        locate(error, path, &params, &arguments).path().map(String::from)
    }

    #[test]
    fn a_404_says_which_parameter_or_field_named_what_is_missing() {
        let id = Id::<()>::parse;
        let text = |text: &str| text.to_string();
        let body =
            json!({"orgSlug": "acme", "projectId": "x", "refs": [{"toolId": B}], "toAgentId": "y"});
        for (noun, key, expected) in [
            ("team", id(A).to_bytes(), Some("teamId")),
            ("agent", text("scribe").to_bytes(), Some("stableKey")),
            ("version", (id(B), 7u32).to_bytes(), Some("version")),
            ("tool", id(B).to_bytes(), Some("refs[0].toolId")),
            ("tool", (id(A), id(B)).to_bytes(), Some("refs[0].toolId")),
            ("member", (id(B), id(B).cast::<u8>()).to_bytes(), Some("refs[0].toolId")),
            // A malformed id is nil; several fields may have one.
            ("agent", (id(A), Id::<u8>::NIL).to_bytes(), Some("toAgentId")),
            ("organization", text("acme").to_bytes(), None),
            ("label", text("prod").to_bytes(), None),
        ] {
            assert_eq!(located(noun, key, body.clone()).as_deref(), expected, "{noun}");
        }
    }

    #[test]
    fn a_path_that_is_known_stays() {
        let error = Error::no_such("version").at("from").missing(Id::<()>::parse(A).to_bytes());
        let located = locate(error, "/a/{b}", &[A.into()], &json!({}));
        assert_eq!(located.path(), Some("from"));
        let conflict = Error::conflict("taken", "taken").missing(Id::<()>::parse(A).to_bytes());
        assert_eq!(locate(conflict, "/a/{b}", &[A.into()], &json!({})).path(), None);
    }
}
