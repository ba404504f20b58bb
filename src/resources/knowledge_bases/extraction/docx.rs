//! DOCX files (Office Open XML): a ZIP archive whose document is XML.

use std::fmt::Write as _;
use std::io::{BufReader, Cursor, Read};

use quick_xml::Reader;
use quick_xml::events::{BytesRef, Event};
use zip::ZipArchive;

use super::text::{BoundedText, too_long, unreadable};
use crate::base::{Error, Result};

/// The document has at most 48 MiB of XML: texts take a few bytes of markup for each of their own. More
/// is a file that was made to fill memory.
const MAX_XML_BYTES: u64 = 48 * 1024 * 1024;

/// An archive has at most 10,000 files: documents have some dozens, and their pictures.
const MAX_FILES: usize = 10_000;

/// Elements are nested at most 256 deep: tables in tables take some dozens.
const MAX_DEPTH: usize = 256;

/// Returns the text of a file: a line for each paragraph.
pub fn text(bytes: &[u8]) -> Result<String> {
    if bytes.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]) {
        return Err(unreadable(
            "the file is encrypted, or in the older format DOC; save it as DOCX without a password",
        ));
    }
    if !bytes.starts_with(b"PK") {
        return Err(unreadable("the file is no DOCX; send it with the media type that it has"));
    }
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
    if archive.len() > MAX_FILES {
        return Err(unreadable("the DOCX file has more than 10,000 parts; save it again"));
    }
    let name = document_name(&mut archive)?;
    let file = archive.by_name(&name).map_err(damaged)?;
    let mut xml = Reader::from_reader(BufReader::new(file.take(MAX_XML_BYTES + 1)));
    let mut content = Content::default();
    let mut buffer = Vec::new();
    loop {
        let event = xml.read_event_into(&mut buffer).map_err(damaged)?;
        if let Event::Eof = event {
            return content.finished();
        }
        if xml.buffer_position() > MAX_XML_BYTES {
            return Err(too_long());
        }
        content.event(&event)?;
        buffer.clear();
    }
}

/// Returns the name of the part with the document: `word/document.xml`, or with a number.
fn document_name(archive: &mut ZipArchive<Cursor<&[u8]>>) -> Result<String> {
    let is_document = |name: &str| {
        let number = name.strip_prefix("word/document").and_then(|rest| rest.strip_suffix(".xml"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let mut names = archive.file_names().filter_map(|name| name.ok());
    let found = names.find(|name| is_document(name)).map(|name| name.into_owned());
    found.ok_or_else(|| unreadable("the file is an archive, but no DOCX: it has no document"))
}

fn damaged(error: impl std::fmt::Display) -> Error {
    let reason: String = error.to_string().chars().take(200).collect();
    unreadable(format!("the DOCX file cannot be read ({reason}); save it again"))
}

/// The text as it is read.
#[derive(Default)]
struct Content {
    text: BoundedText,
    depth: usize,
    /// Inside `w:t`.
    is_text: bool,
    /// The depth of an element whose text is not shown, and with it of all below it.
    hidden_at: Option<usize>,
}

impl Content {
    fn event(&mut self, event: &Event) -> Result<()> {
        match event {
            Event::Start(start) => self.start(start.local_name().as_ref())?,
            Event::Empty(empty) => {
                self.start(empty.local_name().as_ref())?;
                self.end(empty.local_name().as_ref())?;
            }
            Event::End(end) => self.end(end.local_name().as_ref())?,
            Event::Text(text) if self.is_text => self.add(text)?,
            Event::CData(text) if self.is_text => self.add(text)?,
            Event::GeneralRef(reference) if self.is_text => self.reference(reference)?,
            Event::DocType(_) => {
                return Err(unreadable("the DOCX file declares entities, which none needs"));
            }
            _ => {}
        }
        Ok(())
    }

    fn start(&mut self, name: &str) -> Result<()> {
        self.depth += 1;
        if self.depth > MAX_DEPTH {
            return Err(unreadable("the elements of the DOCX file are nested too deep"));
        }
        match name {
            "t" => self.is_text = true,
            "tab" => self.add("\t")?,
            "br" | "cr" => self.add("\n")?,
            // The same again, for programs that do not know the newer form.
            "Fallback" => _ = self.hidden_at.get_or_insert(self.depth),
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, name: &str) -> Result<()> {
        match name {
            "t" => self.is_text = false,
            "p" => self.add("\n")?,
            "tc" => self.add("\t")?,
            _ => {}
        }
        if self.hidden_at == Some(self.depth) {
            self.hidden_at = None;
        }
        self.depth = self.depth.saturating_sub(1);
        Ok(())
    }

    /// Adds what a reference stands for: a character, or one of the five entities of XML.
    fn reference(&mut self, reference: &BytesRef) -> Result<()> {
        if let Some(c) = reference.resolve_char_ref().map_err(damaged)? {
            return self.add(c.encode_utf8(&mut [0; 4]));
        }
        match &**reference {
            "lt" => self.add("<"),
            "gt" => self.add(">"),
            "amp" => self.add("&"),
            "quot" => self.add("\""),
            "apos" => self.add("'"),
            _ => Err(unreadable("the DOCX file uses an entity that it does not have")),
        }
    }

    fn add(&mut self, text: &str) -> Result<()> {
        if self.hidden_at.is_some() {
            return Ok(());
        }
        self.text.write_str(text).map_err(|_| too_long())
    }

    /// The whole text; none of a document that breaks off.
    fn finished(self) -> Result<String> {
        if self.depth > 0 {
            return Err(damaged("it breaks off"));
        }
        Ok(self.text.text)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use zip::ZipWriter;
    use zip::write::SimpleFileOptions;

    use super::*;
    use crate::base::Kind;

    /// A file with this document, and so many other parts.
    fn docx(document: &[u8], others: usize) -> Vec<u8> {
        let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
        for number in 0..others {
            archive.start_file(format!("{number}"), SimpleFileOptions::default()).unwrap();
        }
        archive.start_file("word/document.xml", SimpleFileOptions::default()).unwrap();
        archive.write_all(document).unwrap();
        archive.finish().unwrap().into_inner()
    }

    /// Words that many elements deep.
    fn nested(depth: usize) -> Vec<u8> {
        let (open, close) = (b"<w:p>".repeat(depth - 1), b"</w:p>".repeat(depth - 1));
        [open.as_slice(), b"<w:t>words</w:t>", &close].concat()
    }

    #[test]
    fn what_is_within_the_limits_is_read_and_what_is_beyond_is_named() {
        assert!(text(&docx(&nested(MAX_DEPTH), 0)).unwrap().starts_with("words"));
        assert!(text(&docx(&nested(2), MAX_FILES - 1)).unwrap().starts_with("words"));
        for (file, said) in [
            (docx(&nested(MAX_DEPTH + 1), 0), "nested too deep"),
            (docx(&nested(2), MAX_FILES), "more than 10,000 parts"),
            (docx(b"<!DOCTYPE a []><w:t>words</w:t>", 0), "declares entities"),
            (docx(b"<w:t>words &a;</w:t>", 0), "an entity that it does not have"),
        ] {
            let refused = text(&file).unwrap_err();
            assert!(refused.message().contains(said), "{refused}");
        }
        let padding = vec![b' '; MAX_XML_BYTES as usize];
        let padded = [b"<w:p><w:t>words</w:t>".as_slice(), &padding, b"</w:p>"].concat();
        assert_eq!(text(&docx(&padded, 0)).unwrap_err().kind(), Kind::TooLarge);
    }
}
