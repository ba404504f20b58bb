//! Texts in URLs.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

/// Characters that RFC 3986 reserves for nothing.
const UNRESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

/// Encodes a text as one segment of a path, whatever is in it.
pub fn segment(text: &str) -> String {
    utf8_percent_encode(text, UNRESERVED).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_person_names_stays_one_segment() {
        assert_eq!(segment("scribe-1.0_~"), "scribe-1.0_~");
        assert_eq!(segment("../a?b#c%"), "..%2Fa%3Fb%23c%25");
    }
}
