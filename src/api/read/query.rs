//! Parses a query string into a tree of texts; the type that reads a text interprets it.
//!
//! Nothing is refused here, since unknown parameters must be ignored. A text that cannot be decoded
//! becomes `null`, which no other text does, and is refused by the type that reads it.

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
/// - mixtures become lists, from which neither a scalar nor an object can be read;
/// - names of any other form are dropped, since no parameter has them.
pub fn parse_query(query: &str) -> Value {
    let mut parameters = Map::new();
    for pair in query.split('&') {
        let (name, text) = pair.split_once('=').unwrap_or((pair, ""));
        let Some(name) = decode(name) else { continue };
        let Some(name) = Name::parse(&name) else { continue };
        let value = decode(text).map_or(Value::Null, |text| Value::String(text.into_owned()));
        add(&mut parameters, name, value);
    }
    Value::Object(parameters)
}

/// The name of a parameter: `name`, `name[field]` or `name.field`, each optionally with `[]`.
struct Name<'a> {
    name: &'a str,
    field: Option<&'a str>,
    is_list: bool,
}

impl<'a> Name<'a> {
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
fn join(values: &mut Map<String, Value>, key: &str, value: Value) {
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
            ("&&=x&", json!({})),
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
            ("%ff=1&a%=1&ok=1", json!({"ok": "1"})),
            ("a[b=1&a]=1&a[b]c=1&a[b][c]=1&a.b.c=1&[b]=1&.b=1&a.=1&a[].b=1&[]=1", json!({})),
        ];
        for (query, expected) in table {
            assert_eq!(parse_query(query), expected, "{query}");
        }
    }

    #[test]
    fn a_tree_is_shallow_however_long_its_query() {
        let query = format!("a{}=1&b{}=1", "[b]".repeat(5_000), ".b".repeat(5_000));
        assert_eq!(parse_query(&query), json!({}));
    }
}
