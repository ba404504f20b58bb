//! Ids: UUIDv7, typed by what they name (reference: conventions, "Ids").

use std::fmt;
use std::hash::{Hash, Hasher};
use std::marker::PhantomData;

use bincode::{
    Decode, Encode,
    de::{BorrowDecoder, Decoder},
    enc::Encoder,
    error::{DecodeError, EncodeError},
};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use super::Time;

/// The id of a `T`.
///
/// Text that is no UUID parses as [`Id::NIL`], which names no record: a malformed id and one that
/// never existed then take the same path and get the same 404 (reference: conventions, "Not found").
pub struct Id<T: ?Sized>(Uuid, PhantomData<fn() -> Box<T>>);

impl<T: ?Sized> Id<T> {
    /// The nil id, which names no record.
    pub const NIL: Self = Id(Uuid::nil(), PhantomData);

    /// Wraps a UUID.
    pub const fn new(uuid: Uuid) -> Self {
        Id(uuid, PhantomData)
    }

    /// Parses the hyphenated form; anything else is [`Id::NIL`].
    pub fn parse(text: &str) -> Self {
        // 36 characters: the parser would also take braces, URNs and no hyphens.
        if text.len() != 36 {
            return Self::NIL;
        }
        Uuid::try_parse(text).map_or(Self::NIL, Id::new)
    }

    /// Returns whether it is the nil id.
    pub fn is_nil(self) -> bool {
        self.0.is_nil()
    }

    /// Returns the UUID.
    pub fn uuid(self) -> Uuid {
        self.0
    }

    /// Returns its 16 bytes, which sort by creation.
    pub fn bytes(&self) -> &[u8; 16] {
        self.0.as_bytes()
    }

    /// Returns the time in it: when it was made, in milliseconds.
    pub fn time(self) -> Time {
        Time::from_millis((self.0.as_u128() >> 80) as i64)
    }

    /// Returns the next id, the end of the range of keys that begin with this one. Of the largest it
    /// is the same.
    pub fn successor(self) -> Self {
        Id::new(Uuid::from_u128(self.0.as_u128().saturating_add(1)))
    }

    /// Returns the same id as that of another type, where two records share one identity.
    pub fn cast<U: ?Sized>(self) -> Id<U> {
        Id::new(self.0)
    }
}

// Derives would ask the same of `T`, which is only a name here.
impl<T: ?Sized> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T: ?Sized> Copy for Id<T> {}
impl<T: ?Sized> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl<T: ?Sized> Eq for Id<T> {}
impl<T: ?Sized> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T: ?Sized> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
impl<T: ?Sized> Hash for Id<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl<T: ?Sized> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.as_hyphenated().fmt(f)
    }
}
impl<T: ?Sized> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<T: ?Sized> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = Uuid::encode_buffer();
        serializer.serialize_str(self.0.as_hyphenated().encode_lower(&mut text))
    }
}
impl<'de, T: ?Sized> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(|text| Id::parse(&text))
    }
}
impl<T: ?Sized> JsonSchema for Id<T> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Id".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "uuid"})
    }
}

impl<T: ?Sized> Encode for Id<T> {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.0.as_bytes().encode(encoder)
    }
}
impl<T: ?Sized, C> Decode<C> for Id<T> {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Self, DecodeError> {
        <[u8; 16]>::decode(decoder).map(|bytes| Id::new(Uuid::from_bytes(bytes)))
    }
}
impl<'de, T: ?Sized, C> bincode::BorrowDecode<'de, C> for Id<T> {
    fn borrow_decode<D: BorrowDecoder<'de, Context = C>>(
        decoder: &mut D,
    ) -> Result<Self, DecodeError> {
        Self::decode(decoder)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_that_is_no_uuid_parses_as_nil() {
        for text in ["", "nope", "{01890a5d-ac96-774b-bcce-b302099a8057}", "0189"] {
            assert!(Id::<()>::parse(text).is_nil(), "{text}");
        }
        let text = "01890a5d-ac96-774b-bcce-b302099a8057";
        assert_eq!(Id::<()>::parse(text).to_string(), text);
    }
}
