//! PDF files. Runs in a child process only: the libraries panic, exhaust memory or never return on
//! some files.

use pdf_extract::{ConvertToFmt, Document, OutputError, PlainTextOutput, output_doc};

use super::text::{BoundedText, too_long, unreadable};
use crate::base::{Error, Result};

/// Where the header may begin: some programs put bytes of their own before it.
const HEADER_WITHIN: usize = 1024;

impl ConvertToFmt for &mut BoundedText {
    type Writer = Self;
    fn convert(self) -> Self {
        self
    }
}

/// Returns the text of a file, page by page.
pub fn text(bytes: &[u8]) -> Result<String> {
    let head = &bytes[..bytes.len().min(HEADER_WITHIN)];
    if !head.windows(5).any(|five| five == b"%PDF-") {
        return Err(unreadable("the file is no PDF; send it with the media type that it has"));
    }
    let mut document = Document::load_mem(bytes).map_err(damaged)?;
    // Many files are encrypted with an empty password, so that programs can forbid to print them.
    if document.is_encrypted() && document.decrypt("").is_err() {
        return Err(unreadable("the PDF file is encrypted; remove its password"));
    }
    let mut text = BoundedText::default();
    match output_doc(&document, &mut PlainTextOutput::new(&mut text)) {
        Ok(()) => Ok(text.text),
        Err(OutputError::FormatError(_)) => Err(too_long()),
        Err(error) => Err(damaged(error)),
    }
}

fn damaged(error: impl std::fmt::Display) -> Error {
    let reason: String = error.to_string().chars().take(200).collect();
    unreadable(format!(
        "the PDF file cannot be read ({reason}); save it again with another program"
    ))
}
