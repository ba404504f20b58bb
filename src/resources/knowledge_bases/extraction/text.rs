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

/// Returns the error of a file of this format without text, of which this is left out first.
pub fn without_text(format: &str, left_out: Option<&String>) -> Error {
    let why = match left_out {
        Some(first) => format!("the {format} file has no text that can be read ({first});"),
        None => format!("the {format} file has no text; if it is a scan,"),
    };
    unreadable(format!("{why} upload the text that is on it"))
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

/// The numbers of the parts of a kind that are damaged and left out, such as slides.
#[derive(Default)]
pub struct Damaged {
    /// Ascending, from 1.
    numbers: Vec<usize>,
}

impl Damaged {
    /// Returns what was read of the part with this number, or of one that is damaged nothing.
    ///
    /// # Errors
    /// Those of other kinds, as with [`unless_damaged`].
    pub fn unless<T: Default>(&mut self, number: usize, read: Result<T>) -> Result<T> {
        match read {
            Err(error) if error.kind() == Kind::Invalid => {
                self.numbers.push(number);
                Ok(T::default())
            }
            read => read,
        }
    }

    /// What is left out, in a sentence, of parts with this name.
    pub fn left_out(&self, one: &str, several: &str) -> Option<String> {
        let (is, name) = if self.numbers.len() == 1 { ("is", one) } else { ("are", several) };
        let numbers = ranges(&self.numbers);
        (!self.numbers.is_empty()).then(|| format!("{name} {numbers} {is} damaged and left out"))
    }
}

/// At most 8 numbers or ranges of numbers are named.
const MAX_RANGES: usize = 8;

/// Names ascending numbers: `1, 3 to 9`.
pub fn ranges(numbers: &[usize]) -> String {
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let range = |(first, last): &(usize, usize)| {
        if first == last { first.to_string() } else { format!("{first} to {last}") }
    };
    let named: Vec<String> = ranges.iter().take(MAX_RANGES).map(range).collect();
    let others = if ranges.len() > MAX_RANGES { " and others" } else { "" };
    format!("{}{others}", named.join(", "))
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
    fn damaged_parts_are_named_by_their_numbers() {
        let mut damaged = Damaged::default();
        assert_eq!(damaged.left_out("slide", "slides"), None);
        assert_eq!(damaged.unless(1, Ok("text")).unwrap(), "text");
        assert_eq!(damaged.unless::<&str>(2, Err(unreadable("it is"))).unwrap(), "");
        let of = |damaged: &Damaged| damaged.left_out("slide", "slides").unwrap();
        assert_eq!(of(&damaged), "slide 2 is damaged and left out");
        for number in [5, 6, 7] {
            damaged.unless::<()>(number, Err(unreadable("it is"))).unwrap();
        }
        assert_eq!(of(&damaged), "slides 2, 5 to 7 are damaged and left out");
        assert!(damaged.unless::<()>(9, Err(too_long())).is_err());
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
