//! An object parameter of a query that was sent in two encodings: as JSON, and by its members.

use serde_json::{Map, Value};

use super::json::parse_object;
use super::path::Path;
use super::query::join;
use super::state::ReadError;
use crate::base::Issue;

/// The members of an object by how they were sent.
pub struct Mixed {
    /// Those sent by name, as texts.
    pub named: Map<String, Value>,
    /// Those of the JSON text.
    pub json: Map<String, Value>,
}

impl Mixed {
    /// The object of which these parts were sent; `None` if another kind of value is among them, or
    /// more than one JSON text.
    ///
    /// # Errors
    /// Those of the JSON text, and each member that is in both encodings.
    pub fn of(parts: &[Value], path: &Path) -> Result<Option<Self>, ReadError> {
        let mut named = Map::new();
        let mut text = None;
        for part in parts {
            match part {
                Value::Object(members) => {
                    members.iter().for_each(|(name, value)| join(&mut named, name, value.clone()));
                }
                Value::String(json) if text.is_none() && json.trim_start().starts_with('{') => {
                    text = Some(json);
                }
                _ => return Ok(None),
            }
        }
        let Some(text) = text else { return Ok(None) };
        let parsed = parse_object(text.as_bytes(), path).map_err(ReadError::Within)?;
        let Value::Object(json) = parsed else { return Ok(None) };
        let twice = named.keys().filter(|name| json.contains_key(*name));
        let issues: Vec<Issue> = twice
            .map(|name| Issue::new(Path::Entry(path, name).to_string(), "must be given once"))
            .collect();
        if issues.is_empty() {
            Ok(Some(Mixed { named, json }))
        } else {
            Err(ReadError::Within(issues))
        }
    }
}
