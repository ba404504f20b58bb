//! Values of JSON in TOML files.
//!
//! TOML has no null, and its integers have 64 bits: an object that it cannot express is written as
//! JSON text instead.

use serde_json::{Map, Number, Value};

/// Why a value of TOML has none in JSON.
#[derive(Debug, PartialEq, Eq)]
pub struct NotJson(pub &'static str);

/// Returns a table as an object.
///
/// # Errors
/// It has a date or time, or a number that JSON has not.
pub fn object(table: toml::Table) -> Result<Map<String, Value>, NotJson> {
    table.into_iter().map(|(name, value)| Ok((name, to_json(value)?))).collect()
}

fn to_json(value: toml::Value) -> Result<Value, NotJson> {
    Ok(match value {
        toml::Value::String(text) => text.into(),
        toml::Value::Integer(number) => number.into(),
        toml::Value::Boolean(flag) => flag.into(),
        toml::Value::Float(number) => Number::from_f64(number)
            .ok_or(NotJson("has a number that is none: infinity or nan"))?
            .into(),
        toml::Value::Datetime(_) => {
            return Err(NotJson("has a date or time; write it as a text, in quotation marks"));
        }
        toml::Value::Array(items) => items.into_iter().map(to_json).collect::<Result<_, _>>()?,
        toml::Value::Table(table) => Value::Object(object(table)?),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_table_is_an_object() {
        let table = "a = 1\nb = [true, 1.5, \"x\"]\n[c]\nd = {}\n".parse::<toml::Table>().unwrap();
        let expected = json!({"a": 1, "b": [true, 1.5, "x"], "c": {"d": {}}});
        assert_eq!(Value::Object(object(table).unwrap()), expected);
    }

    #[test]
    fn dates_and_numbers_that_are_none_are_refused() {
        for text in ["a = 2020-01-01", "a = nan", "a = [inf]", "a = 07:00:00"] {
            assert!(object(text.parse().unwrap()).is_err(), "{text}");
        }
    }
}
