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
    /// How many the list has, of routes that count and were asked to.
    #[serde(default)]
    total: Option<usize>,
    #[serde(default)]
    total_exact: Option<bool>,
}

impl<T: DeserializeOwned> List<T> {
    /// A list without items.
    pub fn none() -> Self {
        List { items: Vec::new(), next_cursor: Nullable(None), total: None, total_exact: None }
    }

    /// How many there are, in words; `None` if that is not known, or is seen at once. Of a list that is on
    /// its first page it need not be asked.
    pub fn in_all(&self, is_first: bool) -> Option<String> {
        let is_whole = is_first && self.next_cursor.is_none();
        let whole = Some(self.items.len()).filter(|_| is_whole);
        let total = whole.or(self.total).filter(|total| *total > 1)?;
        let is_exact = is_whole || self.total_exact.unwrap_or_default();
        Some(if is_exact { format!("{total} in all") } else { format!("{total} or more") })
    }

    /// Whether it may have more than is known.
    pub fn can_be_counted(&self) -> bool {
        self.next_cursor.is_some() && self.total.is_none()
    }

    /// Whether another order is one.
    pub fn has_order(&self) -> bool {
        self.items.len() > 1 || self.next_cursor.is_some()
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
    fn what_was_counted_to_a_bound_is_no_more_than_that() {
        let said = |json: &str| serde_json::from_str::<List<Shown>>(json).unwrap().in_all(false);
        let items = r#"{"items": [], "nextCursor": null"#;
        assert_eq!(said(&format!("{items}}}")), None);
        let counted = |total: usize, is_exact: bool| {
            said(&format!(r#"{items}, "total": {total}, "totalExact": {is_exact}}}"#))
        };
        assert_eq!((counted(1, true), counted(0, false)), (None, None));
        assert_eq!(counted(72, true).unwrap(), "72 in all");
        assert_eq!(counted(1000, false).unwrap(), "1000 or more");
        let first = |json: &str| {
            let list: List<Shown> = serde_json::from_str(json).unwrap();
            (list.in_all(true), list.can_be_counted())
        };
        let two = r#"{"items": [{"name": null}, {"name": null}], "nextCursor""#;
        assert_eq!(first(&format!("{two}: null}}")), (Some("2 in all".into()), false));
        assert_eq!(first(&format!("{two}: \"a\"}}")), (None, true));
    }

    #[test]
    fn a_nullable_field_may_be_null_but_not_absent() {
        let read = |json: &str| serde_json::from_str::<Shown>(json).map(|shown| shown.name.0);
        assert_eq!(read(r#"{"name": null}"#).unwrap(), None);
        assert_eq!(read(r#"{"name": "a"}"#).unwrap(), Some("a".into()));
        assert!(read("{}").unwrap_err().to_string().contains("name"));
    }
}
