//! Differences between two texts: a unified diff of their lines, and the words that differ.

use std::collections::HashMap;
use std::ops::Range;

use similar::{Algorithm, DiffOp, DiffTag};

/// Unchanged lines shown around a change, as `diff -u` does by default.
const CONTEXT_LINES: usize = 3;

/// The lines between the first and the last change are compared one by one if there are at most
/// 20,000, which takes up to 200 ms when few of them are equal; otherwise all of them are shown as
/// replaced.
pub const MAX_COMPARED_LINES: usize = 20_000;

/// How one sequence of texts becomes the other. They are compared as numbers, so that the algorithm is
/// compiled once and compares each pair quickly.
fn between(old: &[&str], new: &[&str]) -> Vec<DiffOp> {
    let mut numbers: HashMap<&str, usize> = HashMap::new();
    let mut numbered = Vec::with_capacity(old.len() + new.len());
    for text in old.iter().chain(new) {
        let next = numbers.len();
        numbered.push(*numbers.entry(text).or_insert(next));
    }
    let (old, new) = numbered.split_at(old.len());
    similar::capture_diff_slices(Algorithm::Myers, old, new)
}

/// Returns a unified diff. Only `\n` ends a line, as programs that apply diffs read it. If more than
/// `max_lines` would be compared, they are shown as replaced; otherwise `max_lines` decreases by
/// their number, so that a request with several diffs is bounded by one limit.
pub fn unified(old: &str, new: &str, (from, to): (&str, &str), max_lines: &mut usize) -> String {
    let changed = Changed::between(old, new);
    let lines = changed.old.len().max(changed.new.len());
    let hunks = if lines > *max_lines {
        vec![changed.as_one_hunk()]
    } else {
        *max_lines -= lines;
        changed.hunks()
    };
    changed.unified(&hunks, (from, to))
}

/// The pieces of two lines, and whether each is in only one of them. Words and the space between them are
/// compared.
pub fn words(old: &str, new: &str) -> [Vec<(bool, String)>; 2] {
    let split = |text| -> Vec<&str> { runs(text).collect() };
    let (old, new) = (split(old), split(new));
    let mut pieces = [Vec::new(), Vec::new()];
    for op in between(&old, &new) {
        let differs = op.tag() != DiffTag::Equal;
        for (pieces, words) in pieces.iter_mut().zip([&old[op.old_range()], &new[op.new_range()]]) {
            push(pieces, differs, words);
        }
    }
    pieces
}

fn push(pieces: &mut Vec<(bool, String)>, differs: bool, words: &[&str]) {
    match pieces.last_mut() {
        Some((last, text)) if *last == differs => text.extend(words.iter().copied()),
        _ if words.is_empty() => {}
        _ => pieces.push((differs, words.concat())),
    }
}

/// The words of a text and the runs of white space between them.
fn runs(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let is_space = rest.chars().next()?.is_whitespace();
        let end = rest.find(|c: char| c.is_whitespace() != is_space).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        rest = after;
        Some(run)
    })
}

/// Two texts as lines, and the ranges between their common beginning and end.
struct Changed<'a> {
    old_lines: Vec<&'a str>,
    new_lines: Vec<&'a str>,
    old: Range<usize>,
    new: Range<usize>,
}

impl<'a> Changed<'a> {
    fn between(old: &'a str, new: &'a str) -> Self {
        let old_lines: Vec<_> = old.split_inclusive('\n').collect();
        let new_lines: Vec<_> = new.split_inclusive('\n').collect();
        let shorter = old_lines.len().min(new_lines.len());
        let before = old_lines.iter().zip(&new_lines).take_while(|(old, new)| old == new).count();
        let ends = old_lines.iter().rev().zip(new_lines.iter().rev());
        let after = ends.take(shorter - before).take_while(|(old, new)| old == new).count();
        let (old, new) = (before..old_lines.len() - after, before..new_lines.len() - after);
        Changed { old_lines, new_lines, old, new }
    }

    /// Returns what differs line by line, with what surrounds it.
    fn hunks(&self) -> Vec<Vec<DiffOp>> {
        let ops = between(&self.old_lines, &self.new_lines);
        similar::group_diff_ops(ops, CONTEXT_LINES)
    }

    fn unified(&self, hunks: &[Vec<DiffOp>], (from, to): (&str, &str)) -> String {
        if hunks.is_empty() {
            return String::new();
        }
        let mut text = format!("--- {from}\n+++ {to}\n");
        for hunk in hunks {
            self.write(hunk, &mut text);
        }
        text
    }

    /// Returns one hunk that replaces everything between the common beginning and end.
    fn as_one_hunk(&self) -> Vec<DiffOp> {
        let same = |old_index, new_index, len| DiffOp::Equal { old_index, new_index, len };
        let before = self.old.start.min(CONTEXT_LINES);
        let after = CONTEXT_LINES.min(self.old_lines.len() - self.old.end);
        let replaced = DiffOp::Replace {
            old_index: self.old.start,
            old_len: self.old.len(),
            new_index: self.new.start,
            new_len: self.new.len(),
        };
        let first = self.old.start - before;
        vec![same(first, first, before), replaced, same(self.old.end, self.new.end, after)]
    }

    /// Appends a hunk to `text`: its line numbers, then its lines.
    fn write(&self, hunk: &[DiffOp], text: &mut String) {
        let (Some(first), Some(last)) = (hunk.first(), hunk.last()) else { return };
        let old = line_numbers(&(first.old_range().start..last.old_range().end));
        let new = line_numbers(&(first.new_range().start..last.new_range().end));
        text.push_str(&format!("@@ -{old} +{new} @@\n"));
        let mut write = |sign: char, lines: &[&str]| {
            for line in lines {
                text.push(sign);
                text.push_str(line);
                if !line.ends_with('\n') {
                    text.push_str("\n\\ No newline at end of file\n");
                }
            }
        };
        for part in hunk {
            let (old, new) = (part.old_range(), part.new_range());
            if part.tag() == DiffTag::Equal {
                write(' ', &self.old_lines[old]);
            } else {
                write('-', &self.old_lines[old]);
                write('+', &self.new_lines[new]);
            }
        }
    }
}

/// Returns the position of a hunk's lines, counted from 1. An empty range has the number of the line
/// before it.
fn line_numbers(lines: &Range<usize>) -> String {
    match lines.len() {
        0 => format!("{},0", lines.start),
        1 => format!("{}", lines.start + 1),
        count => format!("{},{count}", lines.start + 1),
    }
}

#[cfg(test)]
mod tests {
    use similar::TextDiff;

    use super::*;

    /// A diff under the limit of one request.
    fn unified(old: &str, new: &str, names: (&str, &str)) -> String {
        super::unified(old, new, names, &mut { MAX_COMPARED_LINES })
    }

    #[test]
    fn a_diff_is_unified_and_names_both_versions() {
        let old = "a\nb\nc\nd\ne\nf\ng\nh\n";
        let new = "a\nb\nc\nd\nE\nf\ng\nh";
        let expected = "--- 1.0.0\n+++ 1.1.0\n@@ -2,7 +2,7 @@\n b\n c\n d\n-e\n+E\n f\n g\n-h\n+h\n\\ No newline at end of file\n";
        assert_eq!(unified(old, new, ("1.0.0", "1.1.0")), expected);
        assert_eq!(unified(old, old, ("1.0.0", "1.1.0")), "");
    }

    #[test]
    fn a_diff_over_the_limit_is_a_replacement() {
        let lines = |range: Range<usize>, sign: &str| -> String {
            range.map(|n| format!("{sign}{n}\n")).collect()
        };
        let old = format!("top\n{}end", lines(0..20_001, ""));
        let new = format!("top\n{}end", lines(1..20_003, ""));
        // Line by line, one would be missing at the beginning and two would be new at the end.
        let expected = format!(
            "--- 1.0.0\n+++ 1.1.0\n@@ -1,20003 +1,20004 @@\n top\n{}{} end\n\\ No newline at end of \
             file\n",
            lines(0..20_001, "-"),
            lines(1..20_003, "+"),
        );
        assert_eq!(unified(&old, &new, ("1.0.0", "1.1.0")), expected);
        let short = unified(&old, &old.replace("\n7\n", "\nx\n"), ("1.0.0", "1.1.0"));
        assert_eq!(short.lines().count(), 11, "one change among many lines is compared");
    }

    #[test]
    fn hunks_equal_those_of_the_diff_library() {
        for (old, new) in [
            ("a\nb\nc\nd\ne\n", "a\nb\nx\nd\ne\n"),
            ("a\nb\nc\nd\ne\nf\ng\nh\ni", "a\nb\nc\nd\nx\ny\nf\ng\nh\ni"),
            ("", "a\nb"),
            ("a\n", ""),
            ("a", "a\n"),
            ("a\nb\n", "a\n"),
            ("1\n1\n1\n", "1\n1\n"),
        ] {
            let expected = TextDiff::from_lines(old, new)
                .unified_diff()
                .context_radius(CONTEXT_LINES)
                .header("1.0.0", "1.1.0")
                .to_string();
            assert_eq!(unified(old, new, ("1.0.0", "1.1.0")), expected, "{old:?} {new:?}");
            let changed = Changed::between(old, new);
            let mut one_hunk = "--- 1.0.0\n+++ 1.1.0\n".to_string();
            changed.write(&changed.as_one_hunk(), &mut one_hunk);
            assert_eq!(one_hunk, expected, "{old:?} {new:?}");
        }
    }

    #[test]
    fn only_a_line_feed_ends_a_line() {
        let expected = "--- 1.0.0\n+++ 1.1.0\n@@ -1,2 +1,2 @@\n-a\rb\n+a\rc\n d\r\n\\ No newline at \
                        end of file\n";
        assert_eq!(unified("a\rb\nd\r", "a\rc\nd\r", ("1.0.0", "1.1.0")), expected);
    }
}
