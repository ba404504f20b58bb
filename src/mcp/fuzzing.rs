//! Cursors of the lists of prompts and of resources.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::json;

use super::walk::place_of;

/// Any text is a place or refused, and so is any JSON in one. A place reads back as it was.
///
/// # Panics
/// If that is not so.
pub fn cursor(input: &[u8]) {
    for text in [String::from_utf8_lossy(input).into_owned(), BASE64.encode(input)] {
        let Ok(place) = place_of(&json!({"cursor": text})) else { continue };
        let written = json!(place);
        let again = place_of(&json!({"cursor": BASE64.encode(written.to_string())}));
        assert_eq!(again.ok().map(|place| json!(place)), Some(written));
    }
}
