//! XLSX files (Office Open XML): the values of cells, as the program that saved the file had them.

mod escapes;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt::Write as _;

use time::Date;

use super::archive::{Archive, Next, Xml};
use super::chart::{self, Charts, Named};
use super::lines::Lines;
use super::number_format::{Shown, built_in, shown_by};
use super::package::{
    Listing, MISSING, all_of_kind, has_relationships, listed_or_usual, main_part, of_kind,
    relationships,
};
use super::text::{BoundedText, Damaged, Extracted, too_long, unless_damaged};
use crate::base::{Kind, Result};
use escapes::unescaped;

const FORMAT: &str = "XLSX";

/// Of empty cells between two others at most 32 are written: a sheet has 16,384 columns.
const MAX_EMPTY: usize = 32;

/// The Julian day of 30 December 1899, from which days are counted.
const JULIAN_DAY: i32 = 2_415_019;

const STRINGS_MISSING: &str = "the texts that cells share are damaged: those cells are left out";

const STYLES_MISSING: &str =
    "the styles are damaged: dates are the numbers of days that are stored";

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
    let strings = unless_damaged(read, &mut left_out, STRINGS_MISSING)?;
    let read = archive.xml(&styles).and_then(|xml| xml.map_or(Ok(Vec::new()), read_styles));
    let styles = unless_damaged(read, &mut left_out, STYLES_MISSING)?;
    let mut workbook = Workbook { strings, styles, from_1904, ..Workbook::default() };
    let (mut lines, mut is_first, mut charts) = (Lines::default(), true, Charts::default());
    let mut damaged = Damaged::default();
    for (number, (title, part)) in (1..).zip(sheets) {
        workbook.drawing = None;
        let read = archive.referred(&part).and_then(|xml| workbook.sheet(xml, &title));
        let mut sheet = damaged.unless(number, read)?;
        let drawing = workbook.drawing.as_deref();
        for chart in charts_of(&mut archive, &part, drawing, &mut left_out)? {
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
    for (lost, missing) in
        [(workbook.lost_string, STRINGS_MISSING), (workbook.lost_style, STYLES_MISSING)]
    {
        if lost {
            unless_damaged::<()>(Err(archive.missing()), &mut left_out, missing)?;
        }
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
        let mut listing = Listing::new(references, is_sheet);
        let Some(mut xml) = archive.xml(workbook)? else { return Ok(parts) };
        while xml.next_start()? {
            match xml.name() {
                "workbookPr" => {
                    // Others of this name are extensions.
                    if let Some(value) = xml.attribute("date1904") {
                        parts.from_1904 = value != "0" && value != "false";
                    }
                }
                "sheet" => {
                    let title = xml.attribute("name").unwrap_or_default();
                    let title = unescaped(&title).into_owned();
                    // Each is read once, however often it is listed.
                    let part = listing.take(xml.attribute("id").into_iter());
                    parts.sheets.extend(part.map(|part| (title, part)));
                }
                _ => {}
            }
        }
        drop(xml);
        if listing.is_lost() { Err(archive.missing()) } else { Ok(parts) }
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

/// The parts with the charts of a sheet, which are on its drawings; cells can do without them. The sheet
/// shows one by the id `shown`.
fn charts_of(
    archive: &mut Archive,
    sheet: &str,
    shown: Option<&str>,
    left_out: &mut Vec<String>,
) -> Result<Vec<String>> {
    let missing = "the references of a sheet or drawing are damaged: its charts are left out";
    let mut charts = Vec::new();
    if sheet == MISSING {
        return Ok(charts);
    }
    let mut parts = relationships(archive, sheet);
    let is_missing =
        |id: &str| parts.as_ref().is_ok_and(|parts| parts.iter().all(|part| part.id != id));
    if shown.is_some_and(is_missing) {
        parts = Err(archive.missing());
    }
    let parts = unless_damaged(parts, left_out, missing)?;
    for drawing in all_of_kind(&parts, "drawing") {
        let mut parts = relationships(archive, drawing);
        if !has_relationships(archive, drawing) && has_charts(archive, drawing)? {
            parts = Err(archive.missing());
        }
        let parts = unless_damaged(parts, left_out, missing)?;
        charts.extend(chart::of(&parts).map(|(_, part)| part.to_string()));
    }
    Ok(charts)
}

/// Whether a drawing shows a chart; also if that cannot be known.
fn has_charts(archive: &mut Archive, drawing: &str) -> Result<bool> {
    let has_chart = |mut xml: Xml| {
        while xml.next_start()? {
            if (xml.name(), xml.above(1)) == ("chart", "graphicData") {
                return Ok(true);
            }
        }
        Ok(false)
    };
    match archive.referred(drawing).and_then(has_chart) {
        Err(error) if error.kind() == Kind::Invalid => Ok(true),
        read => read,
    }
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
        let (mut strings, mut begin) = (Strings::default(), 0);
        loop {
            match xml.step()? {
                // How a text is pronounced.
                Next::Start if xml.name() == "rPh" => xml.skip()?,
                Next::Text if xml.name() == "t" => {
                    strings.text.write_str(xml.text()).map_err(|_| too_long())?;
                }
                Next::Start if xml.name() == "t" => begin = strings.text.text.len(),
                Next::End if xml.name() == "t" => unescape(&mut strings.text, begin),
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

/// Decodes what of a text begins here.
fn unescape(text: &mut BoundedText, begin: usize) {
    if let Cow::Owned(read) = unescaped(text.text.get(begin..).unwrap_or_default()) {
        text.text.truncate(begin);
        text.text.push_str(&read);
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

#[derive(Default)]
struct Workbook {
    strings: Strings,
    styles: Vec<Shown>,
    /// Whether days are counted from 1904.
    from_1904: bool,
    /// Whether a cell refers to a text, or a number to a style, that is not there.
    lost_string: bool,
    lost_style: bool,
    /// The id of the drawing of the sheet that is read.
    drawing: Option<String>,
}

/// A cell as it is read.
#[derive(Default)]
struct Cell {
    kind: String,
    style: Option<usize>,
    /// Its column, from 0.
    column: usize,
    value: BoundedText,
    /// Where the text that is read begins in it.
    begin: usize,
}

impl Workbook {
    /// Reads a sheet: its name and its rows, or nothing if it has no cells with values.
    fn sheet(&mut self, mut xml: Xml, title: &str) -> Result<BoundedText> {
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
                    "t" => cell.begin = cell.value.text.len(),
                    "rPh" => xml.skip()?,
                    "drawing" => self.drawing = xml.attribute("id"),
                    _ => {}
                },
                Next::Text
                    if xml.name() == "v" || xml.name() == "t" && cell.kind == "inlineStr" =>
                {
                    cell.value.write_str(xml.text()).map_err(|_| too_long())?;
                }
                Next::End => match xml.name() {
                    "t" if cell.kind == "inlineStr" => unescape(&mut cell.value, cell.begin),
                    "v" if cell.kind == "str" => unescape(&mut cell.value, 0),
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
    fn shown(&mut self, cell: &Cell) -> String {
        let value = cell.value.text.as_str();
        match cell.kind.as_str() {
            "s" if value.trim().is_empty() => String::new(),
            "s" => {
                let text = value.trim().parse().ok().and_then(|number| self.strings.get(number));
                self.lost_string |= text.is_none();
                text.unwrap_or_default().into()
            }
            "b" => if value.trim() == "1" { "TRUE" } else { "FALSE" }.into(),
            "" | "n" => {
                let style = cell.style.and_then(|style| self.styles.get(style).copied());
                // The first one is that of cells without one.
                let is_lost = style.is_none() && cell.style.is_some_and(|style| style > 0);
                self.lost_style |= is_lost && !value.is_empty();
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
mod tests;
