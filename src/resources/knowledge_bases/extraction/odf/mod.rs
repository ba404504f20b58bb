//! OpenDocument: texts (ODT), spreadsheets (ODS) and presentations (ODP).

mod lists;

use super::archive::{Archive, Next, Xml};
use super::lines::Lines;
use super::text::{Extracted, unless_damaged};
use crate::base::Result;
use lists::Lists;

/// A row or cell that is repeated is written at most 32 times: the ends of sheets are rows and cells
/// that are repeated as often as a sheet has room.
const MAX_REPEATED: usize = 32;

/// Spaces that stand together.
const MAX_SPACES: usize = 32;

/// The kinds of documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Text,
    Spreadsheet,
    Presentation,
}

impl Kind {
    /// The name of its format, and that of the element with its content.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Kind::Text => ("ODT", "text"),
            Kind::Spreadsheet => ("ODS", "spreadsheet"),
            Kind::Presentation => ("ODP", "presentation"),
        }
    }
}

/// Returns the text of a file: paragraphs and notes; sheets with their names; or slides.
pub fn text(kind: Kind, bytes: &[u8]) -> Result<Extracted> {
    let (format, body) = kind.names();
    let mut archive = Archive::open(format, bytes)?;
    // Of an encrypted file nothing else can be read: without this it says the same in other words.
    let manifest = unless_damaged(Manifest::read(&mut archive), &mut Vec::new(), "")?;
    if manifest.is_encrypted {
        return Err(archive.encrypted());
    }
    let mut content = Content::new(kind);
    let (mut lists, mut left_out) = (styles(&mut archive), Vec::new());
    if manifest.has_styles && !archive.has("styles.xml") {
        lists = Err(archive.missing());
    }
    let missing =
        "the styles are damaged: numbers and bullets of lists and headings may be missing";
    content.lists = unless_damaged(lists, &mut left_out, missing)?;
    let Some(mut xml) = archive.xml("content.xml")? else { return Err(archive.other()) };
    while xml.next_start()? {
        if xml.above(1) != "body" {
            content.lists.declare(&mut xml)?;
            continue;
        }
        if xml.name() != body {
            drop(xml);
            return Err(archive.other());
        }
        content.read(&mut xml)?;
    }
    Ok(Extracted { left_out, ..content.finished()?.into() })
}

/// Reads the lists of the styles that all of the document has.
fn styles(archive: &mut Archive) -> Result<Lists> {
    let mut lists = Lists::default();
    if let Some(mut xml) = archive.xml("styles.xml")? {
        while xml.next_start()? {
            lists.declare(&mut xml)?;
        }
    }
    Ok(lists)
}

/// What the list of the parts says.
#[derive(Default)]
struct Manifest {
    is_encrypted: bool,
    /// Whether there are styles that all of the document has.
    has_styles: bool,
}

impl Manifest {
    fn read(archive: &mut Archive) -> Result<Self> {
        let mut manifest = Manifest::default();
        let Some(mut xml) = archive.xml("META-INF/manifest.xml")? else { return Ok(manifest) };
        while xml.next_start()? && !manifest.is_encrypted {
            match xml.name() {
                "encryption-data" => manifest.is_encrypted = true,
                "file-entry" => {
                    let path = xml.attribute("full-path");
                    manifest.has_styles |= path.as_deref() == Some("styles.xml");
                }
                _ => {}
            }
        }
        Ok(manifest)
    }
}

struct Content {
    kind: Kind,
    lines: Lines,
    notes: Lines,
    lists: Lists,
    /// The depth of the note that is read, if one is.
    note_at: Option<usize>,
    /// How many paragraphs are open, one in another: what stands outside of them is white space.
    paragraphs: usize,
    /// Whether a page, or a sheet with rows, was begun.
    has_page: bool,
    /// The name of a sheet without rows so far.
    sheet: String,
    /// The row of a sheet: its cells, and how often each is repeated.
    row: Vec<(String, usize)>,
    row_repeated: usize,
    /// The depth of the cell that is read, if one is, with what it has.
    cell_at: Option<usize>,
    cell: Lines,
    cell_repeated: usize,
}

impl Content {
    fn new(kind: Kind) -> Self {
        Content {
            kind,
            lines: Lines::default(),
            notes: Lines::default(),
            lists: Lists::default(),
            note_at: None,
            paragraphs: 0,
            has_page: false,
            sheet: String::new(),
            row: Vec::new(),
            row_repeated: 1,
            cell_at: None,
            cell: Lines::default(),
            cell_repeated: 1,
        }
    }

    /// Reads what is in the element that started.
    fn read(&mut self, xml: &mut Xml) -> Result<()> {
        let depth = xml.depth();
        loop {
            match xml.step()? {
                Next::Start => self.start(xml)?,
                Next::End if xml.depth() == depth => return Ok(()),
                Next::End => self.end(xml)?,
                Next::Text if self.paragraphs > 0 => self.target().flow(xml.text())?,
                Next::Text => {}
                Next::Done => return Ok(()),
            }
        }
    }

    /// What is written to now.
    fn target(&mut self) -> &mut Lines {
        match (self.note_at, self.cell_at) {
            (Some(_), _) => &mut self.notes,
            (None, Some(_)) => &mut self.cell,
            (None, None) => &mut self.lines,
        }
    }

    fn start(&mut self, xml: &mut Xml) -> Result<()> {
        // A cell of a sheet may have shapes with tables.
        let in_sheet = self.kind == Kind::Spreadsheet && self.cell_at.is_none();
        match xml.name() {
            // Deleted text, comments, and what is read aloud or asks for input.
            "tracked-changes"
            | "annotation"
            | "forms"
            | "ruby-text"
            | "dde-links"
            | "content-validations" => xml.skip()?,
            // Drawings on a sheet are in none of its cells.
            "shapes" if in_sheet => xml.skip()?,
            "title" | "desc" if !matches!(xml.above(1), "p" | "h" | "span" | "a") => xml.skip()?,
            "p" | "h" => {
                self.paragraphs += 1;
                if let Some(label) = self.lists.label(xml) {
                    self.target().add(&label)?;
                }
            }
            "list" => self.lists.start_list(xml),
            "list-item" => self.lists.start_item(xml),
            "s" if self.paragraphs > 0 => {
                let spaces = repeated(xml, "c").min(MAX_SPACES);
                self.target().add(&" ".repeat(spaces))?;
            }
            "tab" if self.paragraphs > 0 => self.target().add("\t")?,
            "line-break" if self.paragraphs > 0 => self.target().add("\n")?,
            "text-box" => self.target().end_line()?,
            "note-citation" => {
                let label = format!("[{}]", xml.inner_text()?.trim());
                self.lines_of_text().add(&label)?;
                self.notes.add(&format!("{label} "))?;
            }
            "note-body" if self.note_at.is_none() => {
                self.note_at = Some(xml.depth());
            }
            "page" if self.kind == Kind::Presentation => self.start_page()?,
            "table" if in_sheet => self.sheet = xml.attribute("name").unwrap_or_default(),
            "table-row" if in_sheet => {
                self.row_repeated = repeated(xml, "number-rows-repeated");
            }
            "table-cell" | "covered-table-cell" if in_sheet => {
                self.cell_at = Some(xml.depth());
                self.cell_repeated = repeated(xml, "number-columns-repeated");
            }
            "table" => self.target().start_table()?,
            "table-row" => self.target().start_row()?,
            "table-cell" | "covered-table-cell" => self.target().start_cell()?,
            _ => {}
        }
        Ok(())
    }

    fn end(&mut self, xml: &Xml) -> Result<()> {
        let in_sheet = self.kind == Kind::Spreadsheet && self.cell_at.is_none();
        match xml.name() {
            "list" => self.lists.end_list(),
            "list-item" => self.lists.end_item(),
            "p" | "h" => {
                self.paragraphs = self.paragraphs.saturating_sub(1);
                self.target().end_paragraph()?;
            }
            "note-body" if self.note_at == Some(xml.depth()) => {
                self.notes.end_line()?;
                self.note_at = None;
            }
            "text-box" => self.target().end_line()?,
            "table-cell" | "covered-table-cell" if self.cell_at == Some(xml.depth()) => {
                self.cell_at = None;
                let text = std::mem::take(&mut self.cell).finished()?;
                self.row.push((text, self.cell_repeated));
            }
            "table-row" if in_sheet => self.end_row()?,
            "table" if in_sheet => {
                self.lines.end_table()?;
                self.sheet.clear();
            }
            "table-row" => self.target().end_row()?,
            "table" => self.target().end_table()?,
            _ => {}
        }
        Ok(())
    }

    /// What the text around notes is written to.
    fn lines_of_text(&mut self) -> &mut Lines {
        if self.cell_at.is_some() { &mut self.cell } else { &mut self.lines }
    }

    /// Ends the page or sheet before, if there is one.
    fn start_page(&mut self) -> Result<()> {
        if std::mem::replace(&mut self.has_page, true) { self.lines.end_page() } else { Ok(()) }
    }

    /// Writes a row of a sheet as often as it is repeated; one without text never.
    fn end_row(&mut self) -> Result<()> {
        let row = std::mem::take(&mut self.row);
        if row.iter().all(|(text, _)| text.trim().is_empty()) {
            return Ok(());
        }
        if !self.lines.is_in_table() {
            self.start_page()?;
            self.lines.add(&self.sheet)?;
            self.lines.start_table()?;
        }
        for _ in 0..self.row_repeated.min(MAX_REPEATED) {
            self.lines.start_row()?;
            for (text, times) in &row {
                for _ in 0..(*times).min(MAX_REPEATED) {
                    self.lines.start_cell()?;
                    self.lines.add(text.trim_end())?;
                }
            }
            self.lines.end_row()?;
        }
        Ok(())
    }

    fn finished(mut self) -> Result<String> {
        self.lines.end_line()?;
        let notes = self.notes.finished()?;
        self.lines.add(&notes)?;
        self.lines.finished()
    }
}

/// How often something is repeated, by this attribute: once if it does not say.
fn repeated(xml: &Xml, attribute: &str) -> usize {
    xml.attribute(attribute).and_then(|times| times.parse().ok()).unwrap_or(1)
}

#[cfg(test)]
mod tests {
    use super::super::testing::archive;
    use super::*;

    fn of_content(kind: Kind, content: &str) -> Result<String> {
        let body = kind.names().1;
        let content =
            format!("<office:body><office:{body}>{content}</office:{body}></office:body>");
        let styles =
            "<office:automatic-styles><number:text>no</number:text></office:automatic-styles>";
        let content =
            format!("<office:document-content>{styles}{content}</office:document-content>");
        let read = text(kind, &archive(&[("mimetype", ""), ("content.xml", &content)]))?;
        assert!(read.left_out.is_empty());
        Ok(read.text)
    }

    #[test]
    fn a_text_has_its_paragraphs_tables_and_notes() {
        let note = "<text:note><text:note-citation>1</text:note-citation><text:note-body><text:p>Below.</text:p></text:note-body></text:note>";
        let deleted = "<text:tracked-changes><text:p>deleted</text:p></text:tracked-changes>";
        let cell =
            |text: &str| format!("<table:table-cell><text:p>{text}</text:p></table:table-cell>");
        let row = |cells: &str| format!("<table:table-row>{cells}</table:table-row>");
        let table = format!(
            "<table:table table:name=\"T\">{}{}</table:table>",
            row(&format!("{}{}", cell("A1"), cell("B1</text:p><text:p>more"))),
            row(&format!("{}<table:covered-table-cell/>{}", cell("A2"), cell("C2")))
        );
        let content = format!(
            "{deleted}<text:h>Tides</text:h>\n<text:p>High\n  at<text:s text:c=\"2\"/>noon<text:tab/>{note}<office:annotation><text:p>no</text:p></office:annotation>.<text:line-break/>Low</text:p>{table}<text:p>After</text:p>"
        );
        let expected =
            "Tides\nHigh at  noon\t[1].\nLow\nA1\tB1 more\nA2\t\tC2\nAfter\n[1] Below.\n";
        assert_eq!(of_content(Kind::Text, &content).unwrap(), expected);
    }

    #[test]
    fn a_sheet_has_its_rows_and_what_is_repeated_a_few_times() {
        let cell = |repeated: &str, text: &str| {
            format!(
                "<table:table-cell table:number-columns-repeated=\"{repeated}\"><text:p>{text}</text:p></table:table-cell>"
            )
        };
        let row = |repeated: &str, cells: &str| {
            format!(
                "<table:table-row table:number-rows-repeated=\"{repeated}\">{cells}</table:table-row>"
            )
        };
        let empty = "<table:table-cell table:number-columns-repeated=\"16382\"/>";
        let rows = [
            row("1", &format!("{}<table:table-cell/>{}{empty}", cell("1", "a"), cell("2", "b"))),
            row("1048570", empty),
            row("2", &cell("1", "c")),
        ];
        let sheet = |name: &str, rows: &str| {
            format!("<table:table table:name=\"{name}\">{rows}</table:table>")
        };
        let content = [
            sheet("Tides", &rows.concat()),
            sheet("Empty", ""),
            sheet("Last", &row("1", &cell("1", "d"))),
        ];
        let read = of_content(Kind::Spreadsheet, &content.concat()).unwrap();
        assert_eq!(read, "Tides\na\t\tb\tb\nc\nc\n\u{c}Last\nd\n");
        let large =
            row("1048576", &format!("{}{}", cell("16384", "e"), cell("99999999999999999999", "f")));
        let read = of_content(Kind::Spreadsheet, &sheet("Large", &large)).unwrap();
        assert_eq!((read.matches('e').count(), read.matches('f').count()), (32 * 32 + 1, 32));
    }

    #[test]
    fn what_is_in_no_cell_of_a_sheet_is_left_out() {
        let hint = "<table:content-validations><table:content-validation><table:help-message>\
                    <text:p>hint</text:p></table:help-message></table:content-validation>\
                    </table:content-validations>";
        let shapes = "<table:shapes><draw:frame><draw:text-box><text:p>box</text:p></draw:text-box>\
                      </draw:frame></table:shapes>";
        let row = "<table:table-row><table:table-cell><text:p>a</text:p></table:table-cell>\
                   </table:table-row>";
        let content =
            format!("{hint}<table:table table:name=\"Tides\">{shapes}{row}</table:table>");
        assert_eq!(of_content(Kind::Spreadsheet, &content).unwrap(), "Tides\na\n");
    }

    #[test]
    fn a_presentation_has_its_pages_with_notes() {
        let page = |text: &str| {
            format!(
                "<draw:page><draw:frame><svg:title>no</svg:title><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame><presentation:notes><draw:frame><draw:text-box><text:p>Say {text}</text:p></draw:text-box></draw:frame></presentation:notes></draw:page>"
            )
        };
        let read = of_content(Kind::Presentation, &[page("one"), page("two")].concat()).unwrap();
        assert_eq!(read, "one\nSay one\n\u{c}two\nSay two\n");
    }

    #[test]
    fn damaged_styles_are_left_out_and_the_answer_says_so() {
        let content = "<a><body><text><h outline-level=\"1\">Tides</h></text></body></a>";
        let level = "<outline-level-style level=\"1\" num-format=\"1\"/>";
        let outline = format!("<a><outline-style>{level}</outline-style></a>");
        let of = |styles: &str| {
            text(Kind::Text, &archive(&[("content.xml", content), ("styles.xml", styles)]))
        };
        assert_eq!(of(&outline).unwrap(), "1 Tides\n".to_string().into());
        for broken in [&outline[..outline.len() - 4], "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>"] {
            let read = of(broken).unwrap();
            assert_eq!((read.text.as_str(), read.left_out.len()), ("Tides\n", 1), "{broken}");
            assert!(read.left_out[0].contains("styles are damaged"), "{:?}", read.left_out);
        }
    }

    #[test]
    fn other_kinds_and_encrypted_files_are_refused() {
        let sheet = archive(&[("content.xml", "<a><body><spreadsheet/></body></a>")]);
        let refused = text(Kind::Text, &sheet).unwrap_err();
        assert!(refused.message().contains("no ODT"), "{refused}");
        let manifest = "<m><file-entry><encryption-data/></file-entry></m>";
        let whole = "<a><body><text><p>a</p></text></body></a>";
        let damaged = archive(&[("META-INF/manifest.xml", "<m><n>"), ("content.xml", whole)]);
        assert_eq!(text(Kind::Text, &damaged).unwrap(), "a\n".to_string().into());
        let encrypted = archive(&[("META-INF/manifest.xml", manifest), ("content.xml", "x")]);
        let refused = text(Kind::Text, &encrypted).unwrap_err();
        assert!(refused.message().contains("encrypted"), "{refused}");
    }

    #[test]
    fn styles_that_are_listed_and_missing_are_as_good_as_damaged() {
        let entry = |path: &str| format!("<m><file-entry full-path=\"{path}\"/></m>");
        let content = "<a><body><text><p>Tides</p></text></body></a>";
        for (listed, said) in [("styles.xml", 1), ("content.xml", 0)] {
            let manifest = entry(listed);
            let files = [("content.xml", content), ("META-INF/manifest.xml", manifest.as_str())];
            let read = text(Kind::Text, &archive(&files)).unwrap();
            assert_eq!((read.text.as_str(), read.left_out.len()), ("Tides\n", said), "{listed}");
        }
    }
}
