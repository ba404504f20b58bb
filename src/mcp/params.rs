//! The params of a request.

use serde_json::Value;

use super::failure::{Failure, INVALID_PARAMS};

/// A text among the params.
///
/// # Errors
/// [`INVALID_PARAMS`] if it is absent or of another type.
pub fn text<'a>(params: &'a Value, name: &str) -> Result<&'a str, Failure> {
    params[name].as_str().ok_or_else(|| refused(name))
}

/// A text in an object among the params.
///
/// # Errors
/// [`INVALID_PARAMS`] if it is absent or of another type.
pub fn text_in<'a>(params: &'a Value, object: &str, name: &str) -> Result<&'a str, Failure> {
    params[object][name].as_str().ok_or_else(|| refused(&format!("{object}.{name}")))
}

fn refused(path: &str) -> Failure {
    Failure::new(INVALID_PARAMS, format!("params.{path} must be a text"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::mcp::era::Era;

    #[test]
    fn a_refusal_names_the_whole_path() {
        let params = json!({"ref": {"type": "ref/prompt"}, "name": 1});
        let said = |refused: Result<&str, Failure>| {
            refused.unwrap_err().body(Era::Modern)["error"]["message"].clone()
        };
        assert_eq!(said(text(&params, "name")), "params.name must be a text");
        assert_eq!(said(text_in(&params, "ref", "name")), "params.ref.name must be a text");
        assert_eq!(text_in(&params, "ref", "type").unwrap(), "ref/prompt");
    }
}
