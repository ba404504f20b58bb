//! Files of text, in UTF-8.

use super::text::{is_text, unreadable};
use crate::base::Result;

/// Returns the text of a file without its byte order mark.
pub fn text(bytes: &[u8]) -> Result<String> {
    if bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]) {
        return Err(unreadable("the file is in UTF-16; save it in UTF-8"));
    }
    let bytes = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(bytes);
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let at = error.valid_up_to() + 1;
        unreadable(format!("the file is not in UTF-8 from its byte {at} on; save it in UTF-8"))
    })?;
    match text.chars().find(|c| !is_text(*c)) {
        None => Ok(text.into()),
        Some(c) => Err(unreadable(format!(
            "the file is no text: it has the control character U+{:04X}",
            u32::from(c)
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_kept_as_it_is() {
        for kept in ["", "a\tb\r\nc\u{c}", "äöü 日本語 🙂"] {
            assert_eq!(text(kept.as_bytes()).unwrap(), kept);
        }
        assert_eq!(text(b"\xef\xbb\xbfa").unwrap(), "a");
    }

    #[test]
    fn what_is_no_text_is_refused_with_the_reason() {
        for (bytes, reason) in [
            (&b"abc\xff"[..], "from its byte 4 on"),
            (b"\xff\xfea\0", "UTF-16"),
            (b"\xfe\xff\0a", "UTF-16"),
            (b"a\0b", "U+0000"),
            (b"\x7fELF", "U+007F"),
            (b"caf\xe9", "save it in UTF-8"),
        ] {
            let refused = text(bytes).unwrap_err();
            assert!(refused.message().contains(reason), "{refused}");
            assert_eq!(refused.code(), "unreadable_document");
        }
    }
}
