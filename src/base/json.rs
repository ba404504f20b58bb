//! JSON of unknown shape, and maps of texts.

use std::borrow::Cow;
use std::collections::BTreeMap;

use bincode::{
    Decode, Encode,
    de::{BorrowDecoder, Decoder},
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A map from text to text.
pub type StringMap = BTreeMap<String, String>;

/// The schema of a [`StringMap`], with a name: a generator would have to make up one where the map may
/// be null.
pub struct StringMapSchema;

impl JsonSchema for StringMapSchema {
    fn schema_name() -> Cow<'static, str> {
        "StringMap".into()
    }
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = StringMap::json_schema(generator);
        schema.insert("description".into(), "Texts, by name.".into());
        schema
    }
}

/// Any JSON. Stored as its text, since the codec does not describe itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Json(pub Value);

/// A JSON object, stored exactly as received (order and nulls included).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JsonMap(pub serde_json::Map<String, Value>);

macro_rules! stored_as_text {
    ($type:ty) => {
        impl Encode for $type {
            fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
                serde_json::to_string(&self.0)
                    .map_err(|e| EncodeError::OtherString(e.to_string()))?
                    .encode(encoder)
            }
        }
        impl<C> Decode<C> for $type {
            fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
                let text = String::decode(decoder)?;
                serde_json::from_str(&text).map_err(|e| DecodeError::OtherString(e.to_string()))
            }
        }
        impl<'de, C> bincode::BorrowDecode<'de, C> for $type {
            fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
                decoder: &mut D,
            ) -> Result<Self, DecodeError> {
                Self::decode(decoder)
            }
        }
    };
}
stored_as_text!(Json);
stored_as_text!(JsonMap);

impl JsonSchema for Json {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Json".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({})
    }
}
impl JsonSchema for JsonMap {
    fn schema_name() -> Cow<'static, str> {
        "JsonObject".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "description": "Any JSON object."})
    }
}
