//! Parsing of requests: bytes or a query string into a typed input, with every problem listed and
//! not just the first (reference: conventions, "Errors").
//!
//! Two steps: [`parse_body`] and [`parse_query`] make a JSON value, [`read`] makes a `T` of it, so
//! that two readers of one request (the organization, the arguments) parse it once. Forms that two
//! programs could interpret differently, such as duplicate keys, are refused, and so are fields that
//! the type does not have, unless the caller asks to ignore them ([`UnknownFields`]).
//!
//! In an input type all that may be absent is an `Option`, or a [`Nullable`](crate::base::Nullable)
//! where `null` clears. A bare `#[serde(default)]` on another type would refuse `null`, which must
//! mean the same as absent. A type that checks its value does so with
//! [`base::checked`](crate::base::checked): a value refused in another way is reported too, but
//! problems after it may not be.

mod collect;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod json;
mod key;
mod mixed;
mod options;
mod path;
mod query;
mod reader;
mod state;
mod unknown;
mod values;
#[cfg(test)]
mod tests;

use serde::de::DeserializeOwned;
use serde_json::Value;

pub use collect::read;
pub use json::parse_body;
pub use options::{OtherNames, SourceFormat, UnknownFields};
pub use path::shortened;
pub use query::{ObjectParameters, parse_query};
pub use state::MAX_ISSUES;
pub use values::count_values;

use crate::base::{Error, Issue, Result, Time};

/// The input of an operation.
pub trait Input: DeserializeOwned + Send + Sync + 'static {
    /// Whether each rule of [`check`](Input::check) is about one field of the body, or one item of a list in
    /// it. Then rules are checked of what could be read, too, although something else could not. One that
    /// compares items takes no placeholder for another one: an empty text, the nil id.
    const HAS_LOCAL_RULES: bool = false;

    /// Adds an issue for each violated rule between fields. Runs only on inputs that could be read, unless
    /// the rules are local.
    fn check(&self, _issues: &mut Vec<Issue>) {}
}

/// Takes nothing.
impl Input for () {}

/// The issue of a range of time that ends before it begins: for the [`Input::check`] of every filter with
/// `from` and `to`.
pub fn order_issue(from: Option<Time>, to: Option<Time>) -> Option<Issue> {
    let is_reversed = from.zip(to).is_some_and(|(from, to)| to < from);
    is_reversed.then(|| Issue::new("to", "must not be before from"))
}

/// Reads an input and checks the rules between its fields.
///
/// # Errors
/// [`Kind::Invalid`](crate::base::Kind::Invalid) with every problem found.
pub fn read_input<T: Input>(
    value: &Value,
    mode: SourceFormat,
    unknown: UnknownFields,
) -> Result<T> {
    let (input, mut issues) = collect::read_partly::<T>(value, mode, unknown);
    let Some(input) = input.filter(|_| issues.is_empty() || T::HAS_LOCAL_RULES) else {
        return Err(Error::invalid(issues));
    };
    let mut violated = Vec::new();
    input.check(&mut violated);
    // A rule may be violated by a placeholder.
    violated.retain(|rule| !issues.iter().any(|issue| is_within_same(&rule.path, &issue.path)));
    issues.append(&mut violated);
    issues.truncate(MAX_ISSUES);
    if issues.is_empty() { Ok(input) } else { Err(Error::invalid(issues)) }
}

/// Whether two paths lead into the same field, and into the same item if both lead into one of a list.
fn is_within_same(one: &str, other: &str) -> bool {
    fn parts(path: &str) -> (&str, Option<&str>) {
        let (field, rest) = path.split_at(path.find(['.', '[']).unwrap_or(path.len()));
        (field, rest.strip_prefix('[').and_then(|rest| rest.split(']').next()))
    }
    let ((one, item), (other, other_item)) = (parts(one), parts(other));
    one == other && (item == other_item || item.is_none() || other_item.is_none())
}
