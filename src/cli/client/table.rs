//! Tables and texts for people.
//!
//! What a server answers was written by others: control characters in it are shown, not sent to the
//! terminal, where they could hide or change what is on it.

use std::io::IsTerminal as _;

use serde_json::Value;

/// The widest column but the last: a longer text is cut off, so that a table keeps its shape.
const MAX_WIDTH: usize = 48;

/// The widest last column, which may be a title.
const MAX_LAST_WIDTH: usize = 100;

/// Begins and ends bold text.
const BOLD: (&str, &str) = ("\x1b[1m", "\x1b[0m");

/// Rows below names of columns.
pub struct Table {
    names: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these columns.
    pub fn new(names: &[&'static str]) -> Self {
        Table { names: names.to_vec(), rows: Vec::new() }
    }

    /// A table with a row for each item.
    pub fn of<const N: usize>(
        names: [&'static str; N],
        items: &[Value],
        row: impl Fn(&Value) -> [String; N],
    ) -> Self {
        let mut table = Table::new(&names);
        items.iter().for_each(|item| table.add(row(item).to_vec()));
        table
    }

    /// Adds a row.
    pub fn add(&mut self, row: Vec<String>) {
        self.rows.push(row);
    }

    /// The text; `nothing` if there are no rows.
    pub fn text(&self, nothing: &str) -> String {
        if self.rows.is_empty() {
            return nothing.to_string();
        }
        let last = self.names.len().saturating_sub(1);
        let cell = |column: usize, text: &str| {
            let widest = if column == last { MAX_LAST_WIDTH } else { MAX_WIDTH };
            cut(&one_line(text), widest)
        };
        let rows: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| row.iter().enumerate().map(|(at, text)| cell(at, text)).collect())
            .collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column));
            let widest = cells.map(|text| text.chars().count()).max().unwrap_or_default();
            widest.max(self.names[column].chars().count())
        };
        let widths: Vec<usize> = (0..self.names.len()).map(width).collect();
        let line = |cells: Vec<&str>| {
            let cells = cells.iter().zip(&widths).map(|(text, &width)| format!("{text:width$}"));
            cells.collect::<Vec<_>>().join("  ").trim_end().to_string()
        };
        let (begin, end) = if has_colors() { BOLD } else { ("", "") };
        let mut text = format!("{begin}{}{end}\n", line(self.names.clone()));
        for row in &rows {
            text.push_str(&line(row.iter().map(String::as_str).collect()));
            text.push('\n');
        }
        text
    }
}

/// Whether stdout is a terminal whose user wants colors (<https://no-color.org>).
pub fn has_colors() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Returns a text of several lines without what a terminal would obey. In a pipe it stays as it is.
pub fn for_terminal(text: &str) -> String {
    if std::io::stdout().is_terminal() { printable(text) } else { text.to_string() }
}

/// Returns a text whose control characters, except line feeds and tabs, are escaped.
pub fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        // Marks of direction can show a text in another order than it has.
        let is_mark = matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if (c.is_control() && c != '\n' && c != '\t') || is_mark {
            shown.extend(c.escape_unicode());
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns a text on one line.
fn one_line(text: &str) -> String {
    printable(text).replace(['\n', '\t'], " ")
}

fn cut(text: &str, widest: usize) -> String {
    if text.chars().count() <= widest {
        return text.to_string();
    }
    text.chars().take(widest.saturating_sub(1)).chain(['…']).collect()
}

/// A value in a cell: texts and numbers as they are, `-` for none.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// A time in a cell, to the second: `2026-11-21 18:23:03`, in UTC.
pub fn time(value: &Value) -> String {
    match value.as_str().and_then(|time| time.get(..19)) {
        Some(time) => time.replace('T', " "),
        None => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn columns_are_aligned_and_lines_have_no_blanks_at_their_ends() {
        let items = [json!({"a": "x", "b": 1}), json!({"a": "longer", "b": null})];
        let table = Table::of(["A", "B"], &items, |item| [cell(&item["a"]), cell(&item["b"])]);
        assert_eq!(table.text("none"), "A       B\nx       1\nlonger  -\n");
        assert_eq!(Table::new(&["A"]).text("none"), "none");
    }

    #[test]
    fn no_text_of_others_controls_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\r\u{202e}c\td\n"), "a\\u{1b}[2Jb\\u{d}\\u{202e}c\td\n");
        let items = [json!("two\nlines\x07")];
        let table = Table::of(["A"], &items, |item| [cell(item)]);
        assert_eq!(table.text(""), "A\ntwo lines\\u{7}\n");
    }

    #[test]
    fn long_texts_are_cut_off() {
        let mut table = Table::new(&["A", "B"]);
        table.add(vec!["é".repeat(60), "b".into()]);
        let text = table.text("");
        assert!(text.contains(&format!("{}…  b", "é".repeat(47))), "{text}");
    }

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(time(&json!("2026-11-21T18:23:03.120Z")), "2026-11-21 18:23:03");
        assert_eq!(time(&json!(null)), "-");
    }
}
