//! Fields of a PATCH that can be cleared.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

/// A nullable field of a PATCH: absent leaves it unchanged, `null` clears it
/// (reference: conventions, "Absent fields and null").
///
/// In an input type it needs `#[serde(default)]`. A field that cannot be null is an
/// `Option`: there `null` means the same as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field<T> {
    /// Not sent: stays unchanged.
    #[default]
    Absent,
    /// Sent as `null`: cleared.
    Clear,
    /// Sent with a value.
    Set(T),
}

impl<T> Field<T> {
    /// Applies the field to a stored value.
    pub fn apply(self, value: &mut Option<T>) {
        match self {
            Field::Absent => {}
            Field::Clear => *value = None,
            Field::Set(new) => *value = Some(new),
        }
    }

    /// Returns the value sent, if one was.
    pub fn value(&self) -> Option<&T> {
        match self {
            Field::Set(value) => Some(value),
            _ => None,
        }
    }

    /// Returns whether the field was sent at all.
    pub fn is_sent(&self) -> bool {
        !matches!(self, Field::Absent)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Field<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(|value| match value {
            Some(value) => Field::Set(value),
            None => Field::Clear,
        })
    }
}

impl<T: JsonSchema> JsonSchema for Field<T> {
    fn inline_schema() -> bool {
        Option::<T>::inline_schema()
    }
    fn schema_name() -> Cow<'static, str> {
        Option::<T>::schema_name()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        Option::<T>::json_schema(generator)
    }
}
