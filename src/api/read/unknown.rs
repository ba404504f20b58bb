//! Fields and parameters that an input does not have: each is refused, with the nearest known name.
//! A misspelt optional field would otherwise have no effect, without anybody noticing
//! (reference: conventions, "Unknown fields").

use std::borrow::Cow;
use std::fmt::Display;

use serde_json::{Map, Value};

use super::options::{OtherNames, SourceFormat, UnknownFields};
use super::path::Path;
use super::state::{MAX_ISSUES, ReadState};
use crate::base::{Issue, nearest};

/// Records each field of the object at `path` that is neither in `names` nor read by something else.
pub fn refuse(
    state: &mut ReadState,
    mode: SourceFormat,
    path: &Path,
    names: &[&str],
    fields: &Map<String, Value>,
) {
    let UnknownFields::Refused(all_others) = state.unknown.clone() else { return };
    let nothing = OtherNames::default();
    let others = if matches!(path, Path::Root) { &*all_others } else { &nothing };
    let is_known =
        |key: &String| names.contains(&key.as_str()) || others.read_elsewhere.contains(key);
    let missing = || others.required.iter().filter(|name| !fields.contains_key(*name));
    for key in fields.keys().filter(|key| !is_known(key)) {
        state.count();
        if state.issues.len() >= MAX_ISSUES {
            return;
        }
        let members = others.members.iter().map(|(member, _)| member.as_str());
        let other_names = others.read_elsewhere.iter().map(String::as_str).chain(members);
        let known = names.iter().copied().chain(other_names);
        let message = if key.is_empty() {
            "must not have a field without a name".into()
        } else if let Some(name) = missing().find(|name| is_short_for(key, name)) {
            // Also if the resource has such a field: this request names it otherwise.
            message(mode, Some(name.as_str()))
        } else if all_others.fixed.contains(&path.field_pattern(key)) {
            "cannot be changed".into()
        } else {
            message(mode, nearest(key, known).map(|near| place_of(mode, near, others)))
        };
        let path =
            if key.is_empty() { path.to_string() } else { Path::Entry(path, key).to_string() };
        state.note_unknown(Issue::new(path, message));
    }
}

/// The message about an unknown field or parameter.
fn message(mode: SourceFormat, suggestion: Option<impl Display>) -> String {
    let what = match mode {
        SourceFormat::Body => "is not a known field",
        SourceFormat::Query => "is not a known parameter",
    };
    match suggestion {
        Some(name) => format!("{what}; did you mean {name}?"),
        None => what.into(),
    }
}

/// Where a name is known: the member of an object of a body is known in that object alone, and may have
/// the very name that is not known here.
fn place_of<'a>(mode: SourceFormat, name: &'a str, others: &OtherNames) -> Cow<'a, str> {
    let object = others.members.iter().find(|(member, _)| member == name);
    match (mode, object) {
        (SourceFormat::Body, Some((_, object))) => format!("{object}.{name}").into(),
        _ => name.into(),
    }
}

/// Whether `key` is the last words of `name`, but not all of it: `name` of `listName`.
fn is_short_for(key: &str, name: &str) -> bool {
    let start = name.len().checked_sub(key.len()).filter(|start| *start > 0);
    let last = start.and_then(|start| name.get(start..));
    last.is_some_and(|last| {
        last.starts_with(|c: char| c.is_ascii_uppercase()) && last.eq_ignore_ascii_case(key)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_name_are_short_for_it() {
        for (key, expected) in [
            ("name", true),
            ("Name", true),
            ("listName", false),
            ("ame", false),
            ("", false),
            ("myListName", false),
            ("ä", false),
        ] {
            assert_eq!(is_short_for(key, "listName"), expected, "{key}");
        }
    }
}
