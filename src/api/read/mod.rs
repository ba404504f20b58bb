//! Reading what a client sent: bytes or a query string into a typed input, with every problem
//! listed and not just the first (reference: conventions, "Errors").
//!
//! Two steps: [`parse_body`] and [`parse_query`] make a JSON value, [`read`] makes a `T` of it, so
//! that two readers of one request (who is meant, what is asked) parse it once. Refused are forms
//! that two programs could read in two ways, such as duplicate keys; fields that nobody asked for
//! are passed over unread.
//!
//! In an input type all that may be absent is an `Option`, or a [`base::Field`](crate::base::Field)
//! where `null` clears. A bare `#[serde(default)]` on another type would refuse `null`, which must
//! mean the same as absent. A type that checks its value does so with
//! [`base::checked`](crate::base::checked): what refuses a value in another way is told too, but
//! what stands after it may not be.

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
pub use json::parse_body;
pub use query::parse_query;
pub use reader::SourceFormat;
pub use state::MAX_ISSUES;

use crate::base::{Error, Issue, Result};

/// What an operation takes from a request.
pub trait Input: DeserializeOwned + Send + Sync + 'static {
    /// Adds a problem for each rule between fields that is broken. Runs only on what could be read.
    fn check(&self, _issues: &mut Vec<Issue>) {}
}

/// Takes nothing, whatever is sent.
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
