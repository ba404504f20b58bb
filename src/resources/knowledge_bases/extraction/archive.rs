//! Formats that are a ZIP archive of XML files: finding their parts, and reading them within bounds.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::io::{self, BufReader, Cursor, Read};

use quick_xml::events::attributes::Attributes;
use quick_xml::events::{BytesRef, Event};
use quick_xml::{Reader, XmlVersion};
use zip::ZipArchive;
use zip::result::ZipResult;

use super::budget::Budget;
use super::in_utf8::InUtf8;
use super::part_names::PartNames;
use super::text::{BoundedText, too_long, unreadable};
use crate::base::{Error, Result};

/// All that is read of a file has at most 96 MiB once inflated and in UTF-8: texts take a few bytes of
/// markup for each of their own, and sheets some ten. More is a file that was made to fill memory or time.
pub const MAX_READ_BYTES: u64 = 96 * 1024 * 1024;

/// An archive has at most 10,000 files: documents have some dozens, and their pictures.
pub const MAX_FILES: usize = 10_000;

/// Elements are nested at most 256 deep: tables in tables take some dozens.
pub const MAX_DEPTH: usize = 256;

/// So much at most is inflated at once: if it fails, it counts as if all of that was.
const INFLATED_AT_ONCE: usize = 32 * 1024;

/// A file as an archive.
pub struct Archive<'a> {
    /// The name of the format, in messages.
    format: &'static str,
    zip: ZipArchive<Cursor<&'a [u8]>>,
    names: PartNames,
    budget: Budget,
}

impl<'a> Archive<'a> {
    /// Opens a file of this format.
    ///
    /// # Errors
    /// 400 if it is no archive, or is damaged, encrypted or has too many files.
    pub fn open(format: &'static str, bytes: &'a [u8]) -> Result<Self> {
        if bytes.starts_with(&[0xd0, 0xcf, 0x11, 0xe0]) {
            return Err(unreadable(format!(
                "the file is encrypted, or in an older format such as DOC, XLS or PPT; save it as \
                 {format} without a password"
            )));
        }
        if !bytes.starts_with(b"PK") {
            return Err(other_format(format));
        }
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(|error| damaged(format, error))?;
        if zip.len() > MAX_FILES {
            let message = format!("the {format} file has more than 10,000 parts; save it again");
            return Err(unreadable(message));
        }
        for at in 0..zip.len() {
            let entry = zip.by_index_data(at).map_err(|error| damaged(format, error))?;
            if entry.encrypted() {
                return Err(encrypted(format));
            }
        }
        let names = names(&zip).map_err(|error| damaged(format, error))?;
        let names = PartNames::new(&names);
        Ok(Archive { format, zip, names, budget: Budget::new(MAX_READ_BYTES) })
    }

    /// The names of the parts, each at least in lower case, and in no order.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.all()
    }

    /// Returns where the part is that this name means.
    pub fn find(&self, name: &str) -> Option<usize> {
        self.names.find(name)
    }

    /// Whether there is a part of this name.
    pub fn has(&self, name: &str) -> bool {
        self.find(name).is_some()
    }

    /// Returns the XML of a part; none if there is no part of this name.
    pub fn xml(&mut self, name: &str) -> Result<Option<Xml<'_>>> {
        let format = self.format;
        let Some(part) = self.part(name)? else { return Ok(None) };
        let budget = part.budget;
        let mut reader = Reader::from_reader(BufReader::new(InUtf8::new(part, budget)));
        reader.config_mut().expand_empty_elements = true;
        Ok(Some(Xml {
            format,
            budget,
            reader,
            buffer: Vec::new(),
            names: Vec::new(),
            depth: 0,
            is_ended: false,
            content: String::new(),
        }))
    }

    /// Returns the XML of a part to which another one refers.
    ///
    /// # Errors
    /// 400 also if there is no part of this name: it is as good as damaged.
    pub fn referred(&mut self, name: &str) -> Result<Xml<'_>> {
        let missing = self.missing();
        self.xml(name)?.ok_or(missing)
    }

    /// Returns the bytes of a part; none if there is no part of this name.
    pub fn bytes(&mut self, name: &str) -> Result<Option<Vec<u8>>> {
        let format = self.format;
        let Some(mut part) = self.part(name)? else { return Ok(None) };
        let mut bytes = Vec::new();
        match part.read_to_end(&mut bytes) {
            Ok(_) => Ok(Some(bytes)),
            Err(error) => Err(failure(format, part.budget, error)),
        }
    }

    /// Counts what a text has more bytes in UTF-8 than the part had of which it was decoded.
    ///
    /// # Errors
    /// 413 if that is more than may be read of the file.
    pub fn count_decoded(&self, part: usize, text: usize) -> Result<()> {
        self.budget.take(text.saturating_sub(part)).map_err(|_| too_long())
    }

    /// Returns a part to read; none if there is no part of this name.
    fn part(&mut self, name: &str) -> Result<Option<Part<'_>>> {
        let Some(at) = self.find(name) else { return Ok(None) };
        let file = self.zip.by_index(at).map_err(|error| damaged(self.format, error))?;
        Ok(Some(Part { file: Box::new(file), budget: &self.budget }))
    }

    /// The error of an archive that is none of this format.
    pub fn other(&self) -> Error {
        let format = self.format;
        unreadable(format!(
            "the file is an archive, but no {format}; send it with the media type that it has"
        ))
    }

    /// The error of a part that is not there though another one refers to it.
    pub fn missing(&self) -> Error {
        damaged(self.format, "a part is missing")
    }

    /// The error of a file that is encrypted.
    pub fn encrypted(&self) -> Error {
        encrypted(self.format)
    }
}

/// The names of the files of an archive. Programs that do not say that names are in UTF-8 write it
/// nevertheless, rather than what DOS had.
fn names<'a>(zip: &'a ZipArchive<Cursor<&[u8]>>) -> ZipResult<Vec<Cow<'a, str>>> {
    let named = zip.file_names_raw().zip(zip.file_names());
    let name = |(raw, read): (&'a [u8], ZipResult<Cow<'a, str>>)| {
        std::str::from_utf8(raw).map_or(read, |name| Ok(name.into()))
    };
    named.map(name).collect()
}

/// A part that is inflated as it is read. All that is inflated counts, whether it is of use or not: the
/// checksum of a part is compared when all of it is inflated.
struct Part<'a> {
    file: Box<dyn Read + 'a>,
    budget: &'a Budget,
}

impl Read for Part<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let most = buffer.len().min(INFLATED_AT_ONCE);
        let read = self.file.read(&mut buffer[..most]);
        self.budget.take(*read.as_ref().unwrap_or(&most))?;
        read
    }
}

/// The error of a part, of which this was told by a reader.
fn failure(format: &str, budget: &Budget, error: impl std::fmt::Display) -> Error {
    if budget.is_exceeded() { too_long() } else { damaged(format, error) }
}

/// Returns the error of a file that is encrypted.
fn encrypted(format: &str) -> Error {
    unreadable(format!("the {format} file is encrypted; save it without a password"))
}

/// Returns the error of a file that is of another format than this one.
pub fn other_format(format: &str) -> Error {
    unreadable(format!("the file is no {format}; send it with the media type that it has"))
}

/// Returns the error of a file that is damaged, with the reason.
pub fn damaged(format: &str, error: impl std::fmt::Display) -> Error {
    let reason: String = error.to_string().chars().take(200).collect();
    unreadable(format!("the {format} file cannot be read ({reason}); save it again"))
}

/// What comes next in a part; its name, attributes or text are asked of [`Xml`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    Start,
    End,
    Text,
    /// The end of the part.
    Done,
}

/// A part that is read element by element. Names are without their prefixes.
pub struct Xml<'a> {
    format: &'static str,
    budget: &'a Budget,
    reader: Reader<BufReader<InUtf8<'a, Part<'a>>>>,
    buffer: Vec<u8>,
    /// The names of the open elements, and of some that are closed: see `depth`.
    names: Vec<String>,
    depth: usize,
    /// Whether the innermost element is closed with the next step.
    is_ended: bool,
    /// The text, or the start tag.
    content: String,
}

impl Xml<'_> {
    /// Goes on to the next start, end or text.
    ///
    /// # Errors
    /// 400 for what is no XML, declares or uses entities, breaks off or is nested too deep; 413 if more
    /// is inflated than may be.
    pub fn step(&mut self) -> Result<Next> {
        if std::mem::take(&mut self.is_ended) {
            self.depth = self.depth.saturating_sub(1);
        }
        loop {
            self.buffer.clear();
            let format = self.format;
            let event = match self.reader.read_event_into(&mut self.buffer) {
                Ok(event) => event,
                Err(error) => return Err(failure(format, self.budget, error)),
            };
            self.content.clear();
            match event {
                Event::Start(start) => {
                    self.content.push_str(&start);
                    if self.depth == MAX_DEPTH {
                        let message =
                            format!("the elements of the {format} file are nested too deep");
                        return Err(unreadable(message));
                    }
                    if self.names.len() == self.depth {
                        self.names.push(String::new());
                    }
                    let name = &mut self.names[self.depth];
                    name.clear();
                    name.push_str(start.local_name().as_ref());
                    self.depth += 1;
                    return Ok(Next::Start);
                }
                Event::End(_) => {
                    self.is_ended = true;
                    return Ok(Next::End);
                }
                Event::Text(text) => {
                    self.content.push_str(&text);
                    return Ok(Next::Text);
                }
                Event::CData(text) => {
                    self.content.push_str(&text);
                    return Ok(Next::Text);
                }
                Event::GeneralRef(reference) => {
                    self.content.push(referred(format, &reference)?);
                    return Ok(Next::Text);
                }
                Event::DocType(declared) if declared.contains('[') => {
                    let message = format!("the {format} file declares entities, which none needs");
                    return Err(unreadable(message));
                }
                Event::Eof if self.depth > 0 => return Err(damaged(format, "it breaks off")),
                Event::Eof => return Ok(Next::Done),
                _ => {}
            }
        }
    }

    /// Goes on to the next start of an element; `false` at the end of the part.
    pub fn next_start(&mut self) -> Result<bool> {
        loop {
            match self.step()? {
                Next::Start => return Ok(true),
                Next::Done => return Ok(false),
                Next::End | Next::Text => {}
            }
        }
    }

    /// The name of the element that starts or ends; inside of it, of the one whose text this is.
    pub fn name(&self) -> &str {
        self.above(0)
    }

    /// The name of the element so many levels above; nothing if there is none.
    pub fn above(&self, levels: usize) -> &str {
        let at = self.depth.checked_sub(levels + 1);
        at.and_then(|at| self.names.get(at)).map_or("", String::as_str)
    }

    /// How many elements are open.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// The text. White space of lines is as in the file.
    pub fn text(&self) -> &str {
        &self.content
    }

    /// The value of an attribute of the element that starts.
    pub fn attribute(&self, name: &str) -> Option<String> {
        self.attributes().find(|(key, _)| key == name).map(|(_, value)| value)
    }

    /// The attributes of the element that starts: names without prefixes, and values.
    pub fn attributes(&self) -> impl Iterator<Item = (String, String)> {
        let begin = self.content.find(|c: char| c.is_ascii_whitespace());
        let mut attributes = Attributes::new(&self.content, begin.unwrap_or(self.content.len()));
        attributes.with_checks(false);
        attributes.filter_map(|attribute| {
            let attribute = attribute.ok()?;
            let value = attribute.normalized_value(XmlVersion::Implicit1_0).ok()?;
            Some((attribute.key.local_name().as_ref().to_string(), value.into_owned()))
        })
    }

    /// Returns the text of the element that started, and goes on to its end.
    pub fn inner_text(&mut self) -> Result<String> {
        let (depth, mut text) = (self.depth, BoundedText::default());
        while !(self.is_ended && self.depth == depth) {
            match self.step()? {
                Next::Text => text.write_str(&self.content).map_err(|_| too_long())?,
                Next::Done => break,
                Next::Start | Next::End => {}
            }
        }
        Ok(text.text)
    }

    /// Goes on to the end of the element that started.
    pub fn skip(&mut self) -> Result<()> {
        self.skip_above(0)
    }

    /// Goes on to the end of the element so many levels above, which the next step would have told.
    pub fn skip_above(&mut self, levels: usize) -> Result<()> {
        let depth = self.depth.saturating_sub(levels);
        while !(self.is_ended && self.depth == depth) {
            if self.step()? == Next::Done {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Returns what a reference stands for: a character, or one of the five entities of XML.
fn referred(format: &str, reference: &BytesRef) -> Result<char> {
    if let Some(c) = reference.resolve_char_ref().map_err(|error| damaged(format, error))? {
        return Ok(c);
    }
    match &**reference {
        "lt" => Ok('<'),
        "gt" => Ok('>'),
        "amp" => Ok('&'),
        "quot" => Ok('"'),
        "apos" => Ok('\''),
        _ => {
            let message = format!("the {format} file uses an entity that it does not have");
            Err(unreadable(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing;
    use super::*;
    use crate::base::Kind;

    /// The text of all elements of a part with this content, beside so many other files.
    fn text(xml: &str, others: usize) -> Result<String> {
        let names: Vec<String> = (0..others).map(|number| number.to_string()).collect();
        let mut files: Vec<(&str, &str)> = names.iter().map(|name| (name.as_str(), "")).collect();
        files.push(("a.xml", xml));
        let bytes = testing::archive(&files);
        let mut archive = Archive::open("DOCX", &bytes)?;
        let mut xml = archive.xml("A.XML")?.unwrap();
        assert!(xml.next_start()?);
        xml.inner_text()
    }

    #[test]
    fn parts_are_read_in_the_encoding_that_they_say() {
        let xml = "<?xml version=\"1.0\" encoding=\"UTF-16\"?><p a='é'>発票</p>";
        let utf16 = format!("\u{feff}{xml}").encode_utf16().flat_map(u16::to_le_bytes).collect();
        let latin = b"<?xml version='1.0' encoding='ISO-8859-1'?><p a='\xe9'>\xe9</p>".to_vec();
        let broken = b"<?xml version='1.0'?><p a='\xe9'>\xe9</p>".to_vec();
        for (bytes, text) in [(utf16, Some("発票")), (latin, Some("é")), (broken, None)] {
            let bytes: Vec<u8> = bytes;
            let file = testing::archive_of_bytes(&[("a.xml", &bytes)]);
            let mut archive = Archive::open("DOCX", &file).unwrap();
            let mut xml = archive.xml("a.xml").unwrap().unwrap();
            match text {
                Some(text) => {
                    assert!(xml.next_start().unwrap());
                    assert_eq!(xml.attribute("a").as_deref(), Some("é"));
                    assert_eq!(xml.inner_text().unwrap(), text);
                }
                None => assert_eq!(xml.next_start().unwrap_err().kind(), Kind::Invalid),
            }
        }
    }

    /// Words that many elements deep.
    fn nested(depth: usize) -> String {
        format!("{}words{}", "<p>".repeat(depth), "</p>".repeat(depth))
    }

    #[test]
    fn what_is_within_the_limits_is_read_and_what_is_beyond_is_named() {
        assert_eq!(text(&nested(MAX_DEPTH), 0).unwrap(), "words");
        assert_eq!(text(&nested(2), MAX_FILES - 1).unwrap(), "words");
        assert_eq!(text("<p>a&lt;<b/><![CDATA[<]]>&#x61;&amp;</p>", 0).unwrap(), "a<<a&");
        for (xml, others, said) in [
            (nested(MAX_DEPTH + 1).as_str(), 0, "nested too deep"),
            (&nested(2), MAX_FILES, "more than 10,000 parts"),
            ("<!DOCTYPE a [<!ENTITY b \"c\">]><p>words</p>", 0, "declares entities"),
            ("<p>words &a;</p>", 0, "an entity that it does not have"),
            ("<p>words", 0, "breaks off"),
            ("<p>words</q>", 0, "cannot be read"),
        ] {
            let refused = text(xml, others).unwrap_err();
            assert!(refused.message().contains(said), "{refused}");
        }
    }

    #[test]
    fn all_parts_together_are_inflated_within_the_limit() {
        let half = format!("<p>{}</p>", " ".repeat(MAX_READ_BYTES as usize / 2));
        let bytes = testing::archive(&[("a.xml", &half), ("b.xml", "<p></p>")]);
        let mut archive = Archive::open("DOCX", &bytes).unwrap();
        let read = |archive: &mut Archive, name: &str| {
            let mut xml = archive.xml(name).unwrap().unwrap();
            while xml.next_start()? {}
            Ok::<_, Error>(())
        };
        read(&mut archive, "a.xml").unwrap();
        read(&mut archive, "b.xml").unwrap();
        assert_eq!(read(&mut archive, "a.xml").unwrap_err().kind(), Kind::TooLarge);
        let mut archive = Archive::open("DOCX", &bytes).unwrap();
        assert!(archive.bytes("a.xml").unwrap().is_some());
        assert_eq!(archive.bytes("a.xml").unwrap_err().kind(), Kind::TooLarge);
        assert!(archive.bytes("c.xml").unwrap().is_none());
    }

    #[test]
    fn all_parts_together_are_decoded_within_the_limit() {
        // Half as many bytes as in UTF-8, and a third.
        let text = "発".repeat(MAX_READ_BYTES as usize / 8);
        let xml = format!("<?xml version='1.0' encoding='utf-16'?><p>{text}</p>");
        let utf16: Vec<u8> = xml.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let bytes = testing::archive_of_bytes(&[("a.xml", &utf16)]);
        let mut archive = Archive::open("DOCX", &bytes).unwrap();
        let kinds = [(); 3].map(|()| {
            let mut xml = archive.xml("a.xml").unwrap().unwrap();
            while xml.next_start().map_err(|error| error.kind())? {}
            Ok::<_, Kind>(())
        });
        assert_eq!(kinds, [Ok(()), Ok(()), Err(Kind::TooLarge)]);
        let archive = Archive::open("DOCX", &bytes).unwrap();
        let all = MAX_READ_BYTES as usize;
        archive.count_decoded(7, all).unwrap();
        archive.count_decoded(7, 7).unwrap();
        assert_eq!(archive.count_decoded(0, 8).unwrap_err().kind(), Kind::TooLarge);
    }

    #[test]
    fn names_in_utf8_are_read_also_where_nothing_says_that_they_are() {
        let mut bytes = testing::archive(&[("größe.xml", "<a/>")]);
        let [header] = headers(&bytes)[..] else { panic!("of one file") };
        // Bit 11, in the directory and before the file.
        for flags in [header + 9, 7] {
            assert_eq!(bytes[flags] & 8, 8);
            bytes[flags] &= !8;
        }
        assert!(Archive::open("EPUB", &bytes).unwrap().has("GRÖßE.XML"));
    }

    /// The places of the headers of the directory of an archive.
    fn headers(archive: &[u8]) -> Vec<usize> {
        let is_header = |at: &usize| archive[*at..].starts_with(b"PK\x01\x02");
        (0..archive.len()).filter(is_header).collect()
    }

    #[test]
    fn what_is_inflated_of_damaged_parts_counts_too() {
        let part = format!("<p>{}</p>", " ".repeat(MAX_READ_BYTES as usize * 2 / 5));
        let mut bytes = testing::archive(&[("a.xml", &part)]);
        // Another checksum, which is compared at the end.
        let header = headers(&bytes)[0];
        bytes[header + 16] ^= 1;
        let as_bytes = |archive: &mut Archive| archive.bytes("a.xml").map(drop);
        let as_xml = |archive: &mut Archive| {
            let mut xml = archive.xml("a.xml")?.unwrap();
            while xml.next_start()? {}
            Ok(())
        };
        for read in [&as_bytes as &dyn Fn(&mut Archive) -> Result<()>, &as_xml] {
            let mut archive = Archive::open("EPUB", &bytes).unwrap();
            let kinds = [(); 3].map(|()| read(&mut archive).unwrap_err().kind());
            assert_eq!(kinds, [Kind::Invalid, Kind::Invalid, Kind::TooLarge]);
        }
    }

    #[test]
    fn an_archive_with_a_password_is_encrypted_and_not_damaged() {
        let mut bytes = testing::archive(&[("a.xml", "<a/>"), ("b.xml", "<b/>")]);
        assert!(Archive::open("EPUB", &bytes).is_ok());
        let header = headers(&bytes)[1];
        bytes[header + 8] |= 1;
        let refused = Archive::open("EPUB", &bytes).err().unwrap();
        assert!(refused.message().contains("is encrypted"), "{refused}");
    }

    #[test]
    fn elements_are_skipped_to_their_end() {
        let bytes = testing::archive(&[("a.xml", "<a><b><c d='1' x:e='&lt;'/>no</b>yes</a>")]);
        let mut archive = Archive::open("DOCX", &bytes).unwrap();
        let mut xml = archive.xml("a.xml").unwrap().unwrap();
        for _ in 0..3 {
            assert_eq!(xml.step().unwrap(), Next::Start);
        }
        assert_eq!((xml.name(), xml.above(1), xml.above(2), xml.above(3)), ("c", "b", "a", ""));
        assert_eq!(xml.attribute("e").as_deref(), Some("<"));
        xml.skip_above(1).unwrap();
        assert_eq!(xml.step().unwrap(), Next::Text);
        assert_eq!((xml.text(), xml.name(), xml.depth()), ("yes", "a", 1));
        assert_eq!(xml.step().unwrap(), Next::End);
        assert_eq!(xml.step().unwrap(), Next::Done);
    }
}
