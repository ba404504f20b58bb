//! Values that are checked as they are read, so that whoever holds one need not check again.

use std::fmt;
use std::marker::PhantomData;

use serde::de::{Deserialize, Deserializer, Error, Visitor};

/// Reads a `P` and turns it into a `T`, or says why not.
///
/// The reader of requests (`api::read`) goes on after the first problem in order to list them all;
/// it then hands out a unit in the place of a value it has already complained about, and
/// `placeholder` stands in. No other deserializer does that: `visit_newtype_struct` is what they
/// call.
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
