//! What pages read of the API's answers: fields that must be there.
//!
//! A page declares the fields that it shows as a struct. Serde takes an absent field for `None`, so
//! an `Option` would hide that the API has renamed it; [`Nullable`] is an error then, as any other
//! type is.

use std::ops::Deref;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// A field that is `null` or a value, and never absent.
#[derive(Clone, Debug, PartialEq)]
pub struct Nullable<T>(pub Option<T>);

impl<T> Deref for Nullable<T> {
    type Target = Option<T>;
    fn deref(&self) -> &Option<T> {
        &self.0
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Unlike an option, a value cannot be made of an absent field.
        match Value::deserialize(deserializer)? {
            Value::Null => Ok(Nullable(None)),
            value => serde_json::from_value(value).map(|value| Nullable(Some(value))),
        }
        .map_err(serde::de::Error::custom)
    }
}

/// A page of a list.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct List<T: DeserializeOwned> {
    #[serde(bound = "T: DeserializeOwned")]
    pub items: Vec<T>,
    /// Where the next page begins.
    #[serde(bound = "T: DeserializeOwned")]
    pub next_cursor: Nullable<String>,
}

impl<T: DeserializeOwned> List<T> {
    /// A list without items.
    pub fn none() -> Self {
        List { items: Vec::new(), next_cursor: Nullable(None) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, Deserialize)]
    struct Shown {
        name: Nullable<String>,
    }

    #[test]
    fn a_nullable_field_may_be_null_but_not_absent() {
        let read = |json: &str| serde_json::from_str::<Shown>(json).map(|shown| shown.name.0);
        assert_eq!(read(r#"{"name": null}"#).unwrap(), None);
        assert_eq!(read(r#"{"name": "a"}"#).unwrap(), Some("a".into()));
        assert!(read("{}").unwrap_err().to_string().contains("name"));
    }
}
