//! Bounded lists: validated when deserialized, with their bounds in the OpenAPI document.

use std::borrow::Cow;
use std::ops::Deref;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};

use super::validated::checked;

/// A list of `MIN` to `MAX` items.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BoundedList<T, const MIN: usize, const MAX: usize>(Vec<T>);

impl<T, const MIN: usize, const MAX: usize> BoundedList<T, MIN, MAX> {
    /// Checks a list; the error is a phrase such as "must have at most 50 items".
    pub fn new(items: Vec<T>) -> Result<Self, String> {
        if (MIN..=MAX).contains(&items.len()) {
            Ok(BoundedList(items))
        } else if MIN == 0 {
            Err(format!("must have at most {MAX} items"))
        } else {
            Err(format!("must have {MIN} to {MAX} items"))
        }
    }

    /// Returns the items.
    pub fn into_vec(self) -> Vec<T> {
        self.0
    }
}

impl<T, const MIN: usize, const MAX: usize> Deref for BoundedList<T, MIN, MAX> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.0
    }
}

impl<'de, T: Deserialize<'de>, const MIN: usize, const MAX: usize> Deserialize<'de>
    for BoundedList<T, MIN, MAX>
{
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        checked(deserializer, Self::new, || BoundedList(Vec::new()))
    }
}

impl<T: JsonSchema, const MIN: usize, const MAX: usize> JsonSchema for BoundedList<T, MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "List".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let items = generator.subschema_for::<T>();
        let mut schema = json_schema!({"type": "array", "items": items, "maxItems": MAX});
        if MIN > 0 {
            schema.insert("minItems".into(), MIN.into());
        }
        schema
    }
}
