//! Tables and texts for people. What is in a cell or a line was written by others: it has no line
//! end, which would begin a line of its own.

use serde_json::Value;

use crate::base::visible;
use crate::cli::output::Text;

/// The widest column but the last: a longer text is cut off, so that a table keeps its shape.
const MAX_WIDTH: usize = 48;

/// The widest last column, which may be a title.
const MAX_LAST_WIDTH: usize = 100;

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
    pub fn text(&self, nothing: &str) -> Text {
        if self.rows.is_empty() {
            return nothing.into();
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
        let mut body = String::new();
        for row in &rows {
            body.push_str(&line(row.iter().map(String::as_str).collect()));
            body.push('\n');
        }
        Text { heading: Some(line(self.names.clone())), body }
    }
}

/// Returns a text on one line.
pub fn one_line(text: &str) -> String {
    let text = visible::block(text);
    text.replace("\r\n", " ").replace(['\n', '\t'], " ")
}

/// Returns a text of several lines, each of them indented: none of them looks like one of the command's.
pub fn indented(text: &str) -> String {
    text.lines().map(|line| format!("  {line}")).collect::<Vec<_>>().join("\n")
}

fn cut(text: &str, widest: usize) -> String {
    if text.chars().count() <= widest {
        return text.to_string();
    }
    text.chars().take(widest.saturating_sub(1)).chain(['…']).collect()
}

/// A value in a cell or a line: texts on one line, numbers as they are, `-` for none.
pub fn cell(value: &Value) -> String {
    match value {
        Value::Null => "-".into(),
        Value::String(text) => one_line(text),
        Value::Array(items) => items.iter().map(cell).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// Fields of an object, each in a cell.
pub fn cells<const N: usize>(object: &Value, fields: [&str; N]) -> [String; N] {
    fields.map(|field| cell(&object[field]))
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
        let expected =
            Text { heading: Some("A       B".into()), body: "x       1\nlonger  -\n".into() };
        assert_eq!(table.text("none"), expected);
        assert_eq!(Table::new(&["A"]).text("none"), "none".into());
    }

    #[test]
    fn no_text_of_others_begins_a_line_of_its_own() {
        let items = [json!("two\r\nlines\x07")];
        let table = Table::of(["A"], &items, |item| [cell(item)]);
        assert_eq!(table.text("").body, "two lines⟨U+0007⟩\n");
        assert_eq!(format!("name: {}", cell(&json!("a\nrole: admin"))), "name: a role: admin");
        assert_eq!(indented("a\nb"), "  a\n  b");
    }

    #[test]
    fn long_texts_are_cut_off() {
        let mut table = Table::new(&["A", "B"]);
        table.add(vec!["é".repeat(60), "b".into()]);
        let text = table.text("").body;
        assert!(text.contains(&format!("{}…  b", "é".repeat(47))), "{text}");
    }

    #[test]
    fn times_are_shown_to_the_second() {
        assert_eq!(time(&json!("2026-11-21T18:23:03.120Z")), "2026-11-21 18:23:03");
        assert_eq!(time(&json!(null)), "-");
    }
}
