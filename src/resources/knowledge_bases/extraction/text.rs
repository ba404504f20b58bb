//! What the text of a file may be, and the errors of one that is not.

use crate::base::{Error, Kind, Result};

/// A file has at most 10 MiB.
pub const MAX_FILE_BYTES: usize = 10 * 1024 * 1024;

/// The text of a file has at most 10 MiB, as a file of text has.
pub const MAX_TEXT_BYTES: usize = MAX_FILE_BYTES;

/// Whether a character occurs in texts: no control character but those of lines and pages.
pub fn is_text(c: char) -> bool {
    !c.is_control() || matches!(c, '\t' | '\n' | '\r' | '\u{c}' | '\u{85}')
}

/// Returns the error of a file that cannot be read: why, and what to do.
pub fn unreadable(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Kind::Invalid, "unreadable_document", message)
}

/// Returns the error of a file whose text is too long.
pub fn too_long() -> Error {
    Error::new(
        Kind::TooLarge,
        "document_too_long",
        "the text of the file has more than 10 MiB; split it",
    )
}

/// The text of a file, and what of the file is not in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extracted {
    pub text: String,
    /// What could not be read, in a few sentences of one line each; none if all was read.
    pub left_out: Vec<String>,
    /// The name of the character encoding of a file of text or HTML; none for UTF-8, and for others.
    pub charset: Option<&'static str>,
}

/// Returns what was read of a part that a text can do without. Of one that is damaged that is nothing,
/// and `left_out` says once what is missing.
///
/// # Errors
/// Those of other kinds: what is too much stays so.
pub fn unless_damaged<T: Default>(
    read: Result<T>,
    left_out: &mut Vec<String>,
    missing: &str,
) -> Result<T> {
    match read {
        Err(error) if error.kind() == Kind::Invalid => {
            if left_out.iter().all(|other| other != missing) {
                left_out.push(missing.into());
            }
            Ok(T::default())
        }
        read => read,
    }
}

impl From<String> for Extracted {
    /// The whole text of a file.
    fn from(text: String) -> Self {
        Extracted { text, ..Extracted::default() }
    }
}

/// A text that is built up to its limit.
#[derive(Default)]
pub struct BoundedText {
    pub text: String,
}

impl std::fmt::Write for BoundedText {
    fn write_str(&mut self, more: &str) -> std::fmt::Result {
        if self.text.len() + more.len() > MAX_TEXT_BYTES {
            return Err(std::fmt::Error);
        }
        self.text.push_str(more);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_that_is_damaged_is_done_without_and_named_once() {
        let mut left_out = Vec::new();
        assert_eq!(unless_damaged(Ok(7), &mut left_out, "a part").unwrap(), 7);
        assert!(left_out.is_empty());
        for _ in 0..2 {
            let damaged =
                unless_damaged(Err::<u32, _>(unreadable("it is")), &mut left_out, "a part");
            assert_eq!((damaged.unwrap(), left_out.len()), (0, 1));
        }
        let large = unless_damaged(Err::<u32, _>(too_long()), &mut left_out, "another");
        assert_eq!(
            (large.unwrap_err().kind(), &left_out[..]),
            (Kind::TooLarge, &["a part".into()][..])
        );
    }

    #[test]
    fn a_bounded_text_takes_no_more_than_its_limit() {
        use std::fmt::Write as _;
        let mut text = BoundedText::default();
        text.write_str(&"a".repeat(MAX_TEXT_BYTES)).unwrap();
        assert!(text.write_str("a").is_err());
        assert_eq!(text.text.len(), MAX_TEXT_BYTES);
    }
}
