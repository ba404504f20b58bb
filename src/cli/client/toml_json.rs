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

/// Returns an object as a file: fields without a value left out, those that TOML cannot express as
/// JSON in a text whose name ends in `json_suffix`. Equal objects have the same text.
pub fn text(fields: &Map<String, Value>, json_suffix: &str) -> String {
    let mut table = toml::Table::new();
    for (name, value) in fields {
        match to_toml(value) {
            Some(toml) => {
                table.insert(name.clone(), toml);
            }
            None if value.is_null() => {}
            None => {
                let mut value = value.clone();
                value.sort_all_objects();
                table.insert(format!("{name}{json_suffix}"), format!("{value:#}").into());
            }
        }
    }
    toml::to_string_pretty(&table).expect("a table of strings and numbers is TOML")
}

/// Returns a value of TOML; `None` if there is none.
fn to_toml(value: &Value) -> Option<toml::Value> {
    Some(match value {
        Value::Null => return None,
        Value::Bool(flag) => (*flag).into(),
        Value::String(text) => text.as_str().into(),
        Value::Number(number) if number.is_f64() => number.as_f64()?.into(),
        Value::Number(number) => number.as_i64()?.into(),
        Value::Array(items) => {
            toml::Value::Array(items.iter().map(to_toml).collect::<Option<_>>()?)
        }
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, value)| Some((name.clone(), to_toml(value)?)));
            toml::Value::Table(fields.collect::<Option<_>>()?)
        }
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
    fn an_object_comes_back_from_its_file() {
        for value in [
            json!({}),
            json!({"b": {"x": 1}, "a": "text", "list": [{"c": "d"}, {"e": []}], "n": -1.5}),
            json!({"text": "two\nlines\r\n\ttab \"quoted\" '''three''' \u{7} \\ end"}),
            json!({"text": "\nfirst line is empty", "other": "+++\n"}),
            json!({"map": {"null": null, "b": 1, "a": 2}, "large": u64::MAX, "odd": [null]}),
            json!({"config": {"a b": {"": "x", "ü": [[1, 2], ["y"]]}}, "f": 1.0}),
        ] {
            let fields = value.as_object().unwrap();
            let written = text(fields, "Json");
            let read = object(written.parse().unwrap()).unwrap();
            let read = read.into_iter().map(|(name, value)| match name.strip_suffix("Json") {
                Some(of) => {
                    (of.to_string(), serde_json::from_str(value.as_str().unwrap()).unwrap())
                }
                None => (name, value),
            });
            assert_eq!(Value::Object(read.collect()), value, "{written}");
        }
    }

    #[test]
    fn dates_and_numbers_that_are_none_are_refused() {
        for text in ["a = 2020-01-01", "a = nan", "a = [inf]", "a = 07:00:00"] {
            assert!(object(text.parse().unwrap()).is_err(), "{text}");
        }
    }
}
