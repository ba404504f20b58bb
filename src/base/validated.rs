//! Values that are validated while they are deserialized, so that holding one means it is valid.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Deserializes a `P` and converts it into a `T`, or reports why that is not possible.
///
/// The request reader (`api::read`) continues after the first problem in order to list them all. It
/// then passes a unit in place of a value that it has already reported, and `placeholder` is used
/// instead. No other deserializer does that: they call `visit_newtype_struct`.
pub fn checked<'de, D, P, T>(
    deserializer: D,
    check: fn(P) -> Result<T, String>,
    placeholder: fn() -> T,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    P: Deserialize<'de>,
{
    struct Checking<P, T> {
        check: fn(P) -> Result<T, String>,
        placeholder: fn() -> T,
        of: PhantomData<P>,
    }

    impl<'de, P: Deserialize<'de>, T> Visitor<'de> for Checking<P, T> {
        type Value = T;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a checked value")
        }

        fn visit_newtype_struct<D: Deserializer<'de>>(self, inner: D) -> Result<T, D::Error> {
            (self.check)(P::deserialize(inner)?).map_err(D::Error::custom)
        }

        fn visit_unit<E: Error>(self) -> Result<T, E> {
            Ok((self.placeholder)())
        }
    }

    deserializer
        .deserialize_newtype_struct("Checked", Checking { check, placeholder, of: PhantomData })
}
