//! DOCX files (Office Open XML), with tracked changes as if they were accepted.

use std::collections::HashMap;

use super::archive::{Archive, Next, Xml, of_kind, relationships};
use super::lines::Lines;
use super::text::unreadable;
use crate::base::Result;

const FORMAT: &str = "DOCX";

/// Returns the text of a file: a line for each paragraph, with footnotes and endnotes at the end.
pub fn text(bytes: &[u8]) -> Result<String> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let document = document_name(&mut archive)?;
    let parts = relationships(&mut archive, &document)?;
    let mut content = Content::default();
    let xml = archive.xml(&document)?;
    content.read(xml.ok_or_else(|| unreadable("the DOCX file has no document"))?)?;
    for notes in [&FOOTNOTES, &ENDNOTES] {
        let Some(name) = of_kind(&parts, notes.part) else { continue };
        let name = name.to_string();
        if let Some(xml) = archive.xml(&name)? {
            content.read(xml)?;
        }
    }
    content.lines.finished()
}

/// Returns the name of the part with the document: as the file says, or else by its usual name.
fn document_name(archive: &mut Archive) -> Result<String> {
    let parts = relationships(archive, "")?;
    let names_one = |name: &&str| name.starts_with("word/");
    if let Some(name) = of_kind(&parts, "officeDocument").filter(names_one) {
        return Ok(name.into());
    }
    let is_document = |name: &&str| {
        let number = name.strip_prefix("word/document").and_then(|rest| rest.strip_suffix(".xml"));
        number.is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let found = archive.names().find(is_document).map(String::from);
    found.ok_or_else(|| archive.other())
}

/// A kind of notes.
struct Notes {
    /// The kind of the part with their texts.
    part: &'static str,
    /// How one with this number is named in the text.
    label: fn(usize) -> String,
}

const FOOTNOTES: Notes = Notes { part: "footnotes", label: |number| format!("[{number}]") };

const ENDNOTES: Notes = Notes { part: "endnotes", label: |number| format!("[{}]", roman(number)) };

/// A number as Word numbers endnotes; beyond 3,999 in digits.
fn roman(mut number: usize) -> String {
    const SIGNS: [(usize, &str); 13] = [
        (1000, "m"),
        (900, "cm"),
        (500, "d"),
        (400, "cd"),
        (100, "c"),
        (90, "xc"),
        (50, "l"),
        (40, "xl"),
        (10, "x"),
        (9, "ix"),
        (5, "v"),
        (4, "iv"),
        (1, "i"),
    ];
    if number > 3999 {
        return number.to_string();
    }
    let mut written = String::new();
    for (value, sign) in SIGNS {
        while number >= value {
            written.push_str(sign);
            number -= value;
        }
    }
    written
}

/// The text as it is read.
#[derive(Default)]
struct Content {
    lines: Lines,
    /// Whether the mark at the end of each open paragraph is deleted: it goes on with the next one.
    deleted_marks: Vec<bool>,
    /// The fields that are open, and how many of them have not come to their result.
    fields: Vec<Field>,
    instructions: usize,
    /// The numbers of the notes that the text refers to, by their ids.
    footnotes: HashMap<String, usize>,
    endnotes: HashMap<String, usize>,
}

#[derive(PartialEq, Eq)]
enum Field {
    Instruction,
    Result,
}

impl Content {
    fn read(&mut self, mut xml: Xml) -> Result<()> {
        loop {
            match xml.step()? {
                Next::Start => self.start(&mut xml)?,
                Next::End => self.end(&xml)?,
                Next::Text if xml.name() == "t" && self.instructions == 0 => {
                    self.lines.add(xml.text())?;
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
            ("p", _) => self.deleted_marks.push(false),
            ("tbl", _) => self.lines.start_table()?,
            ("tr", _) => self.lines.start_row()?,
            ("tc", _) => self.lines.start_cell()?,
            ("txbxContent", _) => self.lines.end_line()?,
            // A deleted row, cell or paragraph mark; else what was deleted, or moved to another place.
            ("del", "trPr") => return self.skip_row(xml),
            ("cellDel", "tcPr") => xml.skip_above(2)?,
            ("del" | "moveFrom", "rPr") => {
                if let ("pPr", Some(mark)) = (xml.above(2), self.deleted_marks.last_mut()) {
                    *mark = true;
                }
            }
            ("del" | "moveFrom", _) => xml.skip()?,
            // Text that is not shown.
            ("vanish", "rPr") if xml.above(2) == "r" && is_on(xml) => xml.skip_above(2)?,
            // The same again, for programs that do not know the newer form.
            ("Fallback", _) => xml.skip()?,
            ("fldChar", "r") => self.field(xml),
            (_, "r") if self.instructions > 0 => {}
            ("tab" | "ptab", "r") => self.lines.add("\t")?,
            ("br" | "cr", "r") => self.lines.add("\n")?,
            ("noBreakHyphen", "r") => self.lines.add("-")?,
            ("sym", "r") => {
                let char = xml.attribute("char").unwrap_or_default();
                let font = xml.attribute("font").unwrap_or_default();
                if let Some(symbol) = symbol(&char, &font) {
                    self.lines.add(symbol.encode_utf8(&mut [0; 4]))?;
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
                if self.deleted_marks.pop() != Some(true) {
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
        let next = of_kind.len() + 1;
        let label = (notes.label)(*of_kind.entry(id).or_insert(next));
        let has_mark = xml.attribute("customMarkFollows").is_some_and(|value| is_true(&value));
        if has_mark { Ok(()) } else { self.lines.add(&label) }
    }

    /// Begins a note with its number. What the text does not refer to is no note, but a line above them.
    fn note(&mut self, xml: &mut Xml, notes: &Notes) -> Result<()> {
        let id = xml.attribute("id").unwrap_or_default();
        match self.notes(notes).get(&id).copied() {
            Some(number) => self.lines.add(&format!("{} ", (notes.label)(number))),
            None => xml.skip(),
        }
    }

    fn notes(&mut self, notes: &Notes) -> &mut HashMap<String, usize> {
        if notes.part == ENDNOTES.part { &mut self.endnotes } else { &mut self.footnotes }
    }
}

/// Whether a property without a value, or with this one, is on.
fn is_on(xml: &Xml) -> bool {
    xml.attribute("val").is_none_or(|value| is_true(&value))
}

fn is_true(value: &str) -> bool {
    matches!(value, "1" | "true" | "on")
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
mod tests {
    use super::super::testing::{archive, relationships};
    use super::*;

    /// The text of a document with this body, and these notes.
    fn read(body: &str, footnotes: &str, endnotes: &str) -> String {
        let document = format!(r#"<w:document xmlns:w="w"><w:body>{body}</w:body></w:document>"#);
        let footnotes = format!(r#"<w:footnotes xmlns:w="w">{footnotes}</w:footnotes>"#);
        let endnotes = format!(r#"<w:endnotes xmlns:w="w">{endnotes}</w:endnotes>"#);
        let own = [("a", "footnotes", "footnotes.xml"), ("b", "endnotes", "/word/ends.xml")];
        let file = archive(&[
            ("_rels/.rels", &relationships(&[("a", "officeDocument", "word/main.xml")])),
            ("word/_rels/main.xml.rels", &relationships(&own)),
            ("word/main.xml", &document),
            ("word/footnotes.xml", &footnotes),
            ("word/ends.xml", &endnotes),
        ]);
        text(&file).unwrap()
    }

    fn body(body: &str) -> String {
        read(body, "", "")
    }

    /// A paragraph with this text.
    fn p(text: &str) -> String {
        format!("<w:p><w:r><w:t>{text}</w:t></w:r></w:p>")
    }

    fn cell(content: &str) -> String {
        format!("<w:tc><w:tcPr/>{content}</w:tc>")
    }

    fn row(cells: &[String]) -> String {
        format!("<w:tr><w:trPr/>{}</w:tr>", cells.concat())
    }

    fn table(rows: &[String]) -> String {
        format!("<w:tbl><w:tblPr/>{}</w:tbl>", rows.concat())
    }

    #[test]
    fn a_row_is_a_line_with_tabs_between_its_cells() {
        let first = row(&[cell(&p("A1")), cell(&format!("{}{}", p("B1"), p("more")))]);
        let second = row(&[cell(&p("A2")), cell(&p(""))]);
        let whole = format!("{}{}{}", p("Before"), table(&[first.clone(), second]), p("After"));
        assert_eq!(body(&whole), "Before\nA1\tB1 more\nA2\nAfter\n");
        // A table in a table: what is around it are lines.
        let outer = row(&[cell(&p("left")), cell(&format!("{}{}", table(&[first]), p("below")))]);
        assert_eq!(
            body(&format!("{}{}", table(&[outer]), p("After"))),
            "left\nA1\tB1 more\nbelow\nAfter\n"
        );
    }

    #[test]
    fn tracked_changes_are_accepted() {
        let run = |text: &str| format!("<w:r><w:t xml:space=\"preserve\">{text}</w:t></w:r>");
        let deleted = "<w:del><w:r><w:delText>deleted</w:delText><w:tab/></w:r></w:del>";
        let moved = format!("<w:moveFrom>{}</w:moveFrom>", run("moved"));
        let kept = format!("<w:ins>{}</w:ins><w:moveTo>{}</w:moveTo>", run("new"), run(" moved"));
        assert_eq!(body(&format!("<w:p>{deleted}{moved}{kept}</w:p>")), "new moved\n");
        // A deleted mark joins two paragraphs; an inserted one is a mark.
        for (mark, text) in [("del", "onetwo\n"), ("moveFrom", "onetwo\n"), ("ins", "one\ntwo\n")] {
            let marked =
                format!("<w:p><w:pPr><w:rPr><w:{mark}/></w:rPr></w:pPr>{}</w:p>", run("one"));
            assert_eq!(body(&format!("{marked}{}", p("two"))), text);
        }
        let gone = format!("<w:tr><w:trPr><w:del/></w:trPr>{}</w:tr>", cell(&p("gone")));
        let left = row(&[cell(&p("A")), cell(&p("B"))]);
        let no_cell = format!("<w:tc><w:tcPr><w:cellDel/></w:tcPr>{}</w:tc>", p("gone"));
        let last = row(&[cell(&p("C")), no_cell, cell(&p("D"))]);
        assert_eq!(body(&table(&[gone, left, last])), "A\tB\nC\t\tD\n");
    }

    #[test]
    fn notes_are_at_the_end_with_their_numbers() {
        let at = |kind: &str, id: u32| format!("<w:r><w:{kind}Reference w:id=\"{id}\"/></w:r>");
        let of = |kind: &str, id: i32, text: &str| {
            let mark = format!("<w:r><w:{kind}Ref/></w:r><w:r><w:t>{text}</w:t></w:r>");
            format!("<w:{kind} w:id=\"{id}\"><w:p>{mark}</w:p></w:{kind}>")
        };
        let text = |text: &str| format!("<w:r><w:t>{text}</w:t></w:r>");
        let notes = [at("footnote", 5), text("two"), at("footnote", 2), at("endnote", 1)].concat();
        let read = read(
            &format!("<w:p>{}{notes}</w:p>", text("one")),
            &[of("footnote", -1, "line"), of("footnote", 5, "first"), of("footnote", 2, "second")]
                .concat(),
            &of("endnote", 1, "last"),
        );
        assert_eq!(read, "one[1]two[2][i]\n[1] first\n[2] second\n[i] last\n");
        assert_eq!((roman(1994), roman(4000)), ("mcmxciv".into(), "4000".into()));
    }

    #[test]
    fn what_is_not_shown_is_left_out() {
        for (content, text) in [
            // Tab stops are no tabs.
            (
                "<w:pPr><w:tabs><w:tab w:val=\"left\"/></w:tabs></w:pPr><w:r><w:t>a</w:t><w:tab/><w:t>b</w:t></w:r>",
                "a\tb",
            ),
            (
                "<w:r><w:t>a</w:t><w:br/><w:t>b</w:t><w:noBreakHyphen/><w:t>c</w:t><w:softHyphen/><w:t>d</w:t></w:r>",
                "a\nb-cd",
            ),
            (
                "<w:r><w:rPr><w:vanish/></w:rPr><w:t>a</w:t></w:r><w:r><w:rPr><w:vanish w:val=\"0\"/></w:rPr><w:t>b</w:t></w:r>",
                "b",
            ),
            (
                "<w:r><w:sym w:font=\"Symbol\" w:char=\"F06D\"/><w:sym w:font=\"Wingdings\" w:char=\"F0FE\"/></w:r><w:r><w:sym w:font=\"Wingdings\" w:char=\"F04A\"/></w:r>",
                "μ☑",
            ),
            // A field in the instruction of another one.
            (
                "<w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:instrText>IF</w:instrText></w:r><w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>no</w:t></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r><w:r><w:fldChar w:fldCharType=\"separate\"/></w:r><w:r><w:t>yes</w:t></w:r><w:r><w:fldChar w:fldCharType=\"end\"/></w:r><w:r><w:t>!</w:t></w:r>",
                "yes!",
            ),
            (
                "<w:r><mc:AlternateContent><mc:Choice><w:txbxContent><w:p><w:r><w:t>box</w:t></w:r></w:p></w:txbxContent></mc:Choice><mc:Fallback><w:p><w:r><w:t>box</w:t></w:r></w:p></mc:Fallback></mc:AlternateContent><w:t>text</w:t></w:r>",
                "box\ntext",
            ),
        ] {
            assert_eq!(body(&format!("<w:p>{content}</w:p>")), format!("{text}\n"), "{content}");
        }
        // A field without a result hides no more than its paragraph.
        let open =
            "<w:p><w:r><w:fldChar w:fldCharType=\"begin\"/></w:r><w:r><w:t>no</w:t></w:r></w:p>";
        assert_eq!(body(&format!("{open}{}", p("yes"))), "\nyes\n");
    }

    #[test]
    fn a_document_without_relationships_is_found_by_its_name() {
        for name in ["word/document.xml", "word\\document2.xml"] {
            let file = archive(&[
                ("word/other.xml", "<a/>"),
                (name, "<w:p><w:r><w:t>a</w:t></w:r></w:p>"),
            ]);
            assert_eq!(text(&file).unwrap(), "a\n");
        }
        let other = text(&archive(&[("xl/workbook.xml", "<a/>")])).unwrap_err();
        assert!(other.message().contains("no DOCX"), "{other}");
    }
}
