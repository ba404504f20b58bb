//! The texts of uploaded files.
//!
//! PDF and DOCX are read in a child process (the hidden command `extract-text`), since a file made for
//! it can make their libraries panic, exhaust memory or never return. Every limit here holds in the
//! child as well; its memory and time are limited by the command and by [`LIMITS`].

mod docx;
mod pdf;
mod plain;
mod text;

use std::time::Duration;

use super::document::MediaType;
use crate::base::{Error, Kind, Result};
use crate::outside::{ChildEnd, ChildLimits, Children};
pub use text::{MAX_FILE_BYTES, MAX_TEXT_BYTES};
use text::{is_text, too_long, unreadable};

/// A child takes at most 15 s: reading the largest files takes a few, also on a busy machine.
const LIMITS: ChildLimits =
    ChildLimits { time: Duration::from_secs(15), output_bytes: MAX_TEXT_BYTES + 1024 };

/// A format that is read in a child process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Pdf,
    Docx,
}

impl Format {
    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<Self> {
        [Format::Pdf, Format::Docx].into_iter().find(|format| format.name() == name)
    }

    /// Its name, in messages and as an argument of the command.
    pub fn name(self) -> &'static str {
        match self {
            Format::Pdf => "PDF",
            Format::Docx => "DOCX",
        }
    }
}

/// Returns the text of a file of this type.
///
/// # Errors
/// 400 if it cannot be read or has no text, 413 if its text is too long; 500 if no child process can
/// be started.
pub fn text_of(media_type: MediaType, bytes: &[u8], children: &Children) -> Result<String> {
    match media_type {
        MediaType::Text | MediaType::Markdown | MediaType::Csv => plain::text(bytes),
        MediaType::Pdf => in_child(Format::Pdf, bytes, children),
        MediaType::Docx => in_child(Format::Docx, bytes, children),
    }
}

fn in_child(format: Format, bytes: &[u8], children: &Children) -> Result<String> {
    let name = format.name();
    match children.run(&["extract-text", "--format", name], bytes, LIMITS)? {
        ChildEnd::Done(output) => from_child(output),
        ChildEnd::TooMuch => Err(too_long()),
        ChildEnd::TimedOut => Err(unreadable(format!(
            "the {name} file takes too long to read; save it again with another program, or upload \
             its text"
        ))),
        ChildEnd::Failed => Err(unreadable(format!(
            "the {name} file is damaged, or takes too much memory or time to read; save it again with \
             another program, or upload its text"
        ))),
    }
}

// ── Between parent and child ─────────────────────────────────────────────────

// The first byte of what a child writes, before a text or the message of an error.
const TEXT: u8 = b'T';
const UNREADABLE: u8 = b'U';
const TOO_LONG: u8 = b'L';

/// Returns what the command writes for a file: its text, or why it has none.
pub fn child_output(format: Format, bytes: &[u8]) -> Vec<u8> {
    let read = match format {
        Format::Pdf => pdf::text(bytes),
        Format::Docx => docx::text(bytes),
    };
    let (tag, text) = match read.and_then(|text| finished(format, &text)) {
        Ok(text) => (TEXT, text),
        Err(error) if error.kind() == Kind::TooLarge => (TOO_LONG, String::new()),
        Err(error) => (UNREADABLE, error.message().to_string()),
    };
    [&[tag], text.as_bytes()].concat()
}

fn from_child(mut output: Vec<u8>) -> Result<String> {
    let broken = || Error::internal("the command extract-text wrote something else");
    if output.is_empty() {
        return Err(broken());
    }
    let tag = output.remove(0);
    let text = String::from_utf8(output).map_err(|_| broken())?;
    match tag {
        TEXT => Ok(text),
        UNREADABLE => Err(unreadable(text)),
        TOO_LONG => Err(too_long()),
        _ => Err(broken()),
    }
}

/// Returns an extracted text without the characters that no text has.
fn finished(format: Format, text: &str) -> Result<String> {
    let has_word = text.contains(char::is_alphanumeric);
    if !has_word {
        let name = format.name();
        return Err(unreadable(format!(
            "the {name} file has no text; if it is a scan, upload the text that is on it"
        )));
    }
    let visible = |c: char| if is_text(c) { c } else { ' ' };
    let text: String = text.trim().chars().map(visible).collect();
    if text.len() > MAX_TEXT_BYTES { Err(too_long()) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_child_writes_is_read_back() {
        let message = |output: &[u8]| from_child(output.to_vec()).unwrap_err();
        assert_eq!(from_child(b"Ta text".to_vec()).unwrap(), "a text");
        assert_eq!(message(b"Uit is not").message(), "it is not");
        assert_eq!(message(b"Uit is not").kind(), Kind::Invalid);
        assert_eq!(message(b"L").kind(), Kind::TooLarge);
        for broken in [&b""[..], b"X", b"T\xff"] {
            assert_eq!(message(broken).kind(), Kind::Internal);
        }
    }

    #[test]
    fn a_text_without_words_or_over_the_limit_is_refused() {
        assert_eq!(finished(Format::Pdf, " a\u{1}b\n ").unwrap(), "a b");
        let refused = finished(Format::Pdf, " \n\u{1}\u{c}").unwrap_err();
        assert!(refused.message().contains("scan"), "{refused}");
        let long = "a".repeat(MAX_TEXT_BYTES + 1);
        assert_eq!(finished(Format::Pdf, &long).unwrap_err().kind(), Kind::TooLarge);
    }
}
