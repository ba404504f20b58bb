//! The items of a list, and the fields and entries of an object, as serde's data format.

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, IntoDeserializer, MapAccess, SeqAccess};
use serde_json::{Map, Value};

use super::path::Path;
use super::reader::Reader;
use super::state::ReadError;

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
    type Error = ReadError;

    fn next_element_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        let Some(value) = self.items.next() else { return Ok(None) };
        let path = Path::Item(self.list.path(), self.index);
        self.index += 1;
        self.list.read_part(&path, Some(value), seed).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.items.len())
    }
}

/// The fields of a type, and what happens to other fields of the object.
pub struct Fields<'a> {
    all_names: &'static [&'static str],
    names: std::slice::Iter<'static, &'static str>,
    /// `None` for a placeholder, in which every field is one.
    fields: Option<&'a Map<String, Value>>,
    current: Option<(&'static str, Option<&'a Value>)>,
    /// How many fields of the object were found by their names.
    found: usize,
    object: Reader<'a>,
}

impl<'a> Fields<'a> {
    /// The fields of `object` that are in `names`.
    pub fn new(
        names: &'static [&'static str],
        fields: Option<&'a Map<String, Value>>,
        object: Reader<'a>,
    ) -> Self {
        Fields { all_names: names, names: names.iter(), fields, current: None, found: 0, object }
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = ReadError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        for &name in self.names.by_ref() {
            let value = self.fields.and_then(|fields| fields.get(name));
            self.found += usize::from(value.is_some());
            // A missing required field that is already recorded gets a placeholder.
            let is_there = value.is_some()
                || self.fields.is_none()
                || self.object.is_settled(&Path::Field(self.object.path(), name));
            if is_there {
                self.current = Some((name, value));
                let key: StrDeserializer<ReadError> = name.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
        }
        if let Some(fields) = self.fields.filter(|fields| fields.len() > self.found) {
            self.object.refuse_unknown(self.all_names, fields);
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let (name, value) = self.current.take().expect("serde asks for the key first");
        self.object.read_part(&Path::Field(self.object.path(), name), value, seed)
    }
}

/// The entries of an object whose keys are chosen by the client. Settled ones are left out: a
/// placeholder for a key could equal another key.
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
    type Error = ReadError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        for (key, value) in self.entries.by_ref() {
            let path = Path::Entry(self.object.path(), key);
            if !self.object.is_settled(&path) {
                self.current = Some((key, value));
                return self.object.read_key(&path, key, seed).map(Some);
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let (key, value) = self.current.take().expect("serde asks for the key first");
        self.object.read_part(&Path::Entry(self.object.path(), key), Some(value), seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}
