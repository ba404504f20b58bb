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
pub enum Nullable<T> {
    /// Not sent: stays unchanged.
    #[default]
    Absent,
    /// Sent as `null`: cleared.
    Clear,
    /// Sent with a value.
    Set(T),
}

impl<T> Nullable<T> {
    /// Applies the field to a stored value.
    pub fn apply(self, value: &mut Option<T>) {
        match self {
            Nullable::Absent => {}
            Nullable::Clear => *value = None,
            Nullable::Set(new) => *value = Some(new),
        }
    }

    /// Returns the value sent, if one was.
    pub fn value(&self) -> Option<&T> {
        match self {
            Nullable::Set(value) => Some(value),
            _ => None,
        }
    }

    /// Returns whether the field was sent at all.
    pub fn is_sent(&self) -> bool {
        !matches!(self, Nullable::Absent)
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Nullable<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Option::deserialize(deserializer).map(|value| match value {
            Some(value) => Nullable::Set(value),
            None => Nullable::Clear,
        })
    }
}

impl<T: JsonSchema> JsonSchema for Nullable<T> {
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
