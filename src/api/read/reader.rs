//! A JSON value as serde's data format: what each Rust type accepts, and the messages otherwise.

use std::fmt::Display;

use serde::de::value::StrDeserializer;
use serde::de::{DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Number, Value};

use super::json::parse_object;
use super::key::Key;
use super::mixed::Mixed;
use super::options::SourceFormat;
use super::path::Path;
use super::state::{Placeholder, ReadError, ReadState};
use super::unknown;
use crate::base::whole_number;

/// The name under which [`base::checked`](crate::base::checked) reads. It takes a unit in place of
/// a value, and nothing else does.
const CHECKED: &str = "Checked";

/// Deserializes the value at one path.
pub struct Reader<'a> {
    /// `None` for a placeholder: a value that any type accepts, so that reading continues.
    value: Option<&'a Value>,
    mode: SourceFormat,
    path: &'a Path<'a>,
    /// Whether it or a value inside it is settled.
    is_marked: bool,
    state: &'a mut ReadState,
}

impl<'a> Reader<'a> {
    /// The reader of the whole value.
    pub fn root(value: &'a Value, mode: SourceFormat, state: &'a mut ReadState) -> Self {
        Reader::new(Some(value), mode, &Path::Root, true, state)
    }

    fn new(
        value: Option<&'a Value>,
        mode: SourceFormat,
        path: &'a Path<'a>,
        is_in_marked: bool,
        state: &'a mut ReadState,
    ) -> Self {
        state.count();
        let mark = if is_in_marked { state.mark(path) } else { None };
        let value = value.filter(|_| mark != Some(Placeholder::Settled));
        Reader { value, mode, path, is_marked: mark.is_some(), state }
    }

    /// Its path.
    pub fn path(&self) -> &'a Path<'a> {
        self.path
    }

    /// Whether the value inside it at `path` is settled.
    pub fn is_settled(&self, path: &Path) -> bool {
        self.is_marked && self.state.mark(path) == Some(Placeholder::Settled)
    }

    /// Reads the value inside it at `path`, which was sent in this format; `None` for a placeholder.
    pub fn read_part<'de, S: DeserializeSeed<'de>>(
        &mut self,
        mode: SourceFormat,
        path: &Path,
        value: Option<&Value>,
        seed: S,
    ) -> Result<S::Value, ReadError> {
        seed.deserialize(Reader::new(value, mode, path, self.is_marked, self.state))
            .map_err(|error| self.state.record(path, error))
    }

    /// Reads the key of the value inside it at `path`.
    pub fn read_key<'de, S: DeserializeSeed<'de>>(
        &mut self,
        path: &Path,
        key: &str,
        seed: S,
    ) -> Result<S::Value, ReadError> {
        seed.deserialize(Key(key)).map_err(|error| self.state.record(path, error))
    }

    /// Treats the fields of this object that are not in `names` as the request wishes.
    pub fn refuse_unknown(
        &mut self,
        names: &[&str],
        fields: &Map<String, Value>,
        mode: SourceFormat,
    ) {
        unknown::refuse(self.state, mode, self.path, names, fields);
    }

    /// Why the value is not what was expected.
    fn wrong(&self, expected: &str) -> ReadError {
        let message = match (self.mode, self.value, self.path) {
            (SourceFormat::Query, Some(Value::Null), _) => "must be percent-encoded UTF-8",
            (SourceFormat::Query, Some(Value::Array(_)), _) => "must be given once, not as a list",
            (SourceFormat::Body, Some(Value::Null), Path::Field(..)) => "is required",
            _ => expected,
        };
        ReadError::Wrong(message.into())
    }

    fn bool(&self) -> Result<bool, ReadError> {
        match (self.value, self.mode) {
            (None, _) => Ok(false),
            (Some(Value::Bool(value)), SourceFormat::Body) => Ok(*value),
            (Some(Value::String(text)), SourceFormat::Query) if text == "true" => Ok(true),
            (Some(Value::String(text)), SourceFormat::Query) if text == "false" => Ok(false),
            _ => Err(self.wrong("must be true or false")),
        }
    }

    /// A number that fits the type: in a body without a fractional part, however it is written, in a
    /// query in digits.
    fn whole_number<N: TryFrom<i128> + Display>(&self, min: N, max: N) -> Result<N, ReadError> {
        let number: Option<i128> = match (self.value, self.mode) {
            (None, _) => Some(0),
            (Some(Value::Number(n)), SourceFormat::Body) => whole_number(n),
            (Some(Value::String(text)), SourceFormat::Query) => parse_digits(text),
            _ => None,
        };
        let number = number.ok_or_else(|| self.wrong("must be a whole number"))?;
        N::try_from(number)
            .map_err(|_| ReadError::Wrong(format!("must be a whole number from {min} to {max}")))
    }

    fn number(&self) -> Result<f64, ReadError> {
        let number = match (self.value, self.mode) {
            (None, _) => Some(0.0),
            (Some(Value::Number(n)), SourceFormat::Body) => n.as_f64(),
            (Some(Value::String(text)), SourceFormat::Query) => {
                text.parse().ok().and_then(|n: Number| n.as_f64())
            }
            _ => None,
        };
        number.ok_or_else(|| self.wrong("must be a number"))
    }

    fn text(&self) -> Result<&'a str, ReadError> {
        match self.value {
            None => Ok(""),
            Some(Value::String(text)) => Ok(text),
            Some(_) => Err(self.wrong("must be a string")),
        }
    }

    /// The items of a list. In a query a single text is a list of one.
    fn items(&self) -> Result<&'a [Value], ReadError> {
        match (self.value, self.mode) {
            (None, _) => Ok(&[]),
            (Some(Value::Array(items)), _) => Ok(items),
            (Some(one @ Value::String(_)), SourceFormat::Query) => Ok(std::slice::from_ref(one)),
            _ => Err(self.wrong("must be a list")),
        }
    }

    /// Reads the fields of an object with `then`. In a query the object may be JSON text, which is
    /// parsed as strictly as a body.
    fn object<T>(
        self,
        then: impl FnOnce(Option<&Map<String, Value>>, Reader) -> Result<T, ReadError>,
    ) -> Result<T, ReadError> {
        match (self.value, self.mode) {
            (None, _) => then(None, self),
            (Some(Value::Object(fields)), _) => then(Some(fields), self),
            (Some(Value::String(text)), SourceFormat::Query)
                if text.trim_start().starts_with('{') =>
            {
                let value = parse_object(text.as_bytes(), self.path).map_err(ReadError::Within)?;
                then(value.as_object(), Reader { mode: SourceFormat::Body, ..self })
            }
            (_, SourceFormat::Query) => {
                Err(self.wrong("must be an object: name[field]=…, name.field=… or name={…}"))
            }
            (_, SourceFormat::Body) => Err(self.wrong("must be an object")),
        }
    }
}

/// Decimal digits after an optional minus.
fn parse_digits(text: &str) -> Option<i128> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    // The parser would accept a plus sign too.
    if !digits.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

/// The functions for whole numbers of each type.
macro_rules! whole_numbers {
    ($($deserialize:ident $visit:ident $number:ident),* $(,)?) => {$(
        fn $deserialize<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
            visitor.$visit(self.whole_number($number::MIN, $number::MAX)?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Reader<'_> {
    type Error = ReadError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match (self.value, self.mode) {
            (Some(Value::Null), SourceFormat::Query) => Err(self.wrong("must be text")),
            (None | Some(Value::Null), _) => visitor.visit_unit(),
            (Some(Value::Bool(value)), _) => visitor.visit_bool(*value),
            (Some(Value::Number(number)), _) => match (number.as_u64(), number.as_i64()) {
                (Some(n), _) => visitor.visit_u64(n),
                (None, Some(n)) => visitor.visit_i64(n),
                (None, None) => visitor.visit_f64(self.number()?),
            },
            (Some(Value::String(text)), _) => visitor.visit_str(text),
            (Some(Value::Array(_)), _) => self.deserialize_seq(visitor),
            (Some(Value::Object(_)), _) => self.deserialize_map(visitor),
        }
    }

    // No input type uses these.
    forward_to_deserialize_any! { char bytes byte_buf tuple tuple_struct }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_bool(self.bool()?)
    }

    whole_numbers! {
        deserialize_i8 visit_i8 i8, deserialize_i16 visit_i16 i16, deserialize_i32 visit_i32 i32,
        deserialize_i64 visit_i64 i64, deserialize_i128 visit_i128 i128, deserialize_u8 visit_u8 u8,
        deserialize_u16 visit_u16 u16, deserialize_u32 visit_u32 u32, deserialize_u64 visit_u64 u64,
    }

    fn deserialize_f32<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_f64<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_f64(self.number()?)
    }

    fn deserialize_str<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_str(self.text()?)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        match (self.value, self.mode) {
            (None, _) | (Some(Value::Null), SourceFormat::Body) => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    /// An input that takes nothing.
    fn deserialize_unit<V: Visitor<'de>>(mut self, visitor: V) -> Result<V::Value, ReadError> {
        if let Some(Value::Object(fields)) = self.value {
            self.refuse_unknown(&[], fields, self.mode);
        }
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        match self.value {
            None if name == CHECKED => visitor.visit_unit(),
            _ => visitor.visit_newtype_struct(self),
        }
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        visitor.visit_seq(Items::new(self.items()?, self))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, ReadError> {
        let nothing = Map::new();
        self.object(|entries, object| {
            visitor.visit_map(Entries::new(entries.unwrap_or(&nothing), object))
        })
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        names: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        if let (Some(Value::Array(parts)), SourceFormat::Query) = (self.value, self.mode)
            && let Some(Mixed { named, json }) = Mixed::of(parts, self.path)?
        {
            let fields = Fields::new(names, Some(&named), self);
            return visitor.visit_map(Fields { json: Some(&json), ..fields });
        }
        self.object(|fields, object| visitor.visit_map(Fields::new(names, fields, object)))
    }

    /// Unit variants only, written as their names.
    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, ReadError> {
        let name = match self.value {
            None => variants.first(),
            Some(Value::String(text)) => variants.iter().find(|name| *name == text),
            Some(_) => None,
        };
        match name {
            Some(name) => {
                visitor.visit_enum(IntoDeserializer::<ReadError>::into_deserializer(*name))
            }
            None => Err(self.wrong(&format!("must be one of {}", variants.join(", ")))),
        }
    }
}

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
        self.list.read_part(self.list.mode, &path, Some(value), seed).map(Some)
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
    /// Fields of a query's object that were sent as JSON, none of which is in `fields`.
    json: Option<&'a Map<String, Value>>,
    current: Option<(&'static str, Option<&'a Value>, SourceFormat)>,
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
        let (all_names, names) = (names, names.iter());
        Fields { all_names, names, fields, json: None, current: None, found: 0, object }
    }
}

impl<'de> MapAccess<'de> for Fields<'_> {
    type Error = ReadError;

    fn next_key_seed<S: DeserializeSeed<'de>>(
        &mut self,
        seed: S,
    ) -> Result<Option<S::Value>, ReadError> {
        for &name in self.names.by_ref() {
            let json = self.json.and_then(|fields| fields.get(name));
            let value = json.or_else(|| self.fields.and_then(|fields| fields.get(name)));
            let mode = if json.is_some() { SourceFormat::Body } else { self.object.mode };
            self.found += usize::from(value.is_some());
            // A missing required field that is already recorded gets a placeholder.
            let is_there = value.is_some()
                || self.fields.is_none()
                || self.object.is_settled(&Path::Field(self.object.path(), name));
            if is_there {
                self.current = Some((name, value, mode));
                let key: StrDeserializer<ReadError> = name.into_deserializer();
                return seed.deserialize(key).map(Some);
            }
        }
        let sources = [(self.fields, self.object.mode), (self.json, SourceFormat::Body)];
        let sent: usize = sources.iter().filter_map(|(fields, _)| *fields).map(Map::len).sum();
        if sent > self.found {
            for (fields, mode) in sources {
                fields.inspect(|fields| self.object.refuse_unknown(self.all_names, fields, mode));
            }
        }
        Ok(None)
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, ReadError> {
        let (name, value, mode) = self.current.take().expect("serde asks for the key first");
        let path = Path::Field(self.object.path(), name);
        self.object.read_part(mode, &path, value, seed)
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
        let path = Path::Entry(self.object.path(), key);
        self.object.read_part(self.object.mode, &path, Some(value), seed)
    }

    fn size_hint(&self) -> Option<usize> {
        Some(self.entries.len())
    }
}
