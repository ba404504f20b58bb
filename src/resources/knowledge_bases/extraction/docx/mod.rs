//! DOCX files (Office Open XML), with tracked changes as if they were accepted.

mod numbering;
mod toggles;

use std::collections::HashMap;

use super::archive::{Archive, Next, Xml};
use super::chart::Charts;
use super::lines::Lines;
use super::numbers::roman;
use super::package::{Relationship, has_relationships, of_kind, relationships};
use super::text::{Extracted, unless_damaged, unreadable};
use crate::base::Result;
use numbering::{Numbered, Numbering};
use toggles::{is_on, is_true};

const FORMAT: &str = "DOCX";

const OTHERS: &str = "text that is embedded in another format (altChunk) is left out: open the file in \
                      Word and save it again";

/// Returns the text of a file: a line for each paragraph, with footnotes and endnotes at the end.
pub fn text(bytes: &[u8]) -> Result<Extracted> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let document = document_name(&mut archive)?;
    let (mut content, mut left_out) = (Content::default(), Vec::new());
    let missing = "the references of the document are damaged: its notes, its charts, and the numbers and \
                   bullets of its lists are left out";
    let parts = relationships(&mut archive, &document);
    let is_read = parts.is_ok();
    let parts = unless_damaged(parts, &mut left_out, missing)?;
    content.read_lists(&mut archive, &parts, &mut left_out)?;
    let mut charts = Charts::default();
    content.charts = charts.by_id(&mut archive, &parts)?;
    let xml = archive.xml(&document)?;
    content.read(xml.ok_or_else(|| unreadable("the DOCX file has no document"))?)?;
    let is_lost = !has_relationships(&archive, &document) && content.refers();
    if is_lost {
        unless_damaged::<()>(Err(archive.missing()), &mut left_out, missing)?;
    }
    for notes in [&FOOTNOTES, &ENDNOTES] {
        let is_shown = !content.notes(notes).is_empty();
        let read = match of_kind(&parts, notes.part) {
            Some(name) => archive.referred(name).and_then(|xml| content.read_notes(xml)),
            None if is_shown && is_read && !is_lost => Err(archive.missing()),
            None => continue,
        };
        let has_part = read.is_ok();
        unless_damaged(read, &mut left_out, notes.missing)?;
        if has_part && !content.notes(notes).is_empty() {
            left_out.push(notes.lost.into());
        }
    }
    if is_read && !is_lost {
        charts.add_missing(content.missing_charts);
    }
    if content.has_others {
        left_out.push(OTHERS.into());
    }
    let text = content.lines.finished()?;
    left_out.extend(charts.left_out());
    Ok(Extracted { left_out, ..text.into() })
}

/// Returns the name of the part with the document: as the file says, or else by its usual name.
fn document_name(archive: &mut Archive) -> Result<String> {
    let parts = relationships(archive, "");
    let names_one = |name: &&str| name.starts_with("word/");
    if let Ok(parts) = &parts
        && let Some(name) = of_kind(parts, "officeDocument").filter(names_one)
    {
        return Ok(name.into());
    }
    let is_document = |name: &&str| {
        let number = name.strip_prefix("word/document").and_then(|rest| rest.strip_suffix(".xml"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    match (archive.names().find(is_document), parts) {
        (Some(found), _) => Ok(found.into()),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(archive.other()),
    }
}

/// A kind of notes.
struct Notes {
    /// The kind of the part with their texts.
    part: &'static str,
    /// How one with this number is named in the text.
    label: fn(u32) -> String,
    /// What is said if they are damaged.
    missing: &'static str,
    /// What is said if one to which the text refers is not among them.
    lost: &'static str,
}

const FOOTNOTES: Notes = Notes {
    part: "footnotes",
    label: |number| format!("[{number}]"),
    missing: "the footnotes are damaged and left out",
    lost: "footnotes that are damaged are left out",
};

const ENDNOTES: Notes = Notes {
    part: "endnotes",
    label: |number| format!("[{}]", roman(number)),
    missing: "the endnotes are damaged and left out",
    lost: "endnotes that are damaged are left out",
};

/// The text as it is read.
#[derive(Default)]
struct Content {
    lines: Lines,
    paragraphs: Vec<Paragraph>,
    /// The line of the paragraph before, if it goes on with the next one.
    goes_on: Option<Line>,
    numbering: Numbering,
    /// The texts of charts by their ids; none of those that were read or are left out.
    charts: HashMap<String, String>,
    /// How many charts are shown that are not there.
    missing_charts: usize,
    /// Whether there are paragraphs of lists, or texts in other formats.
    has_lists: bool,
    has_others: bool,
    /// The fields that are open, and how many of them have not come to their result.
    fields: Vec<Field>,
    instructions: usize,
    /// The numbers of the notes that the text refers to, by their ids, until these are read.
    footnotes: HashMap<String, u32>,
    endnotes: HashMap<String, u32>,
}

/// A paragraph that is open.
#[derive(Default)]
struct Paragraph {
    /// Whether the mark at its end is deleted: it goes on with the next one.
    is_deleted: bool,
    /// Whether this mark is not shown, and its number neither.
    is_hidden: bool,
    numbered: Numbered,
    /// Whether its text, or its end, was read.
    is_begun: bool,
    line: Line,
}

/// What the line of a paragraph has so far; several paragraphs have one if the marks between them are
/// deleted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Line {
    #[default]
    Empty,
    /// Text without a number.
    Text,
    Numbered,
}

#[derive(PartialEq, Eq)]
enum Field {
    Instruction,
    Result,
}

impl Content {
    /// Reads which lists there are.
    fn read_lists(
        &mut self,
        archive: &mut Archive,
        parts: &[Relationship],
        left_out: &mut Vec<String>,
    ) -> Result<()> {
        let styles = "the styles are damaged: numbers and bullets of lists may be missing";
        let lists = "the lists are damaged: their numbers and bullets are left out";
        for (kind, missing) in [("styles", styles), ("numbering", lists)] {
            let Some(name) = of_kind(parts, kind) else { continue };
            let numbering = &mut self.numbering;
            let read = archive.referred(name).and_then(|xml| match kind {
                "styles" => numbering.read_styles(xml),
                _ => numbering.read_lists(xml),
            });
            unless_damaged(read, left_out, missing)?;
        }
        Ok(())
    }

    /// Reads notes, which stand after the text: all of their part, or nothing.
    fn read_notes(&mut self, xml: Xml) -> Result<()> {
        let text = std::mem::take(&mut self.lines);
        let read = self.read(xml);
        let notes = std::mem::replace(&mut self.lines, text);
        if read.is_err() {
            // What follows does not go on where that ended.
            self.paragraphs.clear();
            self.fields.clear();
            (self.goes_on, self.instructions) = (None, 0);
            return read;
        }
        self.lines.add(&notes.finished()?)
    }

    fn read(&mut self, mut xml: Xml) -> Result<()> {
        loop {
            match xml.step()? {
                Next::Start => self.start(&mut xml)?,
                Next::End => self.end(&xml)?,
                Next::Text if xml.name() == "t" && self.instructions == 0 => {
                    self.add(xml.text())?;
                }
                Next::Text => {}
                Next::Done => return self.lines.end_line(),
            }
        }
    }

    fn start(&mut self, xml: &mut Xml) -> Result<()> {
        match (xml.name(), xml.above(1)) {
            ("footnote", "footnotes") => self.note(xml, &FOOTNOTES)?,
            ("endnote", "endnotes") => self.note(xml, &ENDNOTES)?,
            ("p", _) => {
                let line = self.goes_on.take().unwrap_or_default();
                self.paragraphs.push(Paragraph { line, ..Paragraph::default() });
            }
            ("pStyle", "pPr") if xml.above(2) == "p" => self.numbered(xml),
            ("numId" | "ilvl", "numPr") if xml.above(3) == "p" => {
                self.has_lists |= xml.attribute("val").is_some_and(|value| value != "0");
                self.numbered(xml);
            }
            ("tbl", _) => self.lines.start_table()?,
            ("tr", _) => self.lines.start_row()?,
            ("tc", _) => self.lines.start_cell()?,
            ("txbxContent", _) => {
                self.number()?;
                self.lines.end_line()?;
            }
            // A deleted row, cell or paragraph mark; else what was deleted, or moved to another place.
            ("del", "trPr") => return self.skip_row(xml),
            ("cellDel", "tcPr") => xml.skip_above(2)?,
            ("del" | "moveFrom", "rPr") => {
                if let ("pPr", Some(open)) = (xml.above(2), self.paragraphs.last_mut()) {
                    open.is_deleted = true;
                }
            }
            ("del" | "moveFrom", _) => xml.skip()?,
            // Text that is not shown.
            ("vanish", "rPr") if xml.above(2) == "r" && is_on(xml) => xml.skip_above(2)?,
            ("vanish", "rPr") if xml.above(2) == "pPr" && is_on(xml) => {
                if let Some(open) = self.paragraphs.last_mut() {
                    open.is_hidden = true;
                }
            }
            ("chart", "graphicData") => self.chart(xml)?,
            ("altChunk", _) => self.has_others = true,
            // How a text is pronounced.
            ("rt", "ruby") => xml.skip()?,
            // The same again, for programs that do not know the newer form.
            ("Fallback", _) => xml.skip()?,
            ("fldChar", "r") => self.field(xml),
            (_, "r") if self.instructions > 0 => {}
            ("tab" | "ptab", "r") => self.add("\t")?,
            ("br" | "cr", "r") => self.add("\n")?,
            ("noBreakHyphen", "r") => self.add("-")?,
            ("sym", "r") => {
                let char = xml.attribute("char").unwrap_or_default();
                let font = xml.attribute("font").unwrap_or_default();
                if let Some(symbol) = symbol(&char, &font) {
                    self.add(symbol.encode_utf8(&mut [0; 4]))?;
                }
            }
            ("footnoteReference", "r") => self.reference(xml, &FOOTNOTES)?,
            ("endnoteReference", "r") => self.reference(xml, &ENDNOTES)?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, xml: &Xml) -> Result<()> {
        match xml.name() {
            "p" => {
                // A field that has no result at the end of its paragraph will have none.
                self.fields.clear();
                self.instructions = 0;
                if self.paragraphs.last().is_some_and(|open| open.is_deleted) {
                    self.goes_on = self.paragraphs.pop().map(|open| open.line);
                } else {
                    self.number()?;
                    self.paragraphs.pop();
                    self.goes_on = None;
                    self.lines.end_paragraph()?;
                }
            }
            "tr" => self.lines.end_row()?,
            "tbl" => self.lines.end_table()?,
            "txbxContent" => self.lines.end_line()?,
            _ => {}
        }
        Ok(())
    }

    /// Adds a chart where it is shown first.
    fn chart(&mut self, xml: &Xml) -> Result<()> {
        let text = xml.attribute("id").and_then(|id| self.charts.get_mut(&id));
        self.missing_charts += usize::from(text.is_none());
        let text = text.map(std::mem::take).unwrap_or_default();
        if text.is_empty() {
            return Ok(());
        }
        self.number()?;
        self.lines.end_line()?;
        self.lines.add(&text)
    }

    /// Whether the text refers to other parts of the file.
    fn refers(&self) -> bool {
        let has_notes = !self.footnotes.is_empty() || !self.endnotes.is_empty();
        has_notes || self.has_lists || self.has_others || self.missing_charts > 0
    }

    fn numbered(&mut self, xml: &Xml) {
        if let Some(open) = self.paragraphs.last_mut() {
            open.numbered.read(xml);
        }
    }

    /// Adds text of a paragraph.
    fn add(&mut self, text: &str) -> Result<()> {
        if !text.is_empty() {
            self.number()?;
        }
        self.lines.add(text)
    }

    /// Adds the number of the paragraph before its text. Until there is some, it may turn out to go on
    /// with the next one, as which it is numbered then; a line is numbered once.
    fn number(&mut self) -> Result<()> {
        let Some(open) = self.paragraphs.last_mut() else { return Ok(()) };
        if std::mem::replace(&mut open.is_begun, true) || open.line == Line::Numbered {
            return Ok(());
        }
        let before = std::mem::replace(&mut open.line, Line::Text);
        if open.is_hidden {
            return Ok(());
        }
        let Some(number) = self.numbering.next(&open.numbered) else { return Ok(()) };
        open.line = Line::Numbered;
        // The number of a text that has begun comes too late to be shown, and counts.
        if before == Line::Empty { self.lines.add(&number) } else { Ok(()) }
    }

    /// Leaves out the rest of a row, whose properties come first.
    fn skip_row(&mut self, xml: &mut Xml) -> Result<()> {
        xml.skip_above(2)?;
        self.lines.end_row()
    }

    /// A field has an instruction, then its result; fields in the instruction are part of it.
    fn field(&mut self, xml: &Xml) {
        match xml.attribute("fldCharType").as_deref() {
            Some("begin") => {
                self.fields.push(Field::Instruction);
                self.instructions += 1;
            }
            Some("separate") => {
                if let Some(field @ Field::Instruction) = self.fields.last_mut() {
                    *field = Field::Result;
                    self.instructions -= 1;
                }
            }
            _ => {
                if self.fields.pop() == Some(Field::Instruction) {
                    self.instructions -= 1;
                }
            }
        }
    }

    /// Adds the number of a note, unless it has a mark of its own.
    fn reference(&mut self, xml: &Xml, notes: &Notes) -> Result<()> {
        let Some(id) = xml.attribute("id") else { return Ok(()) };
        let of_kind = self.notes(notes);
        let next = u32::try_from(of_kind.len()).unwrap_or(u32::MAX).saturating_add(1);
        let label = (notes.label)(*of_kind.entry(id).or_insert(next));
        let has_mark = xml.attribute("customMarkFollows").is_some_and(|value| is_true(&value));
        if has_mark { Ok(()) } else { self.add(&label) }
    }

    /// Begins a note with its number. What the text does not refer to is no note, but a line above them.
    fn note(&mut self, xml: &mut Xml, notes: &Notes) -> Result<()> {
        let id = xml.attribute("id").unwrap_or_default();
        match self.notes(notes).remove(&id) {
            Some(number) => self.lines.add(&format!("{} ", (notes.label)(number))),
            None => xml.skip(),
        }
    }

    fn notes(&mut self, notes: &Notes) -> &mut HashMap<String, u32> {
        if notes.part == ENDNOTES.part { &mut self.endnotes } else { &mut self.footnotes }
    }
}

/// What the letters of the font Symbol are, from `A` and from `a` on.
const GREEK: [&str; 2] = ["ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ", "αβχδεφγηιϕκλμνοπθρστυϖωξψζ"];

/// The character of a symbol with this code, in hexadecimal digits, and font. `None` if it is a picture.
fn symbol(code: &str, font: &str) -> Option<char> {
    let code = u32::from_str_radix(code, 16).ok()?;
    // The codes of fonts of symbols are their own, in an area for private use.
    let own = match code {
        0xf000..=0xf0ff => u8::try_from(code - 0xf000).ok()?,
        _ => return char::from_u32(code).filter(|c| !matches!(c, '\u{e000}'..='\u{f8ff}')),
    };
    match (font, own) {
        ("Symbol", b'A'..=b'Z') => GREEK[0].chars().nth((own - b'A').into()),
        ("Symbol", b'a'..=b'z') => GREEK[1].chars().nth((own - b'a').into()),
        ("Symbol", 0x20..0x7f) => Some(own.into()),
        ("Wingdings", 0x6f | 0xa8) => Some('☐'),
        ("Wingdings", 0xfb) => Some('✗'),
        ("Wingdings", 0xfc) => Some('✓'),
        ("Wingdings", 0xfd) => Some('☒'),
        ("Wingdings", 0xfe) => Some('☑'),
        ("Wingdings" | "Wingdings 2" | "Wingdings 3" | "Webdings", _) => None,
        (_, 0x20..0x7f) => Some(own.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
