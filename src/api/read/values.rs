//! Counts the values of a JSON text without parsing it.

use super::json::{MAX_NESTING, MAX_VALUES, too_many_values};
use crate::base::{Error, Issue, Result};

/// Counts the values of a body, as the parser does, so that a body with too many of them never gets
/// the memory to be parsed. Takes about a nanosecond a byte.
///
/// # Errors
/// What the parser says of too many values.
pub fn count_values(body: &[u8]) -> Result<usize> {
    let values = count(body);
    if values <= MAX_VALUES {
        return Ok(values);
    }
    Err(Error::invalid(vec![Issue::new("", format!("the body {}", too_many_values()))]))
}

/// The number of values in `text`, scalars, lists and objects, up to where the parser ends: at a
/// value too many, or nested too deeply. Of a text that is not JSON, a number of values that it
/// seems to have.
fn count(text: &[u8]) -> usize {
    let mut count = Count::default();
    let mut rest = text.iter();
    let mut is_in_scalar = false;
    while let Some(&byte) = rest.next() {
        let is_scalar = !matches!(
            byte,
            b'"' | b'{' | b'[' | b'}' | b']' | b':' | b',' | b' ' | b'\n' | b'\r' | b'\t'
        );
        match byte {
            b'"' => {
                count.begun += 1;
                skip_string(&mut rest);
            }
            b'{' | b'[' => {
                count.begun += 1;
                count.depth += 1;
            }
            b'}' | b']' => count.depth = count.depth.saturating_sub(1),
            b':' => count.keys += 1,
            _ => count.begun += usize::from(is_scalar && !is_in_scalar),
        }
        is_in_scalar = is_scalar;
        if count.is_over() {
            break;
        }
    }
    count.values()
}

#[derive(Default)]
struct Count {
    /// Values and keys.
    begun: usize,
    /// Keys: what a colon follows.
    keys: usize,
    depth: usize,
}

impl Count {
    fn values(&self) -> usize {
        self.begun.saturating_sub(self.keys)
    }

    /// Whether the parser would have ended before. The last text may yet turn out to be a key.
    fn is_over(&self) -> bool {
        self.values() > MAX_VALUES + 1 || self.depth > MAX_NESTING
    }
}

/// Moves behind the quote that ends a string.
fn skip_string(rest: &mut std::slice::Iter<u8>) {
    while let Some(byte) = rest.next() {
        match byte {
            b'"' => return,
            b'\\' => drop(rest.next()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::parse_body;
    use super::*;

    /// The values of a parsed text.
    fn values(value: &Value) -> usize {
        1 + match value {
            Value::Array(items) => items.iter().map(values).sum(),
            Value::Object(fields) => fields.values().map(values).sum(),
            _ => 0,
        }
    }

    /// Texts full of what means something outside of strings.
    fn text() -> impl Strategy<Value = String> {
        prop::collection::vec(
            prop::sample::select(vec!['"', '\\', '[', '{', ':', ',', ' ', 'ä', '1', '\n']),
            0..6,
        )
        .prop_map(|chars| chars.into_iter().collect())
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            any::<f64>().prop_map(Value::from),
            text().prop_map(Value::from),
        ];
        leaf.prop_recursive(6, 200, 8, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..8).prop_map(Value::from),
                prop::collection::hash_map(text(), inner, 0..8)
                    .prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn the_count_is_the_number_of_parsed_values(value in any_json(), is_pretty: bool) {
            let text = if is_pretty {
                serde_json::to_string_pretty(&value).unwrap()
            } else {
                value.to_string()
            };
            prop_assert_eq!(count(text.as_bytes()), values(&value));
        }

        #[test]
        fn whatever_the_bytes_are_they_are_counted(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
            prop_assert!(count(&bytes) <= bytes.len());
        }
    }

    #[test]
    fn a_body_is_refused_by_its_count_exactly_when_the_parser_refuses_it_for_that() {
        let keys = |n| (0..n).map(|n| format!("\"k{n}\":\"v\"")).collect::<Vec<_>>().join(",");
        let object = |n| format!("{{{}}}", keys(n));
        let list = |n: usize| format!("{{\"a\":[{}0]}}", "0,".repeat(n - 1));
        let (last, over) = (MAX_VALUES - 1, MAX_VALUES);
        for body in [object(last), list(last - 1)] {
            assert_eq!(count_values(body.as_bytes()).unwrap(), MAX_VALUES);
            assert!(parse_body(body.as_bytes()).is_ok());
        }
        for body in [object(over), list(over - 1), object(3 * over), list(3 * over)] {
            let refused = count_values(body.as_bytes()).unwrap_err();
            let parsed = parse_body(body.as_bytes()).unwrap_err();
            assert_eq!(refused.issues(), parsed.issues());
            assert_eq!(refused.message(), parsed.message());
        }
    }

    #[test]
    fn what_is_nested_too_deeply_is_left_to_the_parser() {
        let deep = "[".repeat(100_000);
        assert!(count_values(deep.as_bytes()).is_ok());
        let below = format!("{{\"a\":{}{}}}", "[".repeat(MAX_NESTING - 1), "0,".repeat(100_000));
        assert!(count_values(below.as_bytes()).is_err());
    }

    #[test]
    fn an_empty_body_has_no_values() {
        assert_eq!(count_values(b"").unwrap(), 0);
        assert_eq!(count_values(b" ").unwrap(), 0);
        assert_eq!(count(json!({"a": [], "b": {}}).to_string().as_bytes()), 3);
    }
}
