//! Fields and parameters that an input does not have: each is refused, with the nearest known name.
//! A misspelt optional field would otherwise have no effect, without anybody noticing
//! (reference: conventions, "Unknown fields").

use serde_json::{Map, Value};

use super::options::{OtherNames, SourceFormat, UnknownFields};
use super::path::Path;
use super::state::{MAX_ISSUES, ReadState};
use crate::base::Issue;

/// Longer keys are compared with no name, which keeps the comparison cheap: no field is as long.
const MAX_COMPARED_BYTES: usize = 64;

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
        let other_names = [&others.read_elsewhere, &others.members].into_iter().flatten();
        let known = names.iter().copied().chain(other_names.map(String::as_str));
        let message = if key.is_empty() {
            "must not have a field without a name".into()
        } else if let Some(name) = missing().find(|name| is_short_for(key, name)) {
            // Also if the resource has such a field: this request names it otherwise.
            message(mode, Some(name))
        } else if all_others.fixed.contains(&path.field_pattern(key)) {
            "cannot be changed".into()
        } else {
            message(mode, nearest(key, known))
        };
        let path =
            if key.is_empty() { path.to_string() } else { Path::Entry(path, key).to_string() };
        state.note_unknown(Issue::new(path, message));
    }
}

/// The message about an unknown field or parameter.
fn message(mode: SourceFormat, suggestion: Option<&str>) -> String {
    let what = match mode {
        SourceFormat::Body => "is not a known field",
        SourceFormat::Query => "is not a known parameter",
    };
    match suggestion {
        Some(name) => format!("{what}; did you mean {name}?"),
        None => what.into(),
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

/// Returns the known name that `key` is probably a misspelling of.
fn nearest<'a>(key: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    if key.len() > MAX_COMPARED_BYTES {
        return None;
    }
    let key = folded(key);
    let distances = known.map(|name| {
        let folded = folded(name);
        let allowed = key.len().max(folded.len()) / 3;
        (distance(&key, &folded), allowed, name)
    });
    let near = distances.filter(|(distance, allowed, _)| distance <= allowed);
    near.min_by_key(|(distance, ..)| *distance).map(|(.., name)| name)
}

/// A name without the differences between conventions: `assignee_agent_id` and `AssigneeAgentID`
/// are one.
fn folded(name: &str) -> Vec<char> {
    let letters = name.chars().filter(|c| !matches!(c, '_' | '-' | ' '));
    letters.map(|c| c.to_ascii_lowercase()).collect()
}

/// The number of characters to insert, delete, replace or swap with a neighbour to make one text of
/// the other.
fn distance(a: &[char], b: &[char]) -> usize {
    // Three rows of the table of distances between the beginnings of both.
    let mut before = vec![0; b.len() + 1];
    let mut above: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut row = vec![i + 1; b.len() + 1];
        for (j, y) in b.iter().enumerate() {
            let replaced = above[j] + usize::from(x != y);
            row[j + 1] = replaced.min(above[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && *x == b[j - 1] && a[i - 1] == *y {
                row[j + 1] = row[j + 1].min(before[j - 1] + 1);
            }
        }
        before = std::mem::replace(&mut above, row);
    }
    above[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_name_is_suggested_if_it_is_near() {
        let known = ["assigneeAgentId", "title", "description", "projectId", "priority", "orgSlug"];
        for (key, expected) in [
            ("assigneAgentId", Some("assigneeAgentId")),
            ("assignee_agent_id", Some("assigneeAgentId")),
            ("ASSIGNEEAGENTID", Some("assigneeAgentId")),
            ("agentId", None),
            ("titel", Some("title")),
            ("tilte", Some("title")),
            ("desciption", Some("description")),
            ("project", Some("projectId")),
            ("prioritie", Some("priority")),
            ("org", None),
            ("id", None),
            ("", None),
            ("completely-different", None),
        ] {
            assert_eq!(nearest(key, known.into_iter()), expected, "{key}");
        }
        assert_eq!(nearest(&"title".repeat(20), known.into_iter()), None);
    }

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

    #[test]
    fn a_swap_of_neighbours_is_one_change() {
        let of = |a: &str, b: &str| distance(&folded(a), &folded(b));
        assert_eq!(of("ab", "ba"), 1);
        assert_eq!(of("", "abc"), 3);
        assert_eq!(of("kitten", "sitting"), 3);
        assert_eq!(of("same", "same"), 0);
    }
}
