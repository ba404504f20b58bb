//! Parsing of requests: bytes or a query string into a typed input, with every problem listed and
//! not just the first (reference: conventions, "Errors").
//!
//! Two steps: [`parse_body`] and [`parse_query`] make a JSON value, [`read`] makes a `T` of it, so
//! that two readers of one request (the organization, the arguments) parse it once. Forms that two
//! programs could interpret differently, such as duplicate keys, are refused; unknown fields are
//! ignored.
//!
//! In an input type all that may be absent is an `Option`, or a [`base::Nullable`](crate::base::Field)
//! where `null` clears. A bare `#[serde(default)]` on another type would refuse `null`, which must
//! mean the same as absent. A type that checks its value does so with
//! [`base::checked`](crate::base::checked): a value refused in another way is reported too, but
//! problems after it may not be.

mod collect;
mod state;
mod json;
mod key;
mod path;
mod query;
mod reader;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use collect::read;
pub use json::{MAX_VALUES, parse_body};
pub use query::parse_query;
pub use reader::SourceFormat;
pub use state::MAX_ISSUES;

use crate::base::{Error, Issue, Result};

/// The input of an operation.
pub trait Input: DeserializeOwned + Send + Sync + 'static {
    /// Adds an issue for each violated rule between fields. Runs only on inputs that could be read.
    fn check(&self, _issues: &mut Vec<Issue>) {}
}

/// Takes nothing; ignores whatever is sent.
impl Input for () {}

/// Reads an input and checks the rules between its fields.
///
/// # Errors
/// [`Kind::Invalid`](crate::base::Kind::Invalid) with every problem found.
pub fn read_input<T: Input>(value: &Value, mode: SourceFormat) -> Result<T> {
    let input: T = read(value, mode)?;
    let mut issues = Vec::new();
    input.check(&mut issues);
    if issues.is_empty() { Ok(input) } else { Err(Error::invalid(issues)) }
}
