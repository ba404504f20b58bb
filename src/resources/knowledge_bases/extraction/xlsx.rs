//! XLSX files (Office Open XML): the values of cells, as the program that saved the file had them.

use std::collections::HashMap;
use std::fmt::Write as _;

use time::Date;

use super::archive::{
    Archive, Next, Xml, all_of_kind, listed_or_usual, main_part, of_kind, relationships,
};
use super::chart::{self, Charts, Named};
use super::lines::Lines;
use super::number_format::{Shown, built_in, shown_by};
use super::text::{BoundedText, Damaged, Extracted, too_long, unless_damaged};
use crate::base::Result;

const FORMAT: &str = "XLSX";

/// Of empty cells between two others at most 32 are written: a sheet has 16,384 columns.
const MAX_EMPTY: usize = 32;

/// The Julian day of 30 December 1899, from which days are counted.
const JULIAN_DAY: i32 = 2_415_019;

/// Returns the text of a file: each sheet with its name and a line for each row, and a form feed between
/// two of them, and its charts after them. Sheets without values and charts are left out.
pub fn text(bytes: &[u8]) -> Result<Extracted> {
    let mut archive = Archive::open(FORMAT, bytes)?;
    let name = main_part(&mut archive, "xl/", "xl/workbook.xml")?;
    if !archive.has(&name) {
        return Err(archive.other());
    }
    let list = |archive: &mut Archive| Parts::listed(archive, &name);
    let (parts, is_listed) =
        listed_or_usual(&mut archive, list, "xl/worksheets/sheet", Parts::usual)?;
    let Parts { strings, styles, sheets, from_1904 } = parts;
    let mut left_out = Vec::new();
    if !is_listed {
        let said =
            "the list of the sheets is damaged: they have the order and the names of their files";
        left_out.push(said.into());
    }
    let read =
        archive.xml(&strings).and_then(|xml| xml.map_or(Ok(Strings::default()), Strings::read));
    let missing = "the texts that cells share are damaged: those cells are left out";
    let strings = unless_damaged(read, &mut left_out, missing)?;
    let read = archive.xml(&styles).and_then(|xml| xml.map_or(Ok(Vec::new()), read_styles));
    let missing = "the styles are damaged: dates are the numbers of days that are stored";
    let styles = unless_damaged(read, &mut left_out, missing)?;
    let workbook = Workbook { strings, styles, from_1904 };
    let (mut lines, mut is_first, mut charts) = (Lines::default(), true, Charts::default());
    let mut damaged = Damaged::default();
    for (number, (title, part)) in (1..).zip(sheets) {
        let read = archive.xml(&part);
        let read = read.and_then(|xml| xml.map(|xml| workbook.sheet(xml, &title)).transpose());
        let mut sheet = damaged.unless(number, read)?.unwrap_or_default();
        for chart in charts_of(&mut archive, &part, &mut left_out)? {
            let text = charts.text(&mut archive, &chart, Named::Series)?.unwrap_or_default();
            if sheet.text.is_empty() && !text.is_empty() {
                let mut heading = Lines::default();
                heading.add(&title)?;
                heading.end_line()?;
                sheet.text = heading.finished()?;
            }
            sheet.write_str(&text).map_err(|_| too_long())?;
        }
        if sheet.text.is_empty() {
            continue;
        }
        if !std::mem::take(&mut is_first) {
            lines.end_page()?;
        }
        lines.add(&sheet.text)?;
    }
    let sheets = damaged.left_out("sheet", "sheets");
    let left_out = sheets.into_iter().chain(left_out).chain(charts.left_out()).collect();
    Ok(Extracted { left_out, ..lines.finished()?.into() })
}

/// What belongs to a workbook.
struct Parts {
    /// The names of these parts.
    strings: String,
    styles: String,
    /// Titles, and names of parts.
    sheets: Vec<(String, String)>,
    /// Whether days are counted from 1904.
    from_1904: bool,
}

impl Parts {
    /// Those that a workbook lists.
    fn listed(archive: &mut Archive, workbook: &str) -> Result<Self> {
        let mut parts = Parts::usual(Vec::new());
        let references = relationships(archive, workbook)?;
        for (kind, part) in [("sharedStrings", &mut parts.strings), ("styles", &mut parts.styles)] {
            if let Some(name) = of_kind(&references, kind) {
                *part = name.into();
            }
        }
        let is_sheet = |kind: &str| matches!(kind, "worksheet" | "chartsheet");
        let own = references.into_iter().filter(|part| is_sheet(&part.kind));
        let mut own: HashMap<_, _> = own.map(|part| (part.id, part.target)).collect();
        let Some(mut xml) = archive.xml(workbook)? else { return Ok(parts) };
        while xml.next_start()? {
            match xml.name() {
                "workbookPr" => {
                    let is_set = |value: String| value != "0" && value != "false";
                    parts.from_1904 = xml.attribute("date1904").is_some_and(is_set);
                }
                "sheet" => {
                    let title = xml.attribute("name").unwrap_or_default();
                    // Each is read once, however often it is listed.
                    let part = xml.attribute("id").and_then(|id| own.remove(&id));
                    parts.sheets.extend(part.map(|part| (title, part)));
                }
                _ => {}
            }
        }
        Ok(parts)
    }

    /// Those of the usual names, with these sheets.
    fn usual(sheets: Vec<String>) -> Self {
        let title = |part: &str| {
            let name = part.rsplit('/').next().unwrap_or_default();
            name.trim_end_matches(".xml").to_string()
        };
        let sheets = sheets.into_iter().map(|part| (title(&part), part)).collect();
        let (strings, styles) = ("xl/sharedStrings.xml".into(), "xl/styles.xml".into());
        Parts { strings, styles, sheets, from_1904: false }
    }
}

/// The parts with the charts of a sheet, which are on its drawings; cells can do without them.
fn charts_of(
    archive: &mut Archive,
    sheet: &str,
    left_out: &mut Vec<String>,
) -> Result<Vec<String>> {
    let missing = "the references of a sheet or drawing are damaged: its charts are left out";
    let parts = unless_damaged(relationships(archive, sheet), left_out, missing)?;
    let mut charts = Vec::new();
    for drawing in all_of_kind(&parts, "drawing") {
        let parts = unless_damaged(relationships(archive, drawing), left_out, missing)?;
        charts.extend(chart::of(&parts).map(|(_, part)| part.to_string()));
    }
    Ok(charts)
}

/// The strings that cells refer to by number.
#[derive(Default)]
struct Strings {
    text: BoundedText,
    /// Where each ends.
    ends: Vec<u32>,
}

impl Strings {
    fn read(mut xml: Xml) -> Result<Self> {
        let mut strings = Strings::default();
        loop {
            match xml.step()? {
                // How a text is pronounced.
                Next::Start if xml.name() == "rPh" => xml.skip()?,
                Next::Text if xml.name() == "t" => {
                    strings.text.write_str(xml.text()).map_err(|_| too_long())?;
                }
                Next::End if xml.name() == "si" => {
                    let end = u32::try_from(strings.text.text.len()).map_err(|_| too_long())?;
                    strings.ends.push(end);
                }
                Next::Done => return Ok(strings),
                _ => {}
            }
        }
    }

    fn get(&self, number: usize) -> Option<&str> {
        let begin = match number.checked_sub(1) {
            Some(before) => *self.ends.get(before)?,
            None => 0,
        };
        self.text.text.get(begin as usize..*self.ends.get(number)? as usize)
    }
}

/// Reads which styles, by number, show dates.
fn read_styles(mut xml: Xml) -> Result<Vec<Shown>> {
    let (mut own, mut styles) = (Vec::new(), Vec::new());
    while xml.next_start()? {
        match (xml.name(), xml.above(1)) {
            ("numFmt", "numFmts") => {
                let id = xml.attribute("numFmtId").unwrap_or_default();
                own.push((id, shown_by(&xml.attribute("formatCode").unwrap_or_default())));
            }
            ("xf", "cellXfs") => styles.push(xml.attribute("numFmtId").unwrap_or_default()),
            _ => {}
        }
    }
    let own: HashMap<String, Shown> = own.into_iter().collect();
    let shown = |id: String| own.get(&id).copied().unwrap_or_else(|| built_in(&id));
    Ok(styles.into_iter().map(shown).collect())
}

struct Workbook {
    strings: Strings,
    styles: Vec<Shown>,
    /// Whether days are counted from 1904.
    from_1904: bool,
}

/// A cell as it is read.
#[derive(Default)]
struct Cell {
    kind: String,
    style: Option<usize>,
    /// Its column, from 0.
    column: usize,
    value: BoundedText,
}

impl Workbook {
    /// Reads a sheet: its name and its rows, or nothing if it has no cells with values.
    fn sheet(&self, mut xml: Xml, title: &str) -> Result<BoundedText> {
        let mut lines = Lines::default();
        let (mut cell, mut next) = (Cell::default(), 0);
        loop {
            match xml.step()? {
                Next::Start => match xml.name() {
                    "row" => {
                        next = 0;
                        lines.start_row()?;
                    }
                    "c" => {
                        cell = Cell { column: next, ..Cell::default() };
                        for (name, value) in xml.attributes() {
                            match name.as_str() {
                                "r" => cell.column = column(&value).unwrap_or(next),
                                "s" => cell.style = value.parse().ok(),
                                "t" => cell.kind = value,
                                _ => {}
                            }
                        }
                    }
                    "rPh" => xml.skip()?,
                    _ => {}
                },
                Next::Text
                    if xml.name() == "v" || xml.name() == "t" && cell.kind == "inlineStr" =>
                {
                    cell.value.write_str(xml.text()).map_err(|_| too_long())?;
                }
                Next::End => match xml.name() {
                    "c" => {
                        let text = self.shown(&cell);
                        if text.is_empty() {
                            continue;
                        }
                        if !lines.is_in_table() {
                            lines.add(title)?;
                            lines.start_table()?;
                            lines.start_row()?;
                        }
                        for _ in 0..cell.column.saturating_sub(next).min(MAX_EMPTY) {
                            lines.start_cell()?;
                        }
                        lines.start_cell()?;
                        lines.add(&text)?;
                        next = cell.column.saturating_add(1);
                    }
                    "row" => lines.end_row()?,
                    _ => {}
                },
                Next::Text => {}
                Next::Done => return Ok(BoundedText { text: lines.finished()? }),
            }
        }
    }

    /// What a cell shows.
    fn shown(&self, cell: &Cell) -> String {
        let value = cell.value.text.as_str();
        match cell.kind.as_str() {
            "s" => {
                let text = value.trim().parse().ok().and_then(|number| self.strings.get(number));
                text.unwrap_or_default().into()
            }
            "b" => if value.trim() == "1" { "TRUE" } else { "FALSE" }.into(),
            "" | "n" => {
                let style = cell.style.and_then(|style| self.styles.get(style).copied());
                self.number(value.trim(), style.unwrap_or_default())
            }
            // Results of formulas, texts in the cell, errors, and dates in ISO 8601.
            _ => value.into(),
        }
    }

    /// A number as it is stored, or as a date.
    fn number(&self, stored: &str, shown: Shown) -> String {
        let Ok(number) = stored.parse::<f64>() else { return stored.into() };
        if (shown.date || shown.time)
            && let Some(date) = self.date(number, shown)
        {
            return date;
        }
        // Of `0.10000000000000001`, as Excel stores it, the shortest form is meant.
        let is_plain = number == 0.0 || (1e-5..1e15).contains(&number.abs());
        if is_plain && stored.len() > 15 { number.to_string() } else { stored.into() }
    }

    /// Days since the last day of 1899 as a date, their fraction as a time. None that no date is.
    fn date(&self, days: f64, shown: Shown) -> Option<String> {
        const DAY: f64 = 86_400.0;
        if !(0.0..2_958_466.0).contains(&days) {
            return None; // After 9999.
        }
        let seconds = (days * DAY).round() as i64;
        let (day, second) = (seconds / 86_400, seconds % 86_400);
        let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
        if !shown.date {
            let hours = if shown.elapsed { day * 24 + hour } else { hour };
            return Some(format!("{hours:02}:{minute:02}:{second:02}"));
        }
        // Excel has a 29 February 1900, as its predecessors had.
        let day = match (self.from_1904, day) {
            (true, day) => day + 1462,
            (false, day) if day < 60 => day + 1,
            (false, day) => day,
        };
        let date = Date::from_julian_day(i32::try_from(day).ok()? + JULIAN_DAY).ok()?;
        let date = format!("{:04}-{:02}-{:02}", date.year(), u8::from(date.month()), date.day());
        let has_time = shown.time && (hour, minute, second) != (0, 0, 0);
        Some(if has_time { format!("{date} {hour:02}:{minute:02}:{second:02}") } else { date })
    }
}

/// The column of a reference such as `AB12`, from 0. `None` if it is none or beyond any sheet.
fn column(reference: &str) -> Option<usize> {
    let letters = reference.bytes().take_while(u8::is_ascii_alphabetic).take(4);
    let number = letters.fold(0, |sum: usize, letter| {
        sum * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1
    });
    (1..=16_384).contains(&number).then(|| number - 1)
}

#[cfg(test)]
mod tests {
    use super::super::testing::{archive, relationships};
    use super::*;

    /// The text of a file with two sheets, of which the first has these rows.
    fn read(rows: &str, has_1904: &str) -> String {
        let strings = "<sst><si><t>one</t><rPh><t>no</t></rPh></si><si/><si><r><t>t</t></r><r><t>wo</t></r></si></sst>";
        let styles = r##"<styleSheet><numFmts><numFmt numFmtId="164" formatCode="[$-407]d.\ mmm;@"/><numFmt numFmtId="165" formatCode="[h]:mm"/><numFmt numFmtId="166" formatCode="0.0&quot;days&quot;"/></numFmts>
            <cellStyleXfs><xf numFmtId="14"/></cellStyleXfs><cellXfs><xf numFmtId="0"/><xf numFmtId="14"/><xf numFmtId="22"/><xf numFmtId="20"/><xf numFmtId="164"/><xf numFmtId="165"/><xf numFmtId="166"/></cellXfs></styleSheet>"##;
        let sheets = r#"<sheet name="Tides &amp; berths" sheetId="1" r:id="b"/><sheet name="Empty" r:id="c"/><sheet name="Last" r:id="a"/>"#;
        text(&archive(&[
            ("_rels/.rels", &relationships(&[("a", "officeDocument", "xl/workbook.xml")])),
            ("xl/workbook.xml", &format!("<workbook><workbookPr date1904=\"{has_1904}\"/><sheets>{sheets}</sheets></workbook>")),
            ("xl/_rels/workbook.xml.rels", &relationships(&[
                ("a", "worksheet", "worksheets/sheet1.xml"), ("b", "worksheet", "worksheets/sheet2.xml"), ("c", "worksheet", "worksheets/sheet3.xml"),
                ("d", "sharedStrings", "sharedStrings.xml"), ("e", "styles", "styles.xml"),
            ])),
            ("xl/sharedStrings.xml", strings),
            ("xl/styles.xml", styles),
            ("xl/worksheets/sheet1.xml", "<worksheet><sheetData><row><c t=\"inlineStr\"><is><t>end</t></is></c></row></sheetData></worksheet>"),
            ("xl/worksheets/sheet2.xml", &format!("<worksheet><sheetData>{rows}</sheetData></worksheet>")),
            ("xl/worksheets/sheet3.xml", "<worksheet><sheetData><row><c/></row></sheetData></worksheet>"),
        ]))
        .unwrap()
        .text
    }

    /// What a cell with these attributes and this content shows.
    fn shown(attributes: &str, content: &str, has_1904: &str) -> String {
        let read = read(&format!("<row><c {attributes}>{content}</c></row>"), has_1904);
        let row = read.strip_prefix("Tides & berths\n").unwrap();
        row.strip_suffix("\n\u{c}Last\nend\n").unwrap().into()
    }

    #[test]
    fn sheets_are_in_their_order_with_a_line_for_each_row() {
        let rows = r#"<row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>2</v></c></row><row r="5"><c><v>1</v></c><c><f>1+1</f><v>2</v></c><c t="s"><v>1</v></c></row>"#;
        assert_eq!(read(rows, "0"), "Tides & berths\none\t\ttwo\n1\t2\n\u{c}Last\nend\n");
    }

    #[test]
    fn a_cell_shows_its_value() {
        for (attributes, value, text) in [
            ("t=\"b\"", "1", "TRUE"),
            ("t=\"e\"", "#DIV/0!", "#DIV/0!"),
            ("t=\"str\"", "a\nb", "a\nb"),
            ("t=\"d\"", "2024-02-29", "2024-02-29"),
            ("", "0.10000000000000001", "0.1"),
            ("", "1E+300", "1E+300"),
            ("", "12345678901234567890", "12345678901234567890"),
            ("s=\"1\"", "45351", "2024-02-29"),
            ("s=\"1\"", "1", "1900-01-01"),
            ("s=\"1\"", "61", "1900-03-01"),
            ("s=\"2\"", "45351.75", "2024-02-29 18:00:00"),
            ("s=\"2\"", "45351", "2024-02-29"),
            ("s=\"3\"", "45351.25", "06:00:00"),
            ("s=\"4\"", "45351", "2024-02-29"),
            ("s=\"5\"", "1.25", "30:00:00"),
            ("s=\"6\"", "1.5", "1.5"),
            ("s=\"1\"", "-1", "-1"),
            ("s=\"1\"", "1E+18", "1E+18"),
            ("s=\"1\"", "text", "text"),
            ("s=\"99\"", "1", "1"),
        ] {
            assert_eq!(
                shown(attributes, &format!("<v>{value}</v>"), "0"),
                text,
                "{attributes} {value}"
            );
        }
        assert_eq!(shown("s=\"1\"", "<v>43889</v>", "1"), "2024-02-29");
    }

    #[test]
    fn cells_far_apart_are_a_few_tabs_apart() {
        let row =
            r#"<row r="1048576"><c r="A1048576"><v>1</v></c><c r="XFD1048576"><v>2</v></c></row>"#;
        let read = read(&row.repeat(3), "0");
        assert_eq!(read.matches('\t').count(), 3 * (MAX_EMPTY + 1));
        for wrong in ["XFE1", "ZZZZZZZZZZZZZZZZZZZ1", "1", "", "99999999999999999999"] {
            assert_eq!(column(wrong), None, "{wrong}");
        }
        assert_eq!((column("A1"), column("XFD9"), column("ab")), (Some(0), Some(16_383), Some(27)));
        // A string that there is not.
        assert_eq!(self::tests::read("<row><c t=\"s\"><v>3</v></c></row>", "0"), "Last\nend\n");
    }

    #[test]
    fn what_is_damaged_beside_others_is_left_out_and_the_answer_says_so() {
        let ids = [
            ("a", "worksheet", "s/1.xml"),
            ("b", "worksheet", "s/2.xml"),
            ("c", "sharedStrings", "t.xml"),
            ("d", "styles", "styles.xml"),
        ];
        let sheets = r#"<sheet name="Ebb" r:id="a"/><sheet name="Flow" r:id="b"/>"#;
        let first = "<s><row><c t=\"s\"><v>0</v></c><c s=\"0\"><v>45351</v></c></row></s>";
        let parts: [(&str, String); 6] = [
            ("_rels/.rels", relationships(&[("a", "officeDocument", "xl/workbook.xml")])),
            ("xl/_rels/workbook.xml.rels", relationships(&ids)),
            ("xl/s/1.xml", first.into()),
            ("xl/s/2.xml", "<s><row><c><v>7</v></c></row></s>".into()),
            ("xl/t.xml", "<sst><si><t>one</t></si></sst>".into()),
            ("xl/styles.xml", "<s><cellXfs><xf numFmtId=\"14\"/></cellXfs></s>".into()),
        ];
        let read = |damaged: &str, how: &str| {
            let workbook = format!("<workbook><sheets>{sheets}</sheets></workbook>");
            let mut files = vec![("xl/workbook.xml", workbook.as_str())];
            for (name, content) in &parts {
                files.push((name, if *name == damaged { how } else { content }));
            }
            text(&archive(&files)).unwrap()
        };
        let whole = "Ebb\none\t2024-02-29\n\u{c}Flow\n7\n";
        assert_eq!(read("", ""), whole.to_string().into());
        for how in
            ["<a><b>", "<a></b>", "<!DOCTYPE a [<!ENTITY b \"c\">]><a/>", "<s><row><c><v>1&x;"]
        {
            assert_eq!(read("_rels/.rels", how), whole.to_string().into());
            for (part, left, said) in [
                ("xl/s/1.xml", "Flow\n7\n", "sheet 1 is damaged and left out"),
                (
                    "xl/t.xml",
                    "Ebb\n2024-02-29\n\u{c}Flow\n7\n",
                    "the texts that cells share are damaged: those cells are left out",
                ),
                (
                    "xl/styles.xml",
                    "Ebb\none\t45351\n\u{c}Flow\n7\n",
                    "the styles are damaged: dates are the numbers of days that are stored",
                ),
            ] {
                let read = read(part, how);
                assert_eq!((read.text.as_str(), &read.left_out[..]), (left, &[said.into()][..]));
            }
        }
    }

    #[test]
    fn sheets_whose_list_is_damaged_are_read_in_the_order_of_their_files() {
        let row = |n| format!("<s><row><c t=\"s\"><v>0</v></c><c><v>{n}</v></c></row></s>");
        let ids = relationships(&[("a", "worksheet", "worksheets/sheet2.xml")]);
        let said =
            "the list of the sheets is damaged: they have the order and the names of their files";
        let workbook = "<w><sheet name=\"A\" r:id=\"a\"/>";
        for (list, references) in [("<w/>", "<a><b>"), (workbook, &ids)] {
            let [second, tenth] = [2, 10].map(row);
            let mut files = vec![
                ("xl/workbook.xml", list),
                ("xl/_rels/workbook.xml.rels", references),
                ("xl/sharedStrings.xml", "<sst><si><t>one</t></si></sst>"),
            ];
            assert!(text(&archive(&files)).is_err(), "there is nothing to read");
            files.push(("xl/worksheets/sheet10.xml", &tenth));
            files.push(("xl/worksheets/sheet2.xml", &second));
            let read = text(&archive(&files)).unwrap();
            let expected = "sheet2\none\t2\n\u{c}sheet10\none\t10\n";
            assert_eq!((read.text.as_str(), &read.left_out[..]), (expected, &[said.into()][..]));
        }
    }
}
