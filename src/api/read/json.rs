//! A strict JSON parser: input that two programs could interpret differently is refused.
//!
//! Refused are bytes that are not UTF-8, a byte order mark, duplicate keys at any depth, nesting
//! deeper than [`MAX_NESTING`], numbers too large for a double, lone surrogates, anything after the
//! value, and a top-level value that is not an object.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::path::Path;
use super::state::MAX_ISSUES;
use crate::base::{Error, Issue, Result};

/// Limit of nested objects and lists (reference: conventions, "Bodies"): far more than any input
/// has, far less than the stack allows.
pub const MAX_NESTING: usize = 64;

/// Limit of the values of a body, scalars, lists and objects, keys not counted (reference:
/// conventions, "Bodies"): more than any input has, and some 10 MB once parsed, since a value takes
/// 72 bytes or more.
pub const MAX_VALUES: usize = 50_000;

/// Parses a body. An empty or absent one is `{}`.
///
/// # Errors
/// 400 if it is not JSON, not an object or of too many values, with an issue for each duplicate key.
pub fn parse_body(bytes: &[u8]) -> Result<Value> {
    if bytes.is_empty() {
        return Ok(Value::Object(Map::new()));
    }
    parse_object(bytes, &Path::Root).map_err(|mut issues| {
        for issue in issues.iter_mut().filter(|issue| issue.path.is_empty()) {
            issue.message.insert_str(0, "the body ");
        }
        Error::invalid(issues)
    })
}

/// Parses a JSON object at `path`, or returns its problems, at least one. Takes linear time.
pub fn parse_object(bytes: &[u8], path: &Path) -> Result<Value, Vec<Issue>> {
    let wrong = |message: String| vec![Issue::new(path.to_string(), message)];
    let text = std::str::from_utf8(bytes).map_err(|e| {
        wrong(format!("must be UTF-8; what begins at byte {} is not", e.valid_up_to()))
    })?;
    if text.starts_with('\u{feff}') {
        return Err(wrong("must not begin with a byte order mark".into()));
    }

    let mut issues = Vec::new();
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let mut values = 0;
    let parsed = Build { path, depth: 0, values: &mut values, issues: &mut issues }
        .deserialize(&mut deserializer)
        .and_then(|value| deserializer.end().map(|()| value));
    match parsed {
        Err(_) if values > MAX_VALUES => issues.extend(wrong(too_many_values())),
        Err(e) => issues.extend(wrong(format!("must be valid JSON: {}", why_invalid(text, &e)))),
        Ok(value) if issues.is_empty() && value.is_object() => return Ok(value),
        Ok(value) if !value.is_object() => issues.extend(wrong("must be a JSON object".into())),
        Ok(_) => {}
    }
    Err(issues)
}

/// Returns why a text is not JSON. The parser does not say that half of a surrogate pair is what is
/// wrong, which programs write that cut a text within an emoji.
fn why_invalid(text: &str, error: &serde_json::Error) -> String {
    let message = error.to_string();
    match lone_surrogate(text).filter(|_| message.contains("hex escape")) {
        None => message,
        Some((line, column)) => format!(
            "half of a surrogate pair at line {line} column {column}; a text was cut within a \
             character, such as an emoji: cut it between characters"
        ),
    }
}

/// Returns line and column of the first escape that is half of a surrogate pair, without the other.
fn lone_surrogate(text: &str) -> Option<(usize, usize)> {
    let bytes = text.as_bytes();
    let mut at = 0;
    while at < bytes.len() {
        at += match (bytes[at], escaped_unit(bytes, at)) {
            (b'\\', Some(0xd800..=0xdbff))
                if matches!(escaped_unit(bytes, at + 6), Some(0xdc00..=0xdfff)) =>
            {
                12
            }
            (b'\\', Some(0xd800..=0xdfff)) => {
                let before = &text[..at];
                let line_begins = before.rfind('\n').map_or(0, |end| end + 1);
                return Some((before.matches('\n').count() + 1, at - line_begins + 1));
            }
            (b'\\', _) => 2,
            _ => 1,
        };
    }
    None
}

/// Returns the code unit of the escape `\uXXXX` that begins at a byte.
fn escaped_unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    let digits = std::str::from_utf8(digits).ok()?;
    let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)
}

/// What is wrong with more than [`MAX_VALUES`] values.
pub fn too_many_values() -> String {
    "must have at most 50,000 values; send less at once".into()
}

/// Builds the value at `path`, inside `depth` objects and lists.
struct Build<'a> {
    path: &'a Path<'a>,
    depth: usize,
    /// The values so far.
    values: &'a mut usize,
    issues: &'a mut Vec<Issue>,
}

impl Build<'_> {
    /// The depth of the values in this object or list.
    fn descend<E: serde::de::Error>(&self) -> Result<usize, E> {
        if self.depth >= MAX_NESTING {
            return Err(E::custom(format_args!("nested deeper than {MAX_NESTING} levels")));
        }
        Ok(self.depth + 1)
    }
}

impl<'de> DeserializeSeed<'de> for Build<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        *self.values += 1;
        if *self.values > MAX_VALUES {
            return Err(serde::de::Error::custom("too many values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Build<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut items = Vec::new();
        loop {
            let path = &Path::Item(self.path, items.len());
            match list.next_element_seed(Build {
                path,
                depth,
                values: self.values,
                issues: self.issues,
            })? {
                Some(item) => items.push(item),
                None => return Ok(Value::Array(items)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut object: A) -> Result<Value, A::Error> {
        let depth = self.descend()?;
        let mut fields = Map::new();
        while let Some(key) = object.next_key::<String>()? {
            let path = &Path::Entry(self.path, &key);
            if fields.contains_key(&key) && self.issues.len() < MAX_ISSUES {
                self.issues.push(Issue::new(path.to_string(), "must be given once"));
            }
            let value = object.next_value_seed(Build {
                path,
                depth,
                values: self.values,
                issues: self.issues,
            })?;
            fields.insert(key, value);
        }
        Ok(Value::Object(fields))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nested(depth: usize) -> String {
        // The outermost object is the first level.
        format!("{{\"a\":{}{}}}", "[".repeat(depth - 1), "]".repeat(depth - 1))
    }

    #[test]
    fn non_strict_json_is_refused() {
        let table: &[(&[u8], &str)] = &[
            (b"[]", "the body must be a JSON object"),
            (b"null", "the body must be a JSON object"),
            (b"\"text\"", "the body must be a JSON object"),
            (b" ", "EOF while parsing a value"),
            (b"{} {}", "trailing characters at line 1 column 4"),
            (b"{}\0", "trailing characters"),
            (b"{\"a\":1,}", "trailing comma"),
            (b"{'a':1}", "key must be a string"),
            (b"{\"a\":1e999}", "number out of range"),
            (b"{\"a\":-1e999}", "number out of range"),
            (b"{\"a\":NaN}", "expected value"),
            (b"{\"a\":Infinity}", "expected value"),
            (b"{\"a\":01}", "invalid number"),
            (b"{\"a\":\"\\ud800\"}", "half of a surrogate pair at line 1 column 7"),
            (b"{\"\\udc00\":1}", "half of a surrogate pair at line 1 column 3"),
            (b"{\"a\":\"\\ud800\\ud800\"}", "half of a surrogate pair at line 1 column 7"),
            (b"{\n\"a\":\"\\\\ud800 \\ud83d\\ude00\\ud83d!\"}", "pair at line 2 column 26"),
            (b"{\"a\":\"\xff\"}", "the body must be UTF-8; what begins at byte 6 is not"),
            (b"{\"a\":\"\xed\xa0\x80\"}", "the body must be UTF-8"),
            (b"{\"a\":\"\0\"}", "control character"),
            (b"\xef\xbb\xbf{}", "the body must not begin with a byte order mark"),
            (b"\xff\xfe{\0}\0", "the body must be UTF-8"),
            (b"// a\n{}", "expected value"),
        ];
        for (bytes, expected) in table {
            let error = parse_body(bytes).unwrap_err();
            let [issue] = error.issues() else { panic!("{error}") };
            assert_eq!(issue.path, "", "{issue:?}");
            assert!(issue.message.contains(expected), "{issue:?}");
            assert!(issue.message.starts_with("the body must "), "{issue:?}");
        }
    }

    #[test]
    fn json_values_are_kept_as_sent() {
        assert_eq!(parse_body(b"").unwrap(), serde_json::json!({}));
        let text = "{\"z\":null,\"a\":[1,-2,2.5,18446744073709551615,true,\"\\u0000\\ud83d\\ude00\"],\"\":{}}";
        let value = parse_body(text.as_bytes()).unwrap();
        assert_eq!(value, serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(value["a"][5], "\0😀");
        assert_eq!(value.as_object().unwrap().keys().collect::<Vec<_>>(), ["z", "a", ""]);
    }

    #[test]
    fn nesting_is_taken_to_64_levels_and_no_deeper() {
        assert!(parse_body(nested(64).as_bytes()).is_ok());
        let expected = "the body must be valid JSON: nested deeper than 64 levels at line 1 column";
        for depth in [65, 127, 128, 200, 100_000] {
            let error = parse_body(nested(depth).as_bytes()).unwrap_err();
            assert!(error.message().starts_with(expected), "{depth}: {error}");
        }
    }

    #[test]
    fn every_duplicate_key_is_reported_at_its_path() {
        let text = br#"{"a":1,"b":[{},{"c":1,"d":{"e":1,"\u0065":2},"c":1}],"a":{"x":1}}"#;
        let error = parse_body(text).unwrap_err();
        let paths: Vec<_> = error.issues().iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["b[1].d.e", "b[1].c", "a"]);
        assert_eq!(error.issues()[0].message, "must be given once");
    }

    #[test]
    fn duplicate_keys_cannot_fill_an_answer() {
        let twice = "\"k\":0,".repeat(40_000);
        let text = format!("{{\"{}\":{{{twice}\"k\":0}}}}", "x".repeat(100_000));
        let error = parse_body(text.as_bytes()).unwrap_err();
        assert_eq!(error.issues().len(), MAX_ISSUES);
        assert!(error.issues().iter().all(|issue| issue.path.len() < 200));
    }

    #[test]
    fn a_body_has_at_most_50_000_values() {
        let keys = |n| (0..n).map(|n| format!("\"k{n}\":{n}")).collect::<Vec<_>>().join(",");
        let object = |n| format!("{{{}}}", keys(n));
        let list = |n| format!("{{\"a\":[{}0]}}", "0,".repeat(n - 1));
        // The object itself is a value, and so is the list.
        let value = parse_body(object(MAX_VALUES - 1).as_bytes()).unwrap();
        assert_eq!(value.as_object().unwrap().len(), MAX_VALUES - 1);
        assert!(parse_body(list(MAX_VALUES - 2).as_bytes()).is_ok());
        for over in [object(MAX_VALUES), list(MAX_VALUES - 1), list(500_000)] {
            let error = parse_body(over.as_bytes()).unwrap_err();
            let expected = "the body must have at most 50,000 values; send less at once";
            assert_eq!((error.kind(), error.message()), (crate::base::Kind::Invalid, expected));
        }
    }
}
