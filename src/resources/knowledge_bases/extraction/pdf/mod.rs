//! PDF files. Runs in a child process only: a file may inflate to more than there is memory for.
//!
//! What cannot be read is left out and told; the rest of the file is read.

mod annotations;
mod content;
mod fonts;
mod layout;
mod left_out;
mod spacing;
mod strings;
#[cfg(test)]
mod tests;
mod unicode;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use hayro_font::kurbo::{Affine, Rect};
use hayro_syntax::object::dict::keys;
use hayro_syntax::object::{Dict, Object, Stream};
use hayro_syntax::page::Page;
use hayro_syntax::{LoadPdfError, Pdf};

use super::text::{Extracted, MAX_TEXT_BYTES, too_long, unreadable};
use crate::base::Result;
use content::{Limits, MAX_CONTENT_BYTES, Reader, State, Stop};
use fonts::Fonts;
use left_out::{LeftOut, Reason};

/// Where the header may begin: some programs put bytes of their own before it.
const HEADER_WITHIN: usize = 1024;

/// Pages that are not read after 7 s are left out: with what follows, the child has 15.
const TIME: Duration = Duration::from_secs(7);

/// Told of a form whose pages only ask for another program (XFA).
const MADE_WHEN_OPENED: &str =
    "the file is a form that a program makes when it opens it (XFA); print it into a PDF";

/// Glyphs at the edge of a page are seen, a point beyond it too.
const EDGE: f64 = 1.0;

/// Returns the text of a file, page by page, with a form feed between two of them.
pub fn text(bytes: &[u8]) -> Result<Extracted> {
    text_until(bytes, Instant::now() + TIME)
}

fn text_until(bytes: &[u8], until: Instant) -> Result<Extracted> {
    let head = &bytes[..bytes.len().min(HEADER_WITHIN)];
    if !head.windows(5).any(|five| five == b"%PDF-") {
        return Err(unreadable("the file is no PDF; send it with the media type that it has"));
    }
    // Many files are encrypted with an empty password, so that programs can forbid to print them.
    let pdf = Pdf::new(bytes.to_vec()).map_err(|error| match error {
        LoadPdfError::Decryption(_) => {
            unreadable("the PDF file is encrypted; remove its password")
        }
        LoadPdfError::Invalid => unreadable(
            "the PDF file is damaged: no page can be found in it; save it again with another program",
        ),
    })?;
    let (mut fonts, mut left_out, mut text) = (Fonts::new(), LeftOut::default(), String::new());
    for (index, page) in pdf.pages().iter().enumerate() {
        let number = index + 1;
        if index > 0 {
            text.push('\u{c}');
        }
        if Instant::now() > until {
            left_out.add(number, Reason::Late);
            continue;
        }
        let room = MAX_TEXT_BYTES.checked_sub(text.len()).ok_or_else(too_long)?;
        let limits = Limits { text_bytes: room, until };
        let mut reader = Reader::new(&mut fonts, &mut left_out, number, limits);
        // What was read before a panic stays.
        if catch_unwind(AssertUnwindSafe(|| read_page(page, &mut reader))).is_err() {
            reader.note_damage();
        }
        let (stop, has_pictures) = (reader.stop, reader.has_pictures);
        let layout = reader.layout;
        let of_page = catch_unwind(AssertUnwindSafe(|| layout.finished())).unwrap_or_default();
        match stop {
            Some(Stop::TooLong) => return Err(too_long()),
            Some(Stop::Late) => left_out.add(number, Reason::Late),
            None if of_page.is_empty() && has_pictures => left_out.add(number, Reason::Pictures),
            None => {}
        }
        text.push_str(&of_page);
    }
    let mut sentences = left_out.sentences();
    if catch_unwind(AssertUnwindSafe(|| is_made_when_opened(&pdf))).unwrap_or(false) {
        sentences.push(MADE_WHEN_OPENED.into());
    }
    Ok(Extracted { text, left_out: sentences, charset: None })
}

fn read_page<'a>(page: &Page<'a>, reader: &mut Reader<'a, '_>) {
    let seen = page.intersected_crop_box();
    // Some files have a box of no size, which viewers ignore.
    if seen.x1 - seen.x0 > EDGE && seen.y1 - seen.y0 > EDGE {
        reader.set_visible(Rect::new(seen.x0, seen.y0, seen.x1, seen.y1).inflate(EDGE, EDGE));
    }
    let content = content_of(page, reader);
    reader.read(&content, page.resources(), State::new(Affine::IDENTITY));
    reader.set_visible(Rect::new(f64::MIN, f64::MIN, f64::MAX, f64::MAX));
    annotations::read(page, reader);
}

/// Returns the content streams of a page as one. Those that are damaged are left out.
fn content_of<'a>(page: &Page<'a>, reader: &mut Reader<'a, '_>) -> Vec<u8> {
    let streams: Vec<Option<Stream>> = match page.raw().get::<Object>(keys::CONTENTS) {
        Some(Object::Stream(stream)) => vec![Some(stream)],
        Some(Object::Array(parts)) => parts.iter::<Object>().map(Object::into_stream).collect(),
        _ => Vec::new(),
    };
    let mut content = Vec::new();
    for stream in streams {
        if content.len() > MAX_CONTENT_BYTES || reader.stops() {
            reader.note_damage();
            break;
        }
        match stream {
            Some(stream) => {
                content.extend_from_slice(&reader.decoded(&stream));
                content.push(b'\n'); // Operators do not go on in the next one.
            }
            None => reader.note_damage(),
        }
    }
    content
}

/// Whether the pages only say that a program must make the real ones.
fn is_made_when_opened(pdf: &Pdf) -> bool {
    let catalog = pdf.xref().get::<Dict>(pdf.xref().root_id());
    catalog.and_then(|catalog| catalog.get::<bool>(b"NeedsRendering")).unwrap_or(false)
}
