//! RTF files: the text that is shown, with tracked changes as if they were accepted.

mod code_pages;
mod dos;
mod fonts;
#[cfg(test)]
mod tests;
mod words;

use std::collections::BTreeSet;

use super::archive::other_format;
use super::lines::Lines;
use super::text::{Extracted, unreadable};
use crate::base::Result;
use code_pages::CodePage;
use fonts::Fonts;
use words::{SHOWN, SKIPPED, written};

const FORMAT: &str = "RTF";

/// Groups are nested at most 1,000 deep: those of documents are some dozens.
const MAX_DEPTH: usize = 1000;

/// Returns the text of a file, with its notes at the end.
pub fn text(bytes: &[u8]) -> Result<Extracted> {
    if !bytes.trim_ascii_start().starts_with(b"{\\rtf") {
        return Err(other_format(FORMAT));
    }
    let mut reader = Reader { bytes, at: 0, content: Content::default() };
    reader.read()?;
    reader.content.flush()?;
    let wrong = |number: &i32| {
        format!(
            "the code page {number} is not known: letters other than those of English may be wrong; save \
             the file again with another program"
        )
    };
    let left_out = reader.content.unknown.iter().map(wrong).collect();
    Ok(Extracted { left_out, ..reader.content.finished()?.into() })
}

/// So many code pages that are not known are named.
const MAX_UNKNOWN: usize = 3;

/// What holds until the end of a group.
#[derive(Clone, Copy)]
struct State {
    destination: Destination,
    /// How many characters after one of Unicode stand for it.
    substitutes: usize,
    /// That of the bytes of the current font.
    code_page: CodePage,
    is_deleted: bool,
    is_hidden: bool,
    in_table: bool,
    /// Whether it is the number or bullet of a paragraph of a list.
    is_label: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Destination {
    Text,
    Note,
    Fonts,
    Skipped,
}

struct Content {
    lines: Lines,
    notes: Lines,
    note_count: usize,
    state: State,
    outer: Vec<State>,
    /// Bytes that are not decoded yet.
    pending: Vec<u8>,
    /// The first half of a character of Unicode.
    high: Option<u16>,
    /// How many characters are left out, since they stand for one of Unicode.
    left_out: usize,
    fonts: Fonts,
    /// The code pages of letters that may be wrong.
    unknown: BTreeSet<i32>,
}

impl Default for Content {
    fn default() -> Self {
        let state = State {
            destination: Destination::Text,
            substitutes: 1,
            code_page: CodePage::DEFAULT,
            is_deleted: false,
            is_hidden: false,
            in_table: false,
            is_label: false,
        };
        Content {
            lines: Lines::default(),
            notes: Lines::default(),
            note_count: 0,
            state,
            outer: Vec::new(),
            pending: Vec::new(),
            high: None,
            left_out: 0,
            fonts: Fonts::default(),
            unknown: BTreeSet::new(),
        }
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    content: Content,
}

impl Reader<'_> {
    fn read(&mut self) -> Result<()> {
        let mut is_marked = false;
        while let Some(byte) = self.next() {
            let was_marked = std::mem::take(&mut is_marked);
            match byte {
                b'{' => self.content.open()?,
                b'}' => self.content.close()?,
                b'\r' | b'\n' | 0 => is_marked = was_marked,
                b'\\' => match self.next() {
                    Some(letter) if letter.is_ascii_alphabetic() => {
                        self.at -= 1;
                        let (word, number) = self.word();
                        if word == "bin" {
                            let bytes = number.and_then(|number| usize::try_from(number).ok());
                            self.at = self.at.saturating_add(bytes.unwrap_or(0));
                        } else {
                            self.content.word(&word, number, was_marked)?;
                        }
                    }
                    Some(b'\'') => {
                        let digits = self.bytes.get(self.at..self.at + 2).unwrap_or_default();
                        let digits = std::str::from_utf8(digits).unwrap_or_default();
                        if let Ok(byte) = u8::from_str_radix(digits, 16) {
                            self.at += 2;
                            self.content.byte(byte);
                        }
                    }
                    Some(b'*') => is_marked = true,
                    Some(symbol) => self.content.symbol(symbol)?,
                    None => {}
                },
                b'\t' => self.content.word("tab", None, false)?,
                byte => self.content.byte(byte),
            }
        }
        Ok(())
    }

    fn next(&mut self) -> Option<u8> {
        let byte = self.bytes.get(self.at).copied();
        self.at += usize::from(byte.is_some());
        byte
    }

    /// Reads a control word, its number, and the space that ends them.
    fn word(&mut self) -> (String, Option<i32>) {
        /// The longest word that is told apart, and the most digits of a number.
        const MAX: usize = 32;
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let letters = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
        let (word, rest) = rest.split_at(letters);
        let sign = usize::from(rest.first() == Some(&b'-'));
        let digits = rest[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = if digits == 0 { &[] } else { &rest[..sign + digits] };
        self.at += letters + number.len();
        if self.bytes.get(self.at) == Some(&b' ') {
            self.at += 1;
        }
        let text =
            |bytes: &[u8]| String::from_utf8_lossy(&bytes[..bytes.len().min(MAX)]).into_owned();
        (text(word), text(number).parse().ok())
    }
}

impl Content {
    fn open(&mut self) -> Result<()> {
        self.flush()?;
        self.left_out = 0;
        if self.outer.len() == MAX_DEPTH {
            return Err(unreadable("the groups of the RTF file are nested too deep"));
        }
        self.outer.push(self.state);
        Ok(())
    }

    fn close(&mut self) -> Result<()> {
        self.flush()?;
        self.left_out = 0;
        let Some(outer) = self.outer.pop() else { return Ok(()) };
        if self.state.destination == Destination::Note && outer.destination != Destination::Note {
            self.notes.end_line()?;
        }
        let had_fonts =
            self.state.destination == Destination::Fonts && outer.destination != Destination::Fonts;
        self.state = outer;
        if had_fonts {
            self.state.code_page = self.fonts.code_page(None); // Until another is chosen.
        }
        Ok(())
    }

    /// A byte of text, in the encoding of its font.
    fn byte(&mut self, byte: u8) {
        if self.left_out > 0 {
            self.left_out -= 1;
        } else if self.is_shown() {
            self.pending.push(byte);
        }
    }

    fn symbol(&mut self, symbol: u8) -> Result<()> {
        if self.left_out > 0 {
            self.left_out -= 1;
            return Ok(());
        }
        if matches!(symbol, b'\\' | b'{' | b'}') {
            self.byte(symbol);
            return Ok(());
        }
        self.flush()?;
        match symbol {
            b'~' => self.add("\u{a0}"),
            b'_' => self.add("-"),
            b'\r' | b'\n' => self.word("par", None, false),
            // A hyphen where a word may be broken, and marks of indexes.
            _ => Ok(()),
        }
    }

    fn word(&mut self, word: &str, number: Option<i32>, is_marked: bool) -> Result<()> {
        if self.left_out > 0 && !is_marked {
            self.left_out -= 1;
            return Ok(());
        }
        self.flush()?;
        if is_marked && !SHOWN.contains(&word) || SKIPPED.contains(&word) {
            self.state.destination = Destination::Skipped;
            return Ok(());
        }
        let is_on = number != Some(0);
        if self.state.destination == Destination::Fonts {
            self.fonts.declare(word, number.unwrap_or(0));
            return Ok(());
        }
        match word {
            "fonttbl" => self.state.destination = Destination::Fonts,
            "f" => self.state.code_page = self.fonts.code_page(Some(number.unwrap_or(0))),
            "plain" => {
                self.state.code_page = self.fonts.code_page(None);
                (self.state.is_deleted, self.state.is_hidden) = (false, false);
            }
            "deleted" | "mvf" => self.state.is_deleted = is_on,
            "v" => self.state.is_hidden = is_on,
            "uc" => self.state.substitutes = number.and_then(|n| n.try_into().ok()).unwrap_or(1),
            "u" => {
                number.map_or(Ok(()), |number| self.unicode(number))?;
                self.left_out = self.state.substitutes;
            }
            // A number says how it looks itself, and is where its paragraph is.
            "pard" if self.state.is_label => {}
            "pard" => self.state.in_table = false,
            // A row that is declared follows, also where its paragraphs do not say so.
            "intbl" | "cellx" => self.state.in_table = true,
            // What programs show that do not count themselves; it is followed by a tab.
            "listtext" | "pntext" => self.state.is_label = true,
            "tab" if self.state.is_label => self.add(" ")?,
            "footnote" if self.is_shown() => {
                self.note_count += 1;
                let label = format!("[{}]", self.note_count);
                self.add(&label)?;
                if self.state.destination == Destination::Text {
                    self.state.destination = Destination::Note;
                    self.notes.end_line()?;
                    self.notes.add(&format!("{label} "))?;
                }
                self.state.in_table = false;
            }
            "par" | "line" | "page" | "sect" | "column" | "nestrow" if self.is_shown() => {
                self.table()?;
                self.target().end_paragraph()?;
            }
            "cell" if self.is_shown() => {
                self.state.in_table = true;
                // What stands before it is its text, also if that did not say that it is in a table.
                let text = self.target().take_line();
                self.table()?;
                self.target().add(&text)?;
                self.target().start_cell()?;
            }
            "row" if self.is_shown() => self.target().end_row()?,
            word => match self.fonts.set(word, number) {
                Some(code_page) => self.state.code_page = code_page,
                None => self.add(written(word))?,
            },
        }
        Ok(())
    }

    /// A character of Unicode by its code, or a half of one; negative ones are those beyond 32,767.
    fn unicode(&mut self, code: i32) -> Result<()> {
        let Some(unit) =
            u16::try_from(code).ok().or_else(|| i16::try_from(code).ok().map(|code| code as u16))
        else {
            let c = u32::try_from(code).ok().and_then(char::from_u32);
            return c.map_or(Ok(()), |c| self.add(c.encode_utf8(&mut [0; 4])));
        };
        if self.state.is_label && (0xf000..0xf100).contains(&unit) {
            return self.add("•");
        }
        let high = self.high.take();
        if (0xd800..0xdc00).contains(&unit) {
            self.high = Some(unit);
            return Ok(());
        }
        for c in char::decode_utf16(high.into_iter().chain([unit])).flatten() {
            self.add(c.encode_utf8(&mut [0; 4]))?;
        }
        Ok(())
    }

    fn is_shown(&self) -> bool {
        let State { destination, is_deleted, is_hidden, .. } = self.state;
        matches!(destination, Destination::Text | Destination::Note) && !is_deleted && !is_hidden
    }

    fn target(&mut self) -> &mut Lines {
        if self.state.destination == Destination::Note { &mut self.notes } else { &mut self.lines }
    }

    /// Decodes the bytes before something else.
    fn flush(&mut self) -> Result<()> {
        if self.pending.is_empty() {
            return Ok(());
        }
        let pending = std::mem::take(&mut self.pending);
        let text = self.state.code_page.decoded(&pending);
        if let CodePage::Unknown(number) = self.state.code_page
            && self.unknown.len() < MAX_UNKNOWN
            && !pending.is_ascii()
        {
            self.unknown.insert(number);
        }
        // The bullets of the fonts Symbol and Wingdings.
        if self.state.is_label && matches!(text.as_str(), "·" | "§" | "Ø" | "ü") {
            return self.add("•");
        }
        self.add(&text)
    }

    fn add(&mut self, text: &str) -> Result<()> {
        if text.is_empty() || !self.is_shown() {
            return Ok(());
        }
        self.table()?;
        self.target().add(text)
    }

    /// Begins or ends a table and its row, of which the text itself says where it is.
    fn table(&mut self) -> Result<()> {
        let in_table = self.state.in_table;
        let lines = self.target();
        if !in_table {
            return lines.end_table();
        }
        if !lines.is_in_table() {
            lines.start_table()?;
        }
        if !lines.is_in_row() {
            lines.start_row()?;
            lines.start_cell()?;
        }
        Ok(())
    }

    fn finished(mut self) -> Result<String> {
        self.flush()?;
        self.lines.end_table()?;
        self.lines.end_line()?;
        let notes = self.notes.finished()?;
        self.lines.add(&notes)?;
        self.lines.finished()
    }
}
