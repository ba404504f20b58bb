//! The texts of uploaded files.
//!
//! All but plain text is read in a child process (the hidden command `extract-text`), since a file made
//! for it can make a library panic, exhaust memory or take for ever. Every limit here holds in the child
//! as well; its memory and time are limited by the command and by [`LIMITS`].

mod archive;
mod budget;
mod charset;
mod chart;
mod docx;
mod epub;
mod html;
mod in_utf8;
mod lines;
mod number_format;
mod numbers;
mod odf;
mod package;
mod part_names;
mod pdf;
mod pptx;
mod rtf;
#[cfg(test)]
mod testing;
mod text;
mod utf16;
mod xlsx;

use std::time::Duration;

use encoding_rs::Encoding;

use super::document::MediaType;
use crate::base::{Error, Kind, Result};
use crate::outside::{ChildEnd, ChildLimits, Children};
pub use charset::named as charset_named;
pub use text::{Extracted, MAX_FILE_BYTES, MAX_TEXT_BYTES};
use text::{is_text, too_long, unreadable, without_text};

/// A child takes at most 15 s: reading the largest files takes a few, also on a busy machine.
const LIMITS: ChildLimits =
    ChildLimits { time: Duration::from_secs(15), output_bytes: MAX_TEXT_BYTES + 8 * 1024 };

/// A format that is read in a child process.
pub struct Format {
    /// Its name, in messages and as an argument of the command.
    name: &'static str,
    media_type: MediaType,
    read: fn(&[u8]) -> Result<Extracted>,
}

/// The formats.
static FORMATS: [Format; 10] = [
    Format::new("PDF", MediaType::Pdf, pdf::text),
    Format::new("DOCX", MediaType::Docx, docx::text),
    Format::new("HTML", MediaType::Html, |bytes| {
        html::text(&String::from_utf8_lossy(bytes)).map(Extracted::from)
    }),
    Format::new("RTF", MediaType::Rtf, rtf::text),
    Format::new("EPUB", MediaType::Epub, epub::text),
    Format::new("PPTX", MediaType::Pptx, pptx::text),
    Format::new("XLSX", MediaType::Xlsx, xlsx::text),
    Format::new("ODT", MediaType::Odt, |bytes| odf::text(odf::Kind::Text, bytes)),
    Format::new("ODS", MediaType::Ods, |bytes| odf::text(odf::Kind::Spreadsheet, bytes)),
    Format::new("ODP", MediaType::Odp, |bytes| odf::text(odf::Kind::Presentation, bytes)),
];

impl Format {
    const fn new(
        name: &'static str,
        media_type: MediaType,
        read: fn(&[u8]) -> Result<Extracted>,
    ) -> Self {
        Format { name, media_type, read }
    }

    /// Returns the format with this name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }
}

/// Returns the text of a file of this type, and what is left out of it. `charset` is that of a file of
/// text or HTML; without it, it is recognized.
///
/// # Errors
/// 400 if it cannot be read or has no text, or has a charset and is of another type; 413 if its text is
/// too long; 500 if no child process can be started.
pub fn text_of(
    media_type: MediaType,
    charset: Option<&'static Encoding>,
    bytes: &[u8],
    children: &Children,
) -> Result<Extracted> {
    let format = FORMATS.iter().find(|format| format.media_type == media_type);
    match format {
        None => Ok(charset::of_text(bytes, charset)?.try_into()?),
        Some(format) if media_type == MediaType::Html => {
            let decoded: Extracted = charset::of_html(bytes, charset)?.try_into()?;
            let read = in_child(format, decoded.text.as_bytes(), children)?;
            let left_out = [decoded.left_out, read.left_out].concat();
            Ok(Extracted { left_out, text: read.text, charset: decoded.charset })
        }
        Some(_) if charset.is_some() => Err(Error::invalid_at(
            "charset",
            "is for files of text and HTML; leave it out, since the others say it themselves",
        )),
        Some(format) => in_child(format, bytes, children),
    }
}

fn in_child(format: &Format, bytes: &[u8], children: &Children) -> Result<Extracted> {
    let name = format.name;
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

/// A child tells at most so much of what is left out: lines, and bytes of each.
const MAX_LEFT_OUT: usize = 16;
const MAX_LEFT_OUT_BYTES: usize = 1024;

// The first byte of what a child writes. After it comes the message of an error, or what is left out,
// a line each, an empty line and the text.
const TEXT: u8 = b'T';
const UNREADABLE: u8 = b'U';
const TOO_LONG: u8 = b'L';

/// Returns what the command writes for a file: its text and what is left out, or why it has none.
pub fn child_output(format: &Format, bytes: &[u8]) -> Vec<u8> {
    let read = (format.read)(bytes);
    let (tag, text) = match read.and_then(|read| finished(format.name, &read)) {
        Ok(Extracted { text, left_out, .. }) => {
            let lines: String = left_out.iter().map(|line| format!("{line}\n")).collect();
            (TEXT, format!("{lines}\n{text}"))
        }
        Err(error) if error.kind() == Kind::TooLarge => (TOO_LONG, String::new()),
        Err(error) => (UNREADABLE, error.message().to_string()),
    };
    [&[tag], text.as_bytes()].concat()
}

fn from_child(mut output: Vec<u8>) -> Result<Extracted> {
    let broken = || Error::internal("the command extract-text wrote something else");
    if output.is_empty() {
        return Err(broken());
    }
    let tag = output.remove(0);
    let text = String::from_utf8(output).map_err(|_| broken())?;
    match tag {
        TEXT => {
            let (mut left_out, mut rest) = (Vec::new(), text.as_str());
            loop {
                let (line, after) = rest.split_once('\n').ok_or_else(broken)?;
                rest = after;
                if line.is_empty() {
                    return Ok(Extracted { text: rest.into(), left_out, charset: None });
                }
                if left_out.len() >= MAX_LEFT_OUT || line.len() > MAX_LEFT_OUT_BYTES {
                    return Err(broken());
                }
                left_out.push(line.into());
            }
        }
        UNREADABLE => Err(unreadable(text)),
        TOO_LONG => Err(too_long()),
        _ => Err(broken()),
    }
}

/// Returns an extracted text without the characters that no text has. One without words is refused,
/// with what is left out of it.
fn finished(format: &str, read: &Extracted) -> Result<Extracted> {
    let Extracted { text, left_out, .. } = read;
    let has_word = text.contains(char::is_alphanumeric);
    if !has_word {
        return Err(without_text(format, left_out.first()));
    }
    let visible = |c: char| if is_text(c) { c } else { ' ' };
    let text: String = text.trim().chars().map(visible).collect();
    if text.len() > MAX_TEXT_BYTES {
        return Err(too_long());
    }
    Ok(Extracted { text, left_out: left_out.clone(), charset: None })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_but_text_has_one_format() {
        for (name, media_type) in MediaType::NAMED {
            let formats = FORMATS.iter().filter(|format| format.media_type == media_type);
            let is_text = ["text/plain", "text/markdown", "text/csv"].contains(&name);
            assert_eq!(formats.count(), usize::from(!is_text), "{name}");
        }
        for format in &FORMATS {
            assert!(std::ptr::eq(Format::named(format.name).unwrap(), format), "{}", format.name);
        }
    }

    #[test]
    fn what_a_child_writes_is_read_back() {
        let message = |output: &[u8]| from_child(output.to_vec()).unwrap_err();
        let whole = from_child(b"T\na\n\ntext".to_vec()).unwrap();
        assert_eq!(whole, Extracted::from("a\n\ntext".to_string()));
        let part = from_child(b"Tone\ntwo\n\na text".to_vec()).unwrap();
        assert_eq!(
            part,
            Extracted {
                text: "a text".into(),
                left_out: vec!["one".into(), "two".into()],
                charset: None
            }
        );
        assert_eq!(message(b"Uit is not").message(), "it is not");
        assert_eq!(message(b"Uit is not").kind(), Kind::Invalid);
        assert_eq!(message(b"L").kind(), Kind::TooLarge);
        for broken in [&b""[..], b"X", b"T\xff", b"Tone\ntwo"] {
            assert_eq!(message(broken).kind(), Kind::Internal);
        }
    }

    #[test]
    fn a_text_without_words_or_over_the_limit_is_refused() {
        let of = |text: &str| finished("PDF", &Extracted::from(text.to_string()));
        assert_eq!(of(" a\u{1}b\n ").unwrap().text, "a b");
        let refused = of(" \n\u{1}\u{c}").unwrap_err();
        assert!(refused.message().contains("has no text; if it is a scan"), "{refused}");
        assert_eq!(of(&"a".repeat(MAX_TEXT_BYTES + 1)).unwrap_err().kind(), Kind::TooLarge);
        let left_out = vec!["page 1: damaged".into()];
        let nothing = Extracted { text: "\n".into(), left_out, charset: None };
        let refused = finished("PDF", &nothing).unwrap_err();
        assert!(refused.message().contains("(page 1: damaged)"), "{refused}");
    }
}
