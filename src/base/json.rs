//! JSON of unknown shape, and maps of texts.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Display;

use bincode::{
    Decode, Encode,
    de::Decoder,
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// Returns a variant of an enum as the API writes it.
pub fn word(variant: impl Serialize) -> String {
    let json = serde_json::to_value(variant).unwrap_or_default();
    json.as_str().unwrap_or_default().into()
}

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

/// A JSON object, stored exactly as received (order and nulls included), and its text in memory, too: as
/// values, a list of zeros takes twenty times as much.
#[derive(Clone, Debug)]
pub struct JsonMap(Box<str>);

impl JsonMap {
    /// Its fields. They may take much more memory than this; what is only passed on does not need them.
    pub fn to_map(&self) -> Map<String, Value> {
        serde_json::from_str(&self.0).expect("it is made of a map, and was read before")
    }
}

impl From<Map<String, Value>> for JsonMap {
    fn from(fields: Map<String, Value>) -> Self {
        JsonMap(Value::Object(fields).to_string().into())
    }
}

impl Default for JsonMap {
    fn default() -> Self {
        Map::new().into()
    }
}

/// The order of fields does not matter.
impl PartialEq for JsonMap {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0 || self.to_map() == other.to_map()
    }
}

impl Serialize for JsonMap {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_transcode::transcode(&mut serde_json::Deserializer::from_str(&self.0), serializer)
    }
}

impl<'de> Deserialize<'de> for JsonMap {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Map::deserialize(deserializer).map(Into::into)
    }
}

/// A stored text that is no JSON, or of another kind.
fn broken(error: impl Display) -> DecodeError {
    DecodeError::OtherString(error.to_string())
}

impl Encode for Json {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.to_string().encode(encoder)
    }
}
impl<C> Decode<C> for Json {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        serde_json::from_str(&String::decode(decoder)?).map_err(broken)
    }
}
bincode::impl_borrow_decode!(Json);

impl Encode for JsonMap {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.encode(encoder)
    }
}
impl<C> Decode<C> for JsonMap {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        let text = String::decode(decoder)?;
        // Without values: these are made where they are needed.
        serde_json::from_str::<IgnoredAny>(&text).map_err(broken)?;
        if !text.starts_with('{') {
            return Err(broken("not a JSON object"));
        }
        Ok(JsonMap(text.into()))
    }
}
bincode::impl_borrow_decode!(JsonMap);

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

#[cfg(test)]
mod tests {
    use bincode::config;

    use super::*;

    #[test]
    fn only_the_text_of_an_object_is_read_as_one() {
        let read = |text: &str| {
            let stored = bincode::encode_to_vec(text, config::legacy()).unwrap();
            bincode::decode_from_slice::<JsonMap, _>(&stored, config::legacy()).map(|(map, _)| map)
        };
        let text = r#"{"z":null,"a":[1,-0.0,1e300,18446744073709551615]}"#;
        let map = read(text).unwrap();
        assert_eq!(serde_json::to_string(&map).unwrap(), text.replace("1e300", "1e+300"));
        for other in ["[]", "5", "{", "", r#"{"a":1}x"#] {
            assert!(read(other).is_err(), "{other}");
        }
    }
}
