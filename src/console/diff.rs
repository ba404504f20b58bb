//! A unified diff as rows of a table: what was removed beside what replaced it, with the words that
//! differ marked.

use crate::base::diff;

/// Words of longer lines are not compared: the rows say enough then.
const MAX_LINE_BYTES: usize = 2000;

/// Pairs of words of all lines of a page that are compared, some 20 ms: 100 lines of 200 words that have
/// none in common. Words of further lines are not compared.
const MAX_WORD_PAIRS: usize = 4_000_000;

/// Lines of all texts of a page that are compared, some 20 ms if few of them are equal. Texts with more lines
/// between their first and last change are shown as replaced.
pub const MAX_LINES: usize = 6000;

/// A row of the table.
#[derive(Debug, PartialEq, Eq)]
pub enum Row {
    /// The beginning of a part; what lies between parts is the same in both.
    Part { old: usize, new: usize },
    /// A line of both.
    Same { old: usize, new: usize, text: String },
    /// A line of one of them, or two that differ.
    Changed { old: Option<Line>, new: Option<Line> },
}

/// A line that differs.
#[derive(Debug, PartialEq, Eq)]
pub struct Line {
    pub number: usize,
    /// Pieces of the line, and whether each differs.
    pub pieces: Vec<(bool, String)>,
}

/// The rows of a unified diff.
pub fn rows(unified: &str) -> Vec<Row> {
    let mut reader = Reader { word_pairs: MAX_WORD_PAIRS, ..Reader::default() };
    let mut lines = unified.lines().peekable();
    // The names of both versions.
    while lines.next_if(|line| line.starts_with("--- ") || line.starts_with("+++ ")).is_some() {}
    for line in lines {
        reader.read(line);
    }
    reader.flush();
    reader.rows
}

/// The rows of the difference between two texts, without names. `max_lines` is what is left of
/// [`MAX_LINES`].
pub fn between(old: &str, new: &str, max_lines: &mut usize) -> Vec<Row> {
    // The end of a text that has none is no difference.
    let line = |text: &str| format!("{}\n", text.trim_end());
    rows(&diff::unified(&line(old), &line(new), ("", ""), max_lines))
}

/// The first rows, with so many bytes of text at most, and whether that is not all.
pub fn beginning(rows: Vec<Row>, max_rows: usize, max_bytes: usize) -> (Vec<Row>, bool) {
    let (count, mut left) = (rows.len(), max_bytes);
    let mut kept = Vec::new();
    for mut row in rows.into_iter().take(max_rows) {
        let is_whole = row.cut(&mut left);
        kept.push(row);
        if !is_whole {
            return (kept, true);
        }
    }
    let is_cut = kept.len() < count;
    (kept, is_cut)
}

impl Row {
    /// Cuts each side to half of the bytes that are left, and takes what it has off these. Returns
    /// whether all of it is there.
    fn cut(&mut self, left: &mut usize) -> bool {
        let room = *left / 2;
        let sides = match self {
            Row::Part { .. } => return true,
            Row::Same { text, .. } => {
                let is_whole = shorten(text, room);
                *left -= 2 * text.len();
                return is_whole;
            }
            Row::Changed { old, new } => [old, new],
        };
        let mut is_whole = true;
        for line in sides.into_iter().flatten() {
            let mut room = room;
            for (_, text) in &mut line.pieces {
                is_whole &= shorten(text, room);
                room -= text.len();
                *left -= text.len();
            }
        }
        is_whole
    }
}

/// Cuts a text to so many bytes; returns whether it had no more.
fn shorten(text: &mut String, max_bytes: usize) -> bool {
    let kept = text.floor_char_boundary(max_bytes);
    let is_whole = kept == text.len();
    text.truncate(kept);
    is_whole
}

#[derive(Default)]
struct Reader {
    rows: Vec<Row>,
    removed: Vec<(usize, String)>,
    added: Vec<(usize, String)>,
    old: usize,
    new: usize,
    /// Pairs of words that may still be compared.
    word_pairs: usize,
}

impl Reader {
    fn read(&mut self, line: &str) {
        if let Some(range) = line.strip_prefix("@@ ") {
            self.flush();
            (self.old, self.new) = starts(range);
            self.rows.push(Row::Part { old: self.old, new: self.new });
        } else if let Some(text) = line.strip_prefix('-') {
            if !self.added.is_empty() {
                self.flush();
            }
            self.removed.push((self.old, text.into()));
            self.old += 1;
        } else if let Some(text) = line.strip_prefix('+') {
            self.added.push((self.new, text.into()));
            self.new += 1;
        } else if !line.starts_with('\\') {
            self.flush();
            let text = line.strip_prefix(' ').unwrap_or(line).to_string();
            self.rows.push(Row::Same { old: self.old, new: self.new, text });
            self.old += 1;
            self.new += 1;
        }
    }

    /// Pairs the lines that were removed with those that were added in their place.
    fn flush(&mut self) {
        let mut removed = std::mem::take(&mut self.removed).into_iter();
        let mut added = std::mem::take(&mut self.added).into_iter();
        loop {
            let row = match (removed.next(), added.next()) {
                (None, None) => return,
                (Some(old), Some(new)) => self.pair(old, new),
                (Some(old), None) => Row::Changed { old: Some(whole(old)), new: None },
                (None, Some(new)) => Row::Changed { old: None, new: Some(whole(new)) },
            };
            self.rows.push(row);
        }
    }

    fn pair(&mut self, old: (usize, String), new: (usize, String)) -> Row {
        let words = |text: &str| 1 + text.split_whitespace().count();
        let pairs = words(&old.1) * words(&new.1);
        if old.1.len().max(new.1.len()) > MAX_LINE_BYTES || pairs > self.word_pairs {
            return Row::Changed { old: Some(whole(old)), new: Some(whole(new)) };
        }
        self.word_pairs -= pairs;
        let [before, after] = diff::words(&old.1, &new.1);
        Row::Changed {
            old: Some(Line { number: old.0, pieces: before }),
            new: Some(Line { number: new.0, pieces: after }),
        }
    }
}

/// A line without a counterpart: all of it differs, which its colour says.
fn whole((number, text): (usize, String)) -> Line {
    Line { number, pieces: vec![(false, text)] }
}

/// The first lines of `-1,3 +1,4 @@`.
fn starts(range: &str) -> (usize, usize) {
    let mut numbers = range.split(' ').map(|side| {
        let side = side.trim_start_matches(['-', '+']);
        side.split(',').next().and_then(|start| start.parse().ok()).unwrap_or(0)
    });
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_line_is_beside_its_replacement_with_the_words_that_differ() {
        let unified = "--- 1.0.0\n+++ 1.1.0\n@@ -2,3 +2,3 @@\n one\n-a red fox\n+a grey fox\n+and more\n two\n";
        let line = |number, pieces: &[(bool, &str)]| {
            let pieces = pieces.iter().map(|(changed, text)| (*changed, text.to_string()));
            Some(Line { number, pieces: pieces.collect() })
        };
        let old = line(3, &[(false, "a "), (true, "red"), (false, " fox")]);
        let new = line(3, &[(false, "a "), (true, "grey"), (false, " fox")]);
        assert_eq!(
            rows(unified),
            [
                Row::Part { old: 2, new: 2 },
                Row::Same { old: 2, new: 2, text: "one".into() },
                Row::Changed { old, new },
                Row::Changed { old: None, new: line(4, &[(false, "and more")]) },
                Row::Same { old: 4, new: 5, text: "two".into() },
            ]
        );
        assert_eq!(rows(""), []);
    }

    #[test]
    fn words_are_compared_as_long_as_that_takes_little_time() {
        let line = |letter: &str| vec![letter; 900].join(" ");
        let old = format!("-{}\n", line("a")).repeat(20);
        let unified = format!("@@ -1,20 +1,20 @@\n{old}{}", format!("+{}\n", line("b")).repeat(20));
        let compared = |row: &Row| {
            let Row::Changed { old: Some(old), .. } = row else { return false };
            old.pieces.iter().any(|(differs, _)| *differs)
        };
        assert_eq!(rows(&unified).iter().filter(|row| compared(row)).count(), 4);
    }

    #[test]
    fn the_beginning_has_so_many_rows_and_bytes_of_both_sides() {
        let bytes = |rows: &[Row]| -> usize {
            let of = |line: &Option<Line>| -> usize {
                line.iter().flat_map(|line| &line.pieces).map(|(_, text)| text.len()).sum()
            };
            let each = rows.iter().map(|row| match row {
                Row::Part { .. } => 0,
                Row::Same { text, .. } => 2 * text.len(),
                Row::Changed { old, new } => of(old) + of(new),
            });
            each.sum()
        };
        // A line of 1 MiB: something of both is shown.
        let (old, new) = ("ä".repeat(1 << 19), "b".repeat(1 << 20));
        let rows = between(&old, &new, &mut { MAX_LINES });
        let (rows, is_cut) = beginning(rows, 200, 1001);
        assert!(is_cut);
        assert_eq!((rows.len(), bytes(&rows)), (2, 1000));
        // Many lines.
        let lines = "a line of text\n".repeat(300);
        let rows = || between("", &lines, &mut { MAX_LINES });
        let (few, is_cut) = beginning(rows(), 200, 1 << 20);
        assert_eq!((few.len(), is_cut), (200, true));
        let (few, is_cut) = beginning(rows(), 200, 1000);
        assert!(is_cut && bytes(&few) <= 1000 && few.len() < 100, "{}", few.len());
        let (all, is_cut) = beginning(rows(), 400, 1 << 20);
        assert_eq!((all.len(), is_cut), (rows().len(), false));
    }

    #[test]
    fn two_distant_changes_of_a_long_text_are_two_parts() {
        let lines = |changed: &[usize]| -> String {
            let line = |n| if changed.contains(&n) { format!("{n}!\n") } else { format!("{n}\n") };
            (0..3000).map(line).collect()
        };
        let mut left = MAX_LINES;
        let rows = between(&lines(&[]), &lines(&[10, 2900]), &mut left);
        assert_eq!(rows.iter().filter(|row| matches!(row, Row::Part { .. })).count(), 2);
        assert_eq!(left, MAX_LINES - 2891);
    }

    #[test]
    fn texts_are_compared_by_line_whether_or_not_they_end_with_one() {
        let line =
            |number, text: &str| Some(Line { number, pieces: vec![(false, text.to_string())] });
        let part = Row::Part { old: 1, new: 1 };
        let same = Row::Same { old: 1, new: 1, text: "one".into() };
        let added = Row::Changed { old: None, new: line(2, "two") };
        assert_eq!(between("one", "one\ntwo\n", &mut { MAX_LINES }), [part, same, added]);
        assert_eq!(between("one\n", "one", &mut { MAX_LINES }), []);
    }
}
