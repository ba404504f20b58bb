//! Deserializes a value and continues after each problem.
//!
//! Deserialization stops at the first problem. The problem and its path are recorded, and the value
//! is read again; at a recorded path the type gets a placeholder, so that it proceeds to the next
//! problem. A result with placeholders is never used: it only shows that there are no further
//! problems.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::options::{SourceFormat, UnknownFields};
use super::path::Path;
use super::reader::Reader;
use super::state::{MAX_ISSUES, ReadState};
use crate::base::{Error, Result};

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
    let mut state = ReadState::new(unknown);
    loop {
        match T::deserialize(Reader::root(value, mode, &mut state)) {
            Ok(input) if state.issues.is_empty() => return Ok(input),
            Ok(_) => break,
            Err(error) => state.record(&Path::Root, error),
        };
        if state.is_stuck || state.issues.len() >= MAX_ISSUES || state.values > MAX_VALUES {
            break;
        }
    }
    state.issues.truncate(MAX_ISSUES);
    Err(Error::invalid(state.issues))
}
