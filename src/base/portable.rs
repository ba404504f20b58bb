//! Stored values as they stand in the file of an exported organization: JSON with the names of
//! fields and variants, whatever answers of the API show of them.
//!
//! A record declares its form with [`portable!`]; stored enums have theirs by their declaration.

use std::collections::{BTreeMap, HashMap};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use uuid::Uuid;

use super::hex::from_hex;
use super::id::Id;
use super::json::{Json, JsonMap};
use super::keys::Sealed;
use super::text::{TextRule, Validated};
use super::time::Time;
use super::trace::TraceParent;

/// What is noted while values are exported.
#[derive(Debug, Default)]
pub struct Exporting {
    /// Sealed secrets that were left out.
    pub secrets: u64,
}

/// What differs in the installation that values are imported into.
#[derive(Clone, Debug, Default)]
pub struct Importing {
    /// Other ids for some of the file.
    pub ids: HashMap<Uuid, Uuid>,
    /// The slug of the organization in the file and here, if it differs.
    pub slug: Option<(String, String)>,
}

/// A stored value that can be exported and imported.
pub trait Portable: Sized {
    /// Returns it as JSON.
    fn to_json(&self, out: &mut Exporting) -> Value;
    /// Reads it. The error is a phrase that says where, within the value, what is wrong.
    fn from_json(value: Value, input: &Importing) -> Result<Self, String>;
}

/// Declares the form of a struct: an object with all of its fields, in their order. It goes around the struct.
/// Beside one it names the fields, only for the references of registries: those after `refs`,
/// `<organization>/<slug>`, follow the organization's slug.
///
/// ```text
/// portable! {
/// /// A task.
/// #[derive(Encode, Decode)]
/// pub struct Task {
///     pub id: Id<Task>,
/// }
/// }
/// portable!(Registry { id, slug } refs { reference });
/// ```
///
/// A field that is forgotten does not compile.
macro_rules! portable {
    // Not `$visible:vis`: bincode's derive does not read one that is empty.
    ($(#[$attribute:meta])* $(pub $(($($scope:tt)+))?)? struct $name:ident { $($body:tt)* }) => {
        $(#[$attribute])*
        $(pub $(($($scope)+))?)? struct $name { $($body)* }
        $crate::base::portable!(@fields $name { $($body)* });
    };
    (@fields $name:ident {
        $($(#[$attribute:meta])* $visible:vis $field:ident: $type:ty),* $(,)?
    }) => {
        $crate::base::portable!($name { $($field),* });
    };
    ($name:ty { $($field:ident),* $(,)? } $(refs { $($reference:ident),+ })?) => {
        impl $crate::base::Portable for $name {
            fn to_json(&self, out: &mut $crate::base::Exporting) -> serde_json::Value {
                let Self { $($field,)* $($($reference,)+)? } = self;
                $crate::base::portable::object([
                    $((stringify!($field), $crate::base::Portable::to_json($field, out)),)*
                    $($((stringify!($reference), $crate::base::Portable::to_json($reference, out)),)+)?
                ])
            }
            fn from_json(
                value: serde_json::Value,
                input: &$crate::base::Importing,
            ) -> std::result::Result<Self, String> {
                let mut fields = $crate::base::portable::Fields::of(value)?;
                let read = Self {
                    $($field: fields.take(stringify!($field), input)?,)*
                    $($($reference: fields.take_reference(stringify!($reference), input)?,)+)?
                };
                fields.end()?;
                Ok(read)
            }
        }
    };
}
pub(crate) use portable;

/// Returns an object with these fields, in their order.
pub fn object<const N: usize>(fields: [(&str, Value); N]) -> Value {
    Value::Object(fields.into_iter().map(|(name, value)| (name.to_string(), value)).collect())
}

/// The fields of an object that have not been read.
pub struct Fields(Map<String, Value>);

impl Fields {
    /// Reads an object.
    pub fn of(value: Value) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Ok(Fields(fields)),
            _ => Err("must be an object".into()),
        }
    }

    /// Reads a field.
    pub fn take<T: Portable>(&mut self, name: &str, input: &Importing) -> Result<T, String> {
        let value = self.0.swap_remove(name).ok_or_else(|| format!("{name} is missing"))?;
        T::from_json(value, input).map_err(|what| format!("{name}: {what}"))
    }

    /// Reads a field with the reference of a registry.
    pub fn take_reference<T: Portable>(
        &mut self,
        name: &str,
        input: &Importing,
    ) -> Result<T, String> {
        if let Some(Value::String(text)) = self.0.get_mut(name)
            && let Some((old, new)) = &input.slug
            && let Some(rest) = text.strip_prefix(old).and_then(|rest| rest.strip_prefix('/'))
        {
            *text = format!("{new}/{rest}");
        }
        self.take(name, input)
    }

    /// Refuses fields that were not read.
    pub fn end(self) -> Result<(), String> {
        match self.0.keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{name:?} is not known here")),
        }
    }
}

/// Returns a variant: its name, or an object with the value in it.
pub fn variant<const N: usize>(name: &str, values: [Value; N]) -> Value {
    match values.into_iter().next() {
        None => name.into(),
        Some(value) => object([(name, value)]),
    }
}

/// Reads what [`variant`] wrote: the name, and the value if there is one.
pub fn variant_parts(value: Value) -> Result<(String, Option<Value>), String> {
    match value {
        Value::String(name) => Ok((name, None)),
        Value::Object(fields) if fields.len() == 1 => {
            let (name, value) = fields.into_iter().next().expect("it has one field");
            Ok((name, Some(value)))
        }
        _ => Err("must be a name, or an object with one".into()),
    }
}

fn written(value: &impl Serialize) -> Value {
    serde_json::to_value(value).expect("texts, numbers and times are JSON")
}

fn read<T: DeserializeOwned>(value: Value) -> Result<T, String> {
    serde_json::from_value(value).map_err(|error| error.to_string())
}

/// Values whose form in the API is that in the file.
macro_rules! as_in_answers {
    ($($type:ty),+) => {$(
        impl Portable for $type {
            fn to_json(&self, _: &mut Exporting) -> Value {
                written(self)
            }
            fn from_json(value: Value, _: &Importing) -> Result<Self, String> {
                read(value)
            }
        }
    )+};
}
as_in_answers!(bool, u8, u16, u32, u64, i64, f64, String, Time, Json, JsonMap, TraceParent);

impl<R: TextRule> Portable for Validated<R> {
    fn to_json(&self, _: &mut Exporting) -> Value {
        written(self)
    }
    fn from_json(value: Value, _: &Importing) -> Result<Self, String> {
        Validated::parse_earlier(read::<String>(value)?)
    }
}

impl<T: ?Sized> Portable for Id<T> {
    fn to_json(&self, _: &mut Exporting) -> Value {
        written(self)
    }
    fn from_json(value: Value, input: &Importing) -> Result<Self, String> {
        let id: Uuid = read(value)?;
        Ok(Id::new(input.ids.get(&id).copied().unwrap_or(id)))
    }
}

/// Left out: another installation has another key.
impl Portable for Sealed {
    fn to_json(&self, out: &mut Exporting) -> Value {
        out.secrets += 1;
        Value::Null
    }
    fn from_json(_: Value, _: &Importing) -> Result<Self, String> {
        Err("must be null: secrets are not imported".into())
    }
}

/// A hash, in hexadecimal.
impl Portable for [u8; 32] {
    fn to_json(&self, _: &mut Exporting) -> Value {
        blake3::Hash::from(*self).to_hex().as_str().into()
    }
    fn from_json(value: Value, _: &Importing) -> Result<Self, String> {
        let text: String = read(value)?;
        from_hex(&text).ok_or_else(|| "must be 64 hexadecimal digits".into())
    }
}

impl<T: Portable> Portable for Option<T> {
    fn to_json(&self, out: &mut Exporting) -> Value {
        self.as_ref().map_or(Value::Null, |value| value.to_json(out))
    }
    fn from_json(value: Value, input: &Importing) -> Result<Self, String> {
        if value.is_null() { Ok(None) } else { T::from_json(value, input).map(Some) }
    }
}

impl<T: Portable> Portable for Vec<T> {
    fn to_json(&self, out: &mut Exporting) -> Value {
        self.iter().map(|value| value.to_json(out)).collect()
    }
    fn from_json(value: Value, input: &Importing) -> Result<Self, String> {
        let Value::Array(values) = value else { return Err("must be an array".into()) };
        let read = |(n, value)| T::from_json(value, input).map_err(|what| format!("[{n}]: {what}"));
        values.into_iter().enumerate().map(read).collect()
    }
}

impl<A: Portable, B: Portable> Portable for (A, B) {
    fn to_json(&self, out: &mut Exporting) -> Value {
        Value::Array(vec![self.0.to_json(out), self.1.to_json(out)])
    }
    fn from_json(value: Value, input: &Importing) -> Result<Self, String> {
        let parts: [Value; 2] = read(value)?;
        let [first, second] = parts;
        Ok((A::from_json(first, input)?, B::from_json(second, input)?))
    }
}

/// An object: the keys are texts or variants without a value.
impl<K: Portable + Ord, V: Portable> Portable for BTreeMap<K, V> {
    fn to_json(&self, out: &mut Exporting) -> Value {
        let mut fields = Map::new();
        for (key, value) in self {
            let Value::String(name) = key.to_json(out) else {
                unreachable!("keys are texts or variants without a value")
            };
            fields.insert(name, value.to_json(out));
        }
        Value::Object(fields)
    }
    fn from_json(value: Value, input: &Importing) -> Result<Self, String> {
        let Value::Object(fields) = value else { return Err("must be an object".into()) };
        let read = |(name, value): (String, Value)| {
            let value = V::from_json(value, input).map_err(|what| format!("{name:?}: {what}"))?;
            Ok((K::from_json(Value::String(name), input)?, value))
        };
        fields.into_iter().map(read).collect()
    }
}
