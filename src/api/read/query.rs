//! Parses a query string into a tree of texts; the type that reads a text interprets it.
//!
//! Nothing is refused here: the type that reads the tree knows its parameters. A text that cannot be
//! decoded becomes `null`, which no other text does, and is refused by that type.

use std::borrow::Cow;

use percent_encoding::percent_decode;
use serde_json::map::Entry;
use serde_json::{Map, Value, json};

/// Parses the part of a target after `?` into an object (reference: conventions, "Query
/// encodings"):
///
/// - `a=1` is a text, `a=1&a=2` and `a[]=1&a[]=2` are lists;
/// - `a[b]=1` and `a.b=1` are a field of an object, `a={"b":1}` stays a text until an object is
///   read from it;
/// - mixtures become lists, from which no scalar can be read, and an object only if each member was
///   sent once;
/// - names of any other form are kept as they are: no parameter has such a name, so they are unknown.
pub fn parse_query(query: &str) -> Value {
    let mut parameters = Map::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (sent, text) = pair.split_once('=').unwrap_or((pair, ""));
        let decoded = decode(sent).unwrap_or(Cow::Borrowed(sent));
        let name = Name::parse(&decoded).unwrap_or(Name::plain(&decoded));
        let value = decode(text).map_or(Value::Null, |text| Value::String(text.into_owned()));
        add(&mut parameters, name, value);
    }
    Value::Object(parameters)
}

/// The parameters of a route that are objects, by their members, which may also be sent alone: the
/// exploded form of OpenAPI.
#[derive(Debug, Default)]
pub struct ObjectParameters {
    /// Member and parameter. A member of two parameters cannot be sent alone.
    pub members: Vec<(String, String)>,
}

impl ObjectParameters {
    /// Moves members that were sent alone into their objects; `None` if there are none.
    pub fn gather(&self, sent: &Value) -> Option<Value> {
        let sent = sent.as_object()?;
        let object_of = |key: &String| {
            let mut members = self.members.iter();
            members.find(|(member, _)| member == key).map(|(_, object)| object.as_str())
        };
        if !sent.keys().any(|key| object_of(key).is_some()) {
            return None;
        }
        let (alone, mut gathered): (Map<_, _>, Map<_, _>) =
            sent.clone().into_iter().partition(|(key, _)| object_of(key).is_some());
        for (member, value) in &alone {
            let name = object_of(member).unwrap_or_default();
            let name = Name { name, field: Some(member), is_list: false };
            add(&mut gathered, name, value.clone());
        }
        Some(Value::Object(gathered))
    }
}

/// The name of a parameter: `name`, `name[field]` or `name.field`, each optionally with `[]`.
struct Name<'a> {
    name: &'a str,
    field: Option<&'a str>,
    is_list: bool,
}

impl<'a> Name<'a> {
    /// A name that is kept as it is.
    fn plain(name: &'a str) -> Self {
        Name { name, field: None, is_list: false }
    }

    fn parse(text: &'a str) -> Option<Self> {
        let (text, is_list) = text.strip_suffix("[]").map_or((text, false), |text| (text, true));
        let (name, field) = match text.find(['[', '.']) {
            None => (text, None),
            Some(at) => {
                let (name, rest) = text.split_at(at);
                let in_brackets = rest.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
                (name, Some(in_brackets.or_else(|| rest.strip_prefix('.'))?))
            }
        };
        let is_plain = |part: &str| !part.is_empty() && !part.contains(['[', ']', '.']);
        (is_plain(name) && field.is_none_or(is_plain)).then_some(Name { name, field, is_list })
    }
}

fn add(parameters: &mut Map<String, Value>, name: Name, value: Value) {
    let value = if name.is_list { json!([value]) } else { value };
    let Some(field) = name.field else { return join(parameters, name.name, value) };
    match parameters.get_mut(name.name) {
        Some(Value::Object(fields)) => join(fields, field, value),
        _ => join(parameters, name.name, json!({ field: value })),
    }
}

/// Inserts `value` at `key`; together with an existing value it becomes a list.
pub fn join(values: &mut Map<String, Value>, key: &str, value: Value) {
    let old = match values.entry(key) {
        Entry::Occupied(old) => old.into_mut(),
        Entry::Vacant(place) => {
            place.insert(value);
            return;
        }
    };
    if !old.is_array() {
        *old = json!([old.take()]);
    }
    let Value::Array(items) = old else { return };
    match value {
        Value::Array(more) => items.extend(more),
        one => items.push(one),
    }
}

/// Decodes `%XX` and `+`; `None` if an escape is malformed or the result is not UTF-8.
fn decode(text: &str) -> Option<Cow<'_, str>> {
    if !text.contains(['%', '+']) {
        return Some(text.into());
    }
    let is_escape = |rest: &str| rest.bytes().take(2).filter(u8::is_ascii_hexdigit).count() == 2;
    if !text.split('%').skip(1).all(is_escape) {
        return None;
    }
    let blanks = text.replace('+', " ");
    Some(percent_decode(blanks.as_bytes()).decode_utf8().ok()?.into_owned().into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_encoding_becomes_the_same_tree() {
        let table = [
            ("", json!({})),
            ("&&=x&", json!({"": "x"})),
            ("a=1&b=&c&d=x=y", json!({"a": "1", "b": "", "c": "", "d": "x=y"})),
            ("a=b+c%20d%2B%26%3d%c3%A4", json!({"a": "b c d+&=ä"})),
            ("%61%20=1&ä=ö", json!({"a ": "1", "ä": "ö"})),
            ("a=1&a=2&a=3", json!({"a": ["1", "2", "3"]})),
            ("a[]=1&a[]=2", json!({"a": ["1", "2"]})),
            ("a[]=1", json!({"a": ["1"]})),
            ("a=1&a[]=2&a=3", json!({"a": ["1", "2", "3"]})),
            ("r[start]=1&r[end]=2", json!({"r": {"start": "1", "end": "2"}})),
            ("r%5Bstart%5D=1&r.end=2", json!({"r": {"start": "1", "end": "2"}})),
            ("r.start=1&r[start]=2", json!({"r": {"start": ["1", "2"]}})),
            ("r[in][]=1&r.in[]=2", json!({"r": {"in": ["1", "2"]}})),
            ("r={\"start\":1}", json!({"r": "{\"start\":1}"})),
            ("a=1&a[b]=2&a[c]=3", json!({"a": ["1", {"b": "2"}, {"c": "3"}]})),
            ("a[b]=2&a=1", json!({"a": [{"b": "2"}, "1"]})),
            (
                "a=%&b=%f&c=%zz&d=%ff&e=%C3",
                json!({"a": null, "b": null, "c": null, "d": null, "e": null}),
            ),
            ("a=%+1&b=%%41", json!({"a": null, "b": null})),
            ("a=%ff&a=x", json!({"a": [null, "x"]})),
            ("%ff=1&a%=1&ok=1", json!({"%ff": "1", "a%": "1", "ok": "1"})),
            (
                "a[b=1&a]=1&a[b]c=1&a[b][c]=1&a.b.c=1&[b]=1&.b=1&a.=1&a[].b=1&[]=1",
                json!({
                    "a[b": "1", "a]": "1", "a[b]c": "1", "a[b][c]": "1", "a.b.c": "1", "[b]": "1",
                    ".b": "1", "a.": "1", "a[].b": "1", "[]": "1"
                }),
            ),
        ];
        for (query, expected) in table {
            assert_eq!(parse_query(query), expected, "{query}");
        }
    }

    #[test]
    fn a_tree_is_shallow_however_long_its_query() {
        let names = [format!("a{}", "[b]".repeat(5_000)), format!("b{}", ".b".repeat(5_000))];
        let [a, b] = &names;
        assert_eq!(parse_query(&format!("{a}=1&{b}=1")), json!({a: "1", b: "1"}));
    }

    #[test]
    fn members_that_are_sent_alone_are_gathered_in_their_object() {
        let members = [("start", "range"), ("end", "range"), ("limit", "page")];
        let objects = ObjectParameters {
            members: members.map(|(a, b)| (a.to_string(), b.to_string())).into(),
        };
        let gather = |query: &str| objects.gather(&parse_query(query));
        assert_eq!(gather("range[start]=1&other=2"), None);
        let table = [
            ("start=1&x=2", json!({"x": "2", "range": {"start": "1"}})),
            (
                "start=1&range.end=2&limit=3",
                json!({"range": {"end": "2", "start": "1"}, "page": {"limit": "3"}}),
            ),
            ("start=1&range[start]=2", json!({"range": {"start": ["2", "1"]}})),
            ("start=1&start=2", json!({"range": {"start": ["1", "2"]}})),
            ("range={}&start=1", json!({"range": ["{}", {"start": "1"}]})),
        ];
        for (query, expected) in table {
            assert_eq!(gather(query), Some(expected), "{query}");
        }
    }
}
