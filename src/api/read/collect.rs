//! Reading a value as a type, going on after each problem.
//!
//! A type gives up at the first problem it meets. The problem and its place are noted, and the
//! value is read again; at a noted place the type is handed a placeholder, so that it comes as far
//! as the next problem. What is read beside a placeholder is never used: it only shows that there
//! is no further problem.

use serde::de::DeserializeOwned;
use serde_json::Value;

use super::path::Path;
use super::reader::{Reader, SourceFormat};
use super::state::{MAX_ISSUES, ReadState};
use crate::base::{Error, Result};

/// Values looked at after which the search for further problems ends, counted over all readings:
/// enough to list a hundred problems in thousands of values, and a fraction of a second, which
/// is all that a hostile body gets.
const MAX_VALUES: usize = 1_000_000;

/// Reads a `T` of what [`parse_body`](super::parse_body) or [`parse_query`](super::parse_query)
/// gave. A good value is read once, and no path is written.
///
/// # Errors
/// [`Kind::Invalid`](crate::base::Kind::Invalid) with every problem found, at most [`MAX_ISSUES`].
pub fn read<T: DeserializeOwned>(value: &Value, mode: SourceFormat) -> Result<T> {
    let mut state = ReadState::default();
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
