//! Numbers with bounds.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer};
use serde_json::Number;

use super::validated::checked;

/// Returns a JSON number without a fractional part, however it is written: `2`, `2.0` and `2e0` are
/// one number, as in JSON Schema.
pub fn whole_number(number: &Number) -> Option<i128> {
    number.as_i128().or_else(|| {
        let float = number.as_f64()?;
        // The conversion saturates far beyond every type that is read.
        (float.fract() == 0.0).then_some(float as i128)
    })
}

/// A whole number from `MIN` to `MAX`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int<const MIN: i64, const MAX: i64>(i64);

impl<const MIN: i64, const MAX: i64> Int<MIN, MAX> {
    /// Returns a number; `None` if it is out of bounds.
    pub fn new(number: i64) -> Option<Self> {
        (MIN..=MAX).contains(&number).then_some(Int(number))
    }

    /// Returns the number.
    pub fn get(self) -> i64 {
        self.0
    }
}

impl<'de, const MIN: i64, const MAX: i64> Deserialize<'de> for Int<MIN, MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Wider than its bounds, so that whatever is beyond them gets the same answer.
        fn check<const MIN: i64, const MAX: i64>(n: i128) -> Result<Int<MIN, MAX>, String> {
            match i64::try_from(n) {
                Ok(n) if (MIN..=MAX).contains(&n) => Ok(Int(n)),
                _ => Err(format!("must be a whole number from {MIN} to {MAX}")),
            }
        }
        checked(deserializer, check::<MIN, MAX>, || Int(MIN))
    }
}
impl<const MIN: i64, const MAX: i64> JsonSchema for Int<MIN, MAX> {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Int".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": MIN, "maximum": MAX})
    }
}

/// How freely a model chooses its words: from 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Temperature(f64);

impl Temperature {
    /// Returns the number.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Temperature {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn check(number: f64) -> Result<Temperature, String> {
            if (0.0..=2.0).contains(&number) {
                Ok(Temperature(number))
            } else {
                Err("must be a number from 0 to 2".into())
            }
        }
        checked(deserializer, check, || Temperature(0.0))
    }
}
impl JsonSchema for Temperature {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Temperature".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 2})
    }
}

/// An amount of money in US dollars: not negative, at most a billion, so that sums stay exact to
/// the cent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Usd(f64);

impl Usd {
    /// Returns the amount.
    pub fn get(self) -> f64 {
        self.0
    }
}

impl<'de> Deserialize<'de> for Usd {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        fn check(amount: f64) -> Result<Usd, String> {
            if (0.0..=1e9).contains(&amount) {
                Ok(Usd(amount))
            } else {
                Err("must be an amount from 0 to 1000000000".into())
            }
        }
        checked(deserializer, check, || Usd(0.0))
    }
}
impl JsonSchema for Usd {
    fn inline_schema() -> bool {
        true
    }
    fn schema_name() -> Cow<'static, str> {
        "Usd".into()
    }
    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "number", "minimum": 0, "maximum": 1e9})
    }
}
