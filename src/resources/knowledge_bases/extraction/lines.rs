//! The text of a file as it is laid out: lines, and rows of tables.

use std::fmt::Write as _;

use super::text::{BoundedText, MAX_TEXT_BYTES, too_long};
use crate::base::Result;

/// Stands between two cells of a row until the row is written. No text has it: see [`Lines::add`].
const CELL: char = '\u{1f}';

/// What a row of a table has so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row {
    /// It is not begun.
    None,
    /// Text only, which is in [`Lines::cells`]; whether its first cell is begun.
    Cells(bool),
    /// Tables: it only lays them out, and what is in it are lines.
    Layout,
}

/// A text that is built line by line. A row of a table is a line, with tabs between its cells; what is
/// apart in a cell (paragraphs, lines) is separated by spaces. A row of one cell is no row but a frame,
/// as is one with a table in it: its lines stay.
#[derive(Default)]
pub struct Lines {
    text: BoundedText,
    /// The row of each table that is open.
    rows: Vec<Row>,
    /// The cells of the innermost row.
    cells: String,
}

impl Lines {
    /// Adds text as it is; control characters other than those of lines become spaces.
    ///
    /// # Errors
    /// 413 if the whole text would be too long, as for all that adds something.
    pub fn add(&mut self, text: &str) -> Result<()> {
        if !self.is_in_cells() {
            return self.text.write_str(text).map_err(|_| too_long());
        }
        self.room(text.len())?;
        if text.contains(|c: char| c.is_ascii_control() && c != '\n') {
            self.cells.extend(text.chars().map(|c| match c {
                '\n' => '\n',
                c if c.is_ascii_control() => ' ',
                c => c,
            }));
        } else {
            self.cells.push_str(text);
        }
        Ok(())
    }

    /// Adds text in which white space is one space, and none at the beginning of a line.
    pub fn flow(&mut self, text: &str) -> Result<()> {
        let is_space = |c: char| matches!(c, ' ' | '\t' | '\n' | '\r' | '\u{c}');
        let mut rest = text;
        while let Some(first) = rest.chars().next() {
            let is_gap = is_space(first);
            let end = rest.find(|c| is_space(c) != is_gap).unwrap_or(rest.len());
            let (part, after) = rest.split_at(end);
            rest = after;
            match is_gap {
                true if self.last().is_none_or(|c| c.is_ascii_whitespace() || c == CELL) => {}
                true => self.add(" ")?,
                false => self.add(part)?,
            }
        }
        Ok(())
    }

    /// Ends a line, also one without text.
    pub fn end_paragraph(&mut self) -> Result<()> {
        let text = if self.is_in_cells() { &mut self.cells } else { &mut self.text.text };
        text.truncate(text.trim_end_matches(' ').len());
        self.add("\n")
    }

    /// Ends the line if there is one.
    pub fn end_line(&mut self) -> Result<()> {
        match self.last() {
            None | Some('\n' | '\u{c}' | CELL) => Ok(()),
            _ => self.end_paragraph(),
        }
    }

    /// Ends a page: a form feed is before the next one.
    pub fn end_page(&mut self) -> Result<()> {
        while !self.rows.is_empty() {
            self.end_table()?;
        }
        self.end_line()?;
        self.add("\u{c}")
    }

    /// Begins a table, in a cell of another one too.
    pub fn start_table(&mut self) -> Result<()> {
        if self.is_in_cells() {
            let cells = std::mem::take(&mut self.cells);
            self.set_row(Row::Layout);
            self.add_lines(&cells)?;
        }
        self.end_line()?;
        self.rows.push(Row::None);
        Ok(())
    }

    /// Begins a row of the table; nothing outside of one.
    pub fn start_row(&mut self) -> Result<()> {
        self.end_row()?;
        self.set_row(Row::Cells(false));
        Ok(())
    }

    /// Begins the next cell of the row, which ends the one before; nothing outside of a row.
    pub fn start_cell(&mut self) -> Result<()> {
        match self.rows.last().copied() {
            Some(Row::Cells(false)) => {
                self.set_row(Row::Cells(true));
                Ok(())
            }
            Some(Row::Cells(true)) => {
                self.room(1)?;
                self.cells.push(CELL);
                Ok(())
            }
            Some(Row::Layout) => self.end_line(),
            _ => Ok(()),
        }
    }

    /// Ends the row. Cells without text at its end are left out, and a row without any.
    pub fn end_row(&mut self) -> Result<()> {
        match self.rows.last().copied() {
            Some(Row::Cells(_)) => {
                let cells = std::mem::take(&mut self.cells);
                self.set_row(Row::None);
                let whole = cells.trim_matches(|c: char| c == CELL || c.is_ascii_whitespace());
                if !whole.contains(CELL) && !cells.starts_with(CELL) {
                    return self.add_lines(whole);
                }
                let cells = cells.trim_end_matches(|c: char| c == CELL || c.is_ascii_whitespace());
                for (number, cell) in cells.split(CELL).enumerate() {
                    if number > 0 {
                        self.add("\t")?;
                    }
                    for (number, part) in cell.split_ascii_whitespace().enumerate() {
                        if number > 0 {
                            self.add(" ")?;
                        }
                        self.add(part)?;
                    }
                }
                if cells.is_empty() { Ok(()) } else { self.add("\n") }
            }
            Some(Row::Layout) => {
                self.set_row(Row::None);
                self.end_line()
            }
            _ => Ok(()),
        }
    }

    /// Takes what the last line has so far, outside of tables.
    pub fn take_line(&mut self) -> String {
        if !self.rows.is_empty() {
            return String::new();
        }
        let begin = self.text.text.rfind(['\n', '\u{c}']).map_or(0, |at| at + 1);
        self.text.text.split_off(begin)
    }

    /// Whether a table is open.
    pub fn is_in_table(&self) -> bool {
        !self.rows.is_empty()
    }

    /// Whether a row is begun.
    pub fn is_in_row(&self) -> bool {
        self.rows.last().is_some_and(|row| *row != Row::None)
    }

    /// Ends the table with its row; nothing if there is none.
    pub fn end_table(&mut self) -> Result<()> {
        self.end_row()?;
        self.rows.pop();
        Ok(())
    }

    /// Returns the text.
    pub fn finished(mut self) -> Result<String> {
        while !self.rows.is_empty() {
            self.end_table()?;
        }
        Ok(self.text.text)
    }

    /// Adds the cells of a row as lines.
    fn add_lines(&mut self, cells: &str) -> Result<()> {
        for line in cells.split([CELL, '\n']).filter(|line| !line.trim().is_empty()) {
            self.add(line.trim_end())?;
            self.add("\n")?;
        }
        Ok(())
    }

    fn set_row(&mut self, row: Row) {
        if let Some(last) = self.rows.last_mut() {
            *last = row;
        }
    }

    fn is_in_cells(&self) -> bool {
        matches!(self.rows.last(), Some(Row::Cells(_)))
    }

    /// The last character of what is written now.
    fn last(&self) -> Option<char> {
        let text = if self.is_in_cells() { &self.cells } else { &self.text.text };
        text.chars().next_back()
    }

    /// Refuses cells for which there is no room.
    fn room(&self, bytes: usize) -> Result<()> {
        let has_room = self.text.text.len() + self.cells.len() + bytes <= MAX_TEXT_BYTES;
        if has_room { Ok(()) } else { Err(too_long()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each character is a step: `[` and `]` are a table, `r` and `e` begin and end a row, `c` begins a
    /// cell, `/` ends a paragraph, `_` a page; others are text.
    fn laid_out(steps: &str) -> String {
        let mut lines = Lines::default();
        for step in steps.chars() {
            match step {
                '[' => lines.start_table(),
                ']' => lines.end_table(),
                'r' => lines.start_row(),
                'e' => lines.end_row(),
                'c' => lines.start_cell(),
                '/' => lines.end_paragraph(),
                '_' => lines.end_page(),
                other => lines.add(other.encode_utf8(&mut [0; 4])),
            }
            .unwrap();
        }
        lines.finished().unwrap()
    }

    #[test]
    fn rows_are_lines_and_cells_are_apart_by_tabs() {
        for (steps, text) in [
            ("A/[rcA/cB/ercA/cB/e]C/", "A\nA\tB\nA\tB\nC\n"),
            ("A[rcA/cB/e]C", "A\nA\tB\nC"),
            // Paragraphs of a cell, and a text with a tab in it.
            ("[rcA/B//cC\tDe]", "A B\tC D\n"),
            // Cells without text.
            ("[rcAccBcce]C", "A\t\tB\nC"),
            ("[rccAe]C", "\tA\nC"),
            ("[rcceB", "B"),
            // A frame.
            ("[rcA/B/e]C", "A\nB\nC"),
            ("[rcA/B/cce]C", "A\nB\nC"),
            // Tables in tables.
            ("[rcAcB[rcCcDe]EcFercGcHe]I", "A\nB\nC\tD\nE\nF\nG\tH\nI"),
            ("[rc[rc[rcAcBe]e]e]", "A\tB\n"),
            // What is not closed, or not opened.
            ("[rcAcB", "A\tB\n"),
            ("rcAe]B", "AB"),
            ("[rcAcBrcCcD]E", "A\tB\nC\tD\nE"),
            ("[rcAcB_C", "A\tB\n\u{c}C"),
            ("A_B", "A\n\u{c}B"),
        ] {
            assert_eq!(laid_out(steps), text, "{steps}");
        }
    }

    #[test]
    fn white_space_that_flows_is_one_space() {
        let mut lines = Lines::default();
        for text in ["  a ", "\n b", "c\t\r\nd "] {
            lines.flow(text).unwrap();
        }
        lines.end_line().unwrap();
        lines.end_line().unwrap();
        lines.flow(" e").unwrap();
        assert_eq!(lines.finished().unwrap(), "a bc d\ne");
    }

    #[test]
    fn cells_count_for_the_length_of_the_text() {
        let mut lines = Lines::default();
        lines.add(&"a".repeat(MAX_TEXT_BYTES - 2)).unwrap(); // And a line end.
        lines.start_table().unwrap();
        lines.start_row().unwrap();
        lines.start_cell().unwrap();
        lines.add("b").unwrap();
        lines.add("c").unwrap_err();
    }
}
