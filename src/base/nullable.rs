//! A field of a PATCH that can be cleared.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Deserializer};

/// A nullable field of a PATCH: absent leaves it, `null` clears it
/// (reference: conventions, "Absent fields and null").
///
/// In an input type it stands with `#[serde(default)]`. A field that cannot be null is an
/// `Option`: there `null` means the same as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Field<T> {
    /// Not sent: stays as it is.
    #[default]
    Absent,
    /// Sent as `null`: cleared.
    Clear,
    /// Sent with a value.
    Set(T),
}

impl<T> Field<T> {
    /// Puts what was sent, if anything was, into `place`.
    pub fn apply(self, place: &mut Option<T>) {
        match self {
            Field::Absent => {}
            Field::Clear => *place = None,
            Field::Set(value) => *place = Some(value),
        }
    }

    /// The value sent, if one was.
    pub fn value(&self) -> Option<&T> {
        match self {
            Field::Set(value) => Some(value),
            _ => None,
        }
    }

    /// Whether the field was sent at all.
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
