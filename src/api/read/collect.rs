//! Deserializes a value and continues after each problem.
//!
//! Deserialization stops at the first problem. The problem and its path are recorded, and the value
//! is read again; at a recorded path the type gets a placeholder, so that it proceeds to the next
//! problem. A result with placeholders is never used: it only shows that there are no further
//! problems, those with rules of what could be read among them.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::options::{SourceFormat, UnknownFields};
use super::path::Path;
use super::reader::Reader;
use super::state::{MAX_ISSUES, ReadState};
use crate::base::{Error, Issue, Result};

/// Limit of visited values, counted over all passes: enough to list a hundred problems in thousands
/// of values, and a fraction of a second for a hostile body.
const MAX_VALUES: usize = 1_000_000;

/// Deserializes the result of [`parse_body`](super::parse_body) or
/// [`parse_query`](super::parse_query). A valid value is read once, without formatting any path.
///
/// # Errors
/// [`Kind::Invalid`](crate::base::Kind::Invalid) with every problem found, at most [`MAX_ISSUES`].
pub fn read<T: DeserializeOwned>(
    value: &Value,
    mode: SourceFormat,
    unknown: UnknownFields,
) -> Result<T> {
    match read_partly(value, mode, unknown) {
        (Some(input), issues) if issues.is_empty() => Ok(input),
        (_, issues) => Err(Error::invalid(issues)),
    }
}

/// The same, with what could be read: a value that has placeholders at the paths of its problems.
pub(super) fn read_partly<T: DeserializeOwned>(
    value: &Value,
    mode: SourceFormat,
    unknown: UnknownFields,
) -> (Option<T>, Vec<Issue>) {
    let mut state = ReadState::new(unknown);
    let input = loop {
        match T::deserialize(Reader::root(value, mode, &mut state)) {
            Ok(input) => break Some(input),
            Err(error) => state.record(&Path::Root, error),
        };
        if state.is_stuck || state.issues.len() >= MAX_ISSUES || state.values > MAX_VALUES {
            break None;
        }
    };
    state.issues.truncate(MAX_ISSUES);
    (input, state.issues)
}
