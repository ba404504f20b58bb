//! Line ends and byte order marks: git, editors and browsers put them into texts and take them out. What
//! is read from files and forms has one form, so that one text is one version whichever machine it
//! comes from (reference: command-line, "Prompts as files").

use std::borrow::Cow;

const BYTE_ORDER_MARK: char = '\u{feff}';

/// Returns a text with line feeds for its line ends: LF for CRLF and CR.
pub fn with_line_feeds(text: &str) -> Cow<'_, str> {
    if text.contains('\r') {
        return text.replace("\r\n", "\n").replace('\r', "\n").into();
    }
    text.into()
}

/// Returns what a file says: without a byte order mark at its beginning, and with line feeds.
pub fn of_file(text: &str) -> Cow<'_, str> {
    with_line_feeds(text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(text))
}

/// Says what [`of_file`] changes, as a clause about the file; `None` if nothing.
pub fn changed(text: &str) -> Option<&'static str> {
    match (text.starts_with(BYTE_ORDER_MARK), text.contains('\r')) {
        (false, false) => None,
        (true, false) => Some("its byte order mark is left out"),
        (false, true) => Some("its line ends are read as LF"),
        (true, true) => Some("its byte order mark is left out, and its line ends are read as LF"),
    }
}

/// Returns a published text as a file has it. A carriage return at its end is half of the line end of
/// a file, which earlier versions took for a part of the text.
pub fn published(text: &str) -> Cow<'_, str> {
    with_line_feeds(text.strip_suffix('\r').unwrap_or(text))
}

/// Whether two texts differ in their line ends at most.
pub fn is_same(a: &str, b: &str) -> bool {
    a == b || published(a) == published(b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_says_the_same_whatever_its_line_ends_and_its_mark_are() {
        for text in ["a\nb\n", "a\r\nb\r\n", "a\rb\r", "\u{feff}a\nb\n", "\u{feff}a\r\nb\n"] {
            assert_eq!(of_file(text), "a\nb\n");
            assert_eq!(changed(text).is_some(), text != "a\nb\n", "{text:?}");
        }
        // A mark within a text is a character of it.
        assert_eq!(of_file("a\u{feff}b"), "a\u{feff}b");
        assert_eq!(changed("a\u{feff}b"), None);
    }

    #[test]
    fn texts_that_differ_in_line_ends_alone_are_the_same() {
        for (a, b) in [("a\nb", "a\r\nb"), ("Hello", "Hello\r"), ("a\nb", "a\r\nb\r"), ("a\r", "a")]
        {
            assert!(is_same(a, b) && is_same(b, a), "{a:?} {b:?}");
        }
        for (a, b) in [("a", "a\n"), ("a", "a\r\n"), ("a\n\nb", "a\nb")] {
            assert!(!is_same(a, b), "{a:?} {b:?}");
        }
    }
}
