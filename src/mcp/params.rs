//! The params of a request.

use serde_json::Value;

use super::failure::{Failure, INVALID_PARAMS};

/// A text among the params.
///
/// # Errors
/// [`INVALID_PARAMS`] if it is absent or of another type.
pub fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, Failure> {
    let refused = || Failure::new(INVALID_PARAMS, format!("params.{name} must be a text"));
    params[name].as_str().ok_or_else(refused)
}
