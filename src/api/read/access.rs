//! The parts of lists and objects, handed to a type one after the other.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::collect::Stop;
use super::path::Path;
use super::reader::Reader;

/// The items of a list.
pub struct Items<'a> {
    items: std::slice::Iter<'a, Value>,
    index: usize,
    list: Reader<'a>,
}

impl<'a> Items<'a> {
    /// The items of `list`.
    pub fn new(items: &'a [Value], list: Reader<'a>) -> Self {
        Items { items: items.iter(), index: 0, list }
    }
}

impl<'de> SeqAccess<'de> for Items<'_> {
    type Error = Stop;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Stop> {
        let Some(value) = self.items.next() else { return Ok(None) };
        let path = Path::Item(self.list.path(), self.index);
        self.index += 1;
        self.list.read_part(&path, Some(value), seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The fields that a type names. What else the object has is not looked at.
pub struct Fields<'a> {
    names: std::slice::Iter<'static, &'static str>,
    /// `None` for a placeholder, in which every field is one.
    fields: Option<&'a Map<String, Value>>,
    current: Option<(&'static str, Option<&'a Value>)>,
    object: Reader<'a>,
}

impl<'a> Fields<'a> {
    /// The fields of `object` that are in `names`.
    pub fn new(
        names: &'static [&'static str],
        fields: Option<&'a Map<String, Value>>,
        object: Reader<'a>,
    ) -> Self {
        Fields { names: names.iter(), fields, current: None, object }
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = Stop;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Stop> {
        for &name in self.names.by_ref() {
            let value = self.fields.and_then(|fields| fields.get(name));
            // Once it is noted that a required field is missing, a placeholder is there.
            let is_there = value.is_some()
                || self.fields.is_none()
                || self.object.is_settled(&Path::Field(self.object.path(), name));
            if is_there {
                self.current = Some((name, value));
                let key: StrDeserializer<Stop> = name.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        let (name, value) = self.current.take().expect("serde asks for the key first");
        self.object.read_part(&Path::Field(self.object.path(), name), value, seed)
    }
}

/// The entries of an object whose keys are the sender's. Settled ones are left out: a placeholder
/// for a key could be the key of another.
pub struct Entries<'a> {
    entries: serde_json::map::Iter<'a>,
    current: Option<(&'a str, &'a Value)>,
    object: Reader<'a>,
}

impl<'a> Entries<'a> {
    /// The entries of `object`.
    pub fn new(entries: &'a Map<String, Value>, object: Reader<'a>) -> Self {
        Entries { entries: entries.iter(), current: None, object }
    }
}

impl<'de> MapAccess<'de> for Entries<'_> {
    type Error = Stop;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, Stop> {
        for (key, value) in self.entries.by_ref() {
            let path = Path::Entry(self.object.path(), key);
            if !self.object.is_settled(&path) {
                self.current = Some((key, value));
                return self.object.read_key(&path, key, seed).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, Stop> {
        let (key, value) = self.current.take().expect("serde asks for the key first");
        self.object.read_part(&Path::Entry(self.object.path(), key), Some(value), seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}

/// A key of the sender's choice: a text, a checked text or one of several names.
pub struct Key<'a>(pub &'a str);

impl<'de> Deserializer<'de> for Key<'_> {
    type Error = Stop;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        visitor.visit_str(self.0)
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        visitor.visit_enum(IntoDeserializer::<Stop>::into_deserializer(self.0))
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf option
        unit unit_struct seq tuple tuple_struct map struct identifier ignored_any
    }
}
