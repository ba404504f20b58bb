//! What differs between two configurations, for people: a line for each value, and tools by their names.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::console::api::segment;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Lines of a page.
const MAX_LINES: usize = 500;
/// Bytes of the values on them.
const MAX_BYTES: usize = 256 * 1024;
/// Characters of one value: a text that has more is shown elsewhere, too.
const MAX_TEXT: usize = 4_000;
/// Characters before the first difference of two long texts.
const BEFORE: usize = 100;
/// A value with more in it is not taken apart.
const MAX_PARTS: usize = 200;
/// Tools whose names are looked up, because the plan does not say them.
const MAX_TOOLS: usize = 20;

/// The list of the tools of an agent.
const TOOLS: &str = "toolRefs";
/// What a reference to a tool without a version means.
const ANY_VERSION: &str = "the environment's version, or the newest";

/// What is said of a list that has the same values as before.
const ORDER: &str = "The same, in another order";

/// A value that differs, as the API says it.
#[derive(Deserialize)]
pub struct Change {
    path: String,
    from: Nullable<Value>,
    to: Nullable<Value>,
}

/// A value that differs, as pages show it; empty where there is none.
#[derive(Debug, PartialEq)]
pub struct Line {
    pub path: String,
    pub from: String,
    pub to: String,
}

/// What differs, of all that a page shows.
pub struct Lines<'a> {
    /// The names of tools by their ids.
    tools: &'a BTreeMap<String, String>,
    lines_left: usize,
    bytes_left: usize,
}

impl<'a> Lines<'a> {
    /// Nothing is shown yet.
    pub fn new(tools: &'a BTreeMap<String, String>) -> Self {
        Lines { tools, lines_left: MAX_LINES, bytes_left: MAX_BYTES }
    }

    /// The lines of changes, and whether there is more than the page may have.
    pub fn of(&mut self, changes: Vec<Change>) -> (Vec<Line>, bool) {
        let mut lines = Vec::new();
        for change in changes {
            for line in self.taken_apart(change) {
                let size = line.path.len() + line.from.len() + line.to.len();
                if self.lines_left == 0 || size > self.bytes_left {
                    self.lines_left = 0;
                    return (lines, true);
                }
                self.lines_left -= 1;
                self.bytes_left -= size;
                lines.push(line);
            }
        }
        (lines, false)
    }

    fn taken_apart(&self, change: Change) -> Vec<Line> {
        let Change { path, from: Nullable(from), to: Nullable(to) } = change;
        if [&from, &to].into_iter().flatten().any(|side| parts(side, MAX_PARTS + 1) > MAX_PARTS) {
            let [from, to] = [from, to].map(|side| side.as_ref().map(size).unwrap_or_default());
            return vec![Line { path, from, to }];
        }
        let [before, mut after] = [from, to].map(|side| self.values(&path, side));
        let mut lines = Vec::new();
        for (path, from) in before {
            let to =
                after.iter().position(|(other, _)| *other == path).map(|at| after.remove(at).1);
            let to = to.unwrap_or_default();
            if from != to {
                let (from, to) = cut(&from, &to);
                lines.push(Line { path, from, to });
            }
        }
        // Of what is new, what is empty says nothing.
        let is_said =
            |(other, to): &(String, String)| *other == path || !matches!(to.as_str(), "{}" | "[]");
        lines.extend(after.into_iter().filter(is_said).map(|(path, to)| {
            let (from, to) = cut("", &to);
            Line { path, from, to }
        }));
        if lines.is_empty() {
            lines.push(Line { path, from: String::new(), to: ORDER.into() });
        }
        lines
    }

    /// The values in a value, each with where it is.
    fn values(&self, path: &str, value: Option<Value>) -> Vec<(String, String)> {
        match &value {
            None => Vec::new(),
            Some(Value::Array(all)) if path == TOOLS => {
                all.iter().map(|one| self.tool(one)).collect()
            }
            Some(value) => {
                let mut values = Vec::new();
                collect(path.into(), value, &mut values);
                values
            }
        }
    }

    /// A tool of an agent, by its name, with its version.
    fn tool(&self, reference: &Value) -> (String, String) {
        let id = reference["toolId"].as_str().unwrap_or_default();
        let name = self.tools.get(id).map_or(id, String::as_str);
        let version = reference["version"].as_str().unwrap_or(ANY_VERSION);
        (format!("{TOOLS}.{name}"), version.into())
    }
}

/// The names of the tools in changes, beside those that are known.
pub async fn tool_names(
    visit: &Visit,
    changes: &[&Change],
    mut names: BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let lists = changes.iter().filter(|change| change.path == TOOLS);
    let lists = lists.flat_map(|change| [&change.from.0, &change.to.0]).flatten();
    let ids = lists.filter_map(Value::as_array).flatten().filter_map(|one| one["toolId"].as_str());
    let missing: BTreeSet<_> = ids.filter(|id| !names.contains_key(*id)).take(MAX_TOOLS).collect();
    for id in missing {
        // One that is gone has only its id.
        let found = visit.api.get::<Value>(&format!("/tools/{}", segment(id)), &[]).await;
        let name = found.ok().and_then(|tool| tool["name"].as_str().map(String::from));
        names.extend(name.map(|name| (id.to_string(), name)));
    }
    names
}

/// The values of a configuration, each with where it is: `limits.daily` and `stop[0]`.
pub fn entries(config: &Map<String, Value>) -> Vec<(String, String)> {
    let mut entries = Vec::new();
    for (name, value) in config {
        collect(name.clone(), value, &mut entries);
    }
    entries
}

fn collect(path: String, value: &Value, entries: &mut Vec<(String, String)>) {
    match value {
        Value::Object(inner) if !inner.is_empty() => {
            inner.iter().for_each(|(name, one)| collect(format!("{path}.{name}"), one, entries));
        }
        Value::Array(inner) if !inner.is_empty() => {
            inner.iter().enumerate().for_each(|(at, one)| {
                collect(format!("{path}[{at}]"), one, entries);
            });
        }
        Value::String(text) => entries.push((path, text.clone())),
        other => entries.push((path, other.to_string())),
    }
}

/// How many values are in a value, counted to a bound.
fn parts(value: &Value, bound: usize) -> usize {
    let mut count = 0;
    let mut add = |one: &Value| {
        if count < bound {
            count += parts(one, bound - count);
        }
    };
    match value {
        Value::Object(inner) if !inner.is_empty() => inner.values().for_each(&mut add),
        Value::Array(inner) if !inner.is_empty() => inner.iter().take(bound).for_each(&mut add),
        _ => count = 1,
    }
    count
}

/// How much is in a value that is too large to be taken apart.
fn size(value: &Value) -> String {
    match parts(value, MAX_PARTS + 1) {
        _ if *value == Value::Array(Vec::new()) => "Nothing".into(),
        many if many > MAX_PARTS => format!("More than {MAX_PARTS} values"),
        1 => "One value".into(),
        few => format!("{few} values"),
    }
}

/// Two texts that differ: of long ones what is around the first difference.
fn cut(from: &str, to: &str) -> (String, String) {
    if [from, to].into_iter().all(|text| text.chars().nth(MAX_TEXT).is_none()) {
        return (from.into(), to.into());
    }
    let same = from.chars().zip(to.chars()).take_while(|(one, other)| one == other).count();
    let left_out = same.saturating_sub(BEFORE);
    let part = |text: &str| {
        let mut rest = text.chars().skip(left_out);
        let shown: String = rest.by_ref().take(MAX_TEXT).collect();
        let before = if left_out > 0 { "… " } else { "" };
        let after = if rest.next().is_some() { " … (cut here)" } else { "" };
        format!("{before}{shown}{after}")
    };
    (part(from), part(to))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn change(path: &str, from: Value, to: Value) -> Change {
        let side = |value: Value| Nullable(Some(value).filter(|value| !value.is_null()));
        Change { path: path.into(), from: side(from), to: side(to) }
    }

    fn shown(changes: Vec<Change>) -> Vec<(String, String, String)> {
        let tools = BTreeMap::from([("t-1".to_string(), "search".to_string())]);
        let (lines, is_cut) = Lines::new(&tools).of(changes);
        assert!(!is_cut);
        lines.into_iter().map(|line| (line.path, line.from, line.to)).collect()
    }

    fn line(path: &str, from: &str, to: &str) -> (String, String, String) {
        (path.into(), from.into(), to.into())
    }

    #[test]
    fn a_configuration_is_read_value_by_value() {
        let config = json!({"model": "m", "limits": {"daily": 3, "none": {}}, "stop": ["a", true]});
        let entries = entries(config.as_object().unwrap());
        let pairs: Vec<_> = entries.iter().map(|(path, value)| (&**path, &**value)).collect();
        let values = [
            ("model", "m"),
            ("limits.daily", "3"),
            ("limits.none", "{}"),
            ("stop[0]", "a"),
            ("stop[1]", "true"),
        ];
        assert_eq!(pairs, values);
    }

    #[test]
    fn lists_and_objects_differ_by_a_line_for_each_value() {
        let delivery = json!({"endpoint": "https://a.test", "secrets": {},
            "variables": {"PORT": "80"}});
        let lines = shown(vec![
            change("model", json!("small"), json!("large")),
            change("providerConfig.stop", json!(["a", "b"]), json!(["a", "c", "d"])),
            change("delivery", Value::Null, delivery),
        ]);
        let expected = [
            line("model", "small", "large"),
            line("providerConfig.stop[1]", "b", "c"),
            line("providerConfig.stop[2]", "", "d"),
            line("delivery.endpoint", "", "https://a.test"),
            line("delivery.variables.PORT", "", "80"),
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn tools_are_shown_by_their_names_wherever_they_are_in_the_list() {
        let of = |id: &str, version: Value| json!({"toolId": id, "version": version});
        let from = json!([of("t-1", json!("1.0.0")), of("t-2", json!("2.0.0"))]);
        let to = json!([of("t-2", json!("2.0.0")), of("t-1", Value::Null)]);
        let lines = shown(vec![change(TOOLS, from, to)]);
        assert_eq!(lines, [line("toolRefs.search", "1.0.0", ANY_VERSION)]);
    }

    #[test]
    fn what_is_too_much_is_said_to_be() {
        let many = || json!(vec![1; MAX_PARTS + 1]);
        let more = "More than 200 values";
        assert_eq!(shown(vec![change("a", json!([]), many())]), [line("a", "Nothing", more)]);
        assert_eq!(shown(vec![change("a", Value::Null, many())]), [line("a", "", more)]);
        let each = |at: usize| change(&format!("v{at}"), json!("a"), json!("b"));
        let tools = BTreeMap::new();
        let mut lines = Lines::new(&tools);
        let (all, is_cut) = lines.of((0..=MAX_LINES).map(each).collect());
        assert_eq!((all.len(), is_cut), (MAX_LINES, true));
        let (none, is_cut) = lines.of(vec![each(0)]);
        assert_eq!((none.len(), is_cut), (0, true));
        assert!(!lines.of(Vec::new()).1);
    }

    #[test]
    fn of_long_texts_what_is_around_the_first_difference_is_shown() {
        let long = "ä".repeat(2 * MAX_TEXT);
        let (from, to) = (format!("{long}one"), format!("{long}two"));
        let lines = shown(vec![change("a", json!(from), json!(to))]);
        let before = "ä".repeat(BEFORE);
        assert_eq!(lines, [line("a", &format!("… {before}one"), &format!("… {before}two"))]);
        let new = shown(vec![change("a", Value::Null, json!(long))]);
        assert!(new[0].2.starts_with('ä') && new[0].2.ends_with("ä … (cut here)"));
        let order =
            shown(vec![change(TOOLS, json!([{"toolId": "t-1"}]), json!([{"toolId": "t-1"}]))]);
        assert_eq!(order, [line(TOOLS, "", ORDER)]);
    }
}
