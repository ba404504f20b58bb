//! Text from glyphs: a file says where they stand, and nothing of words and lines.

use hayro_font::kurbo::{Point, Vec2};

use super::spacing::{BLANK, Kind, Part, Sign, within_words};

/// A glyph that is farther from the line than this part of the font size, or as far before the end of
/// its text, begins another line. Raised and lowered characters and accents are nearer.
const ANOTHER_LINE: f64 = 0.8;

/// Two glyphs that are nearer to each other than this part of the font size are one, drawn twice.
const SAME_PLACE: f64 = 0.1;

/// An accent whose place is within this part of the font size of its letter belongs to it.
const NEAR: f64 = 1.5;

/// The longest text of a field or note that is compared with what is drawn of it.
const MAX_COMPARED_BYTES: usize = 64 * 1024;

/// A line of so many glyphs ends at its next blank, and one of twice as many in any case: where its words are
/// takes some hundred bytes for each glyph, and a page may be one line of millions.
const LONG_LINE: usize = 64 * 1024;

/// A drawn glyph: what it stands for, and where it is on the page.
pub struct Placed<'a> {
    /// Empty if it belongs to the text of the glyph before it.
    pub text: &'a str,
    pub start: Point,
    /// Where the next glyph would follow without a gap.
    pub end: Point,
    /// Where the text runs to: a unit vector.
    pub direction: Vec2,
    /// The font size on the page.
    pub size: f64,
    /// How far the file sets its glyphs apart, other than their widths say.
    pub spacing: f64,
}

/// The text of a page so far: complete lines, and one that is not.
#[derive(Default)]
pub struct Layout {
    text: String,
    /// Where the last line begins.
    line_at: usize,
    /// Its glyphs, accents with their letters, and its blanks.
    parts: Vec<Part>,
    last: Option<Last>,
    /// Of letters that are read from right to left, how many more came in the order of their places than in
    /// that of reading.
    by_place: i32,
}

/// The glyph before.
struct Last {
    start: Point,
    end: Point,
    direction: Vec2,
    size: f64,
    spacing: f64,
    /// Where its text begins.
    at: usize,
}

/// How a glyph follows another one on a line.
struct Step {
    /// How far they are apart, in font sizes.
    gap: f64,
    /// How far of it the file sets them apart.
    spacing: f64,
    is_forward: bool,
}

impl Layout {
    /// The bytes of the text so far.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a glyph.
    pub fn add(&mut self, glyph: &Placed) {
        let (mut gap, mut spacing) = (0.0, 0.0);
        if let Some(last) = &mut self.last {
            if glyph.text.is_empty() {
                last.end = glyph.end;
                return;
            }
            if last.is_same_place(glyph) && self.text[last.at..] == *glyph.text {
                return; // Bold type, made by drawing twice.
            }
            // A point of Hebrew or Arabic stands in its letter.
            if glyph.text.chars().all(is_mark) && last.is_near(glyph) {
                self.text.push_str(glyph.text);
                return;
            }
            let (before, now) = (Script::of(&self.text[last.at..]), Script::of(glyph.text));
            let are_rtl = before == Script::RightToLeft && now == Script::RightToLeft;
            // Blanks and numbers between such letters go along with them.
            let is_within =
                self.by_place < 0 && (before, now) != (Script::LeftToRight, Script::LeftToRight);
            match last.step(glyph, are_rtl || is_within) {
                Some(step) => {
                    (gap, spacing) = (step.gap, step.spacing);
                    if gap > BLANK {
                        self.add_blank(Kind::Gap);
                    } else if are_rtl {
                        self.by_place += if step.is_forward { 1 } else { -1 };
                    }
                }
                None => self.end_line(),
            }
        }
        if self.is_long() {
            self.end_line();
            (gap, spacing) = (0.0, 0.0);
        }
        let at = self.text.len();
        let sign = Sign::of(glyph.text);
        for c in glyph.text.chars() {
            if c.is_whitespace() {
                self.add_blank(Kind::Written);
            } else {
                if self.text.len() == at {
                    self.parts.push(Part { at, kind: Kind::Glyph { gap, spacing, sign } });
                }
                self.text.push(c);
            }
        }
        let Placed { start, end, direction, size, spacing, .. } = *glyph;
        self.last = Some(Last { start, end, direction, size, spacing, at });
    }

    /// Whether the line is long enough to end here.
    fn is_long(&self) -> bool {
        let glyphs = self.parts.len();
        glyphs >= LONG_LINE && (self.text.ends_with(' ') || glyphs >= 2 * LONG_LINE)
    }

    fn add_blank(&mut self, kind: Kind) {
        let line = &self.text[self.line_at..];
        if line.is_empty() {
            return;
        }
        if !line.ends_with(' ') {
            self.parts.push(Part { at: self.text.len(), kind });
            self.text.push(' ');
        } else if let Some(Part { kind: before @ Kind::Gap, .. }) = self.parts.last_mut() {
            *before = kind;
        }
    }

    /// Ends the line, if one is begun.
    pub fn end_line(&mut self) {
        let mut line = self.text.split_off(self.line_at);
        let mut glyphs: Vec<usize> = self.parts.iter().map(|part| part.at - self.line_at).collect();
        let gaps = within_words(&std::mem::take(&mut self.parts));
        if !gaps.is_empty() {
            (line, glyphs) = without(&line, &glyphs, &gaps);
        }
        if std::mem::take(&mut self.by_place) > 0 {
            line = in_order_of_reading(&line, &glyphs);
        }
        let line = line.trim();
        if !line.is_empty() {
            self.text.push_str(line);
            self.text.push('\n');
        }
        self.line_at = self.text.len();
        self.last = None;
    }

    /// Adds lines of a text that has no place on the page, unless its words were added since the text
    /// had this length.
    pub fn add_lines(&mut self, text: &str, since: usize) {
        self.end_line();
        let shown = self.text.get(since..).unwrap_or_default();
        // A longer text is compared with nothing: that would take long.
        let is_short = text.len() < MAX_COMPARED_BYTES && shown.len() < MAX_COMPARED_BYTES;
        if is_short && text.split_whitespace().all(|word| shown.contains(word)) {
            return;
        }
        for line in text.split(['\n', '\r']).map(str::trim).filter(|line| !line.is_empty()) {
            self.text.push_str(line);
            self.text.push('\n');
        }
        self.line_at = self.text.len();
    }

    /// Returns the lines.
    pub fn finished(mut self) -> String {
        self.end_line();
        self.text
    }
}

impl Last {
    fn is_same_place(&self, glyph: &Placed) -> bool {
        let reach = SAME_PLACE * self.size;
        (glyph.start - self.start).hypot() < reach && (glyph.end - self.end).hypot() < reach
    }

    fn is_near(&self, glyph: &Placed) -> bool {
        let reach = NEAR * self.size;
        (glyph.start - self.start).hypot() < reach || (glyph.start - self.end).hypot() < reach
    }

    /// Returns how a glyph follows, unless it begins another line. Of values that are no numbers each
    /// comparison is false: a line of its own.
    fn step(&self, glyph: &Placed, is_rtl: bool) -> Option<Step> {
        // Text of the size zero is at one place.
        let size = self.size.max(glyph.size).max(f64::MIN_POSITIVE);
        let step = glyph.start - self.end;
        let along = step.dot(self.direction) / size;
        let across = step.cross(self.direction) / size;
        let is_same_line = across.abs() < ANOTHER_LINE && glyph.direction.dot(self.direction) > 0.9;
        if !is_same_line {
            return None;
        }
        let before = (self.start - glyph.end).dot(self.direction) / size;
        // The next letter stands to the left, in the order of reading.
        if is_rtl && along < 0.0 && before > -ANOTHER_LINE {
            return Some(Step { gap: before, spacing: 0.0, is_forward: false });
        }
        let spacing = self.spacing / size;
        if along < -ANOTHER_LINE {
            None
        } else {
            Some(Step { gap: along, spacing, is_forward: true })
        }
    }
}

/// Returns a line without some of its parts, which are blanks, and where the others begin.
fn without(line: &str, parts: &[usize], left_out: &[usize]) -> (String, Vec<usize>) {
    let (mut kept, mut begins) = (String::with_capacity(line.len()), Vec::new());
    let mut left_out = left_out.iter().peekable();
    for (index, at) in parts.iter().enumerate() {
        if left_out.next_if_eq(&&index).is_some() {
            continue;
        }
        let end = parts.get(index + 1).copied().unwrap_or(line.len());
        begins.push(kept.len());
        kept.push_str(line.get(*at..end).unwrap_or_default());
    }
    (kept, begins)
}

/// Whether a letter is read from right to left.
fn is_rtl(c: char) -> bool {
    let is_in_scripts =
        matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}');
    is_in_scripts && !c.is_numeric()
}

/// Whether it is a point of Hebrew or Arabic, which stands above or below a letter.
fn is_mark(c: char) -> bool {
    matches!(c, '\u{591}'..='\u{5bd}' | '\u{5bf}' | '\u{5c1}'..='\u{5c2}' | '\u{5c4}'..='\u{5c5}' | '\u{5c7}'
        | '\u{610}'..='\u{61a}' | '\u{64b}'..='\u{65f}' | '\u{670}' | '\u{6d6}'..='\u{6dc}')
}

/// How a text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Script {
    LeftToRight,
    RightToLeft,
    /// As what is around it.
    Neutral,
}

impl Script {
    fn of(text: &str) -> Self {
        if text.chars().any(is_rtl) {
            Script::RightToLeft
        } else if text.chars().any(char::is_alphanumeric) {
            Script::LeftToRight
        } else {
            Script::Neutral
        }
    }
}

/// Returns a line in the order of reading whose letters, read from right to left, were in the order of their
/// places. `glyphs` are where its glyphs begin.
fn in_order_of_reading(line: &str, glyphs: &[usize]) -> String {
    let ends = glyphs.iter().skip(1).copied().chain([line.len()]);
    let parts = glyphs.iter().zip(ends).filter_map(|(at, end)| line.get(*at..end));
    let mut parts: Vec<(&str, Script)> = parts.map(|part| (part, Script::of(part))).collect();
    let count = |script| parts.iter().filter(|(_, of)| *of == script).count();
    if count(Script::RightToLeft) > count(Script::LeftToRight) {
        parts.reverse();
        reverse_runs(&mut parts, Script::LeftToRight);
    } else {
        reverse_runs(&mut parts, Script::RightToLeft);
    }
    let read: String = parts.iter().map(|(part, _)| *part).collect();
    if read.len() == line.len() { read } else { line.to_string() }
}

/// Reverses each run of a script, with what is neutral within it.
fn reverse_runs(parts: &mut [(&str, Script)], script: Script) {
    let mut at = 0;
    while at < parts.len() {
        if parts[at].1 != script {
            at += 1;
            continue;
        }
        let belongs = |(_, of): &&(&str, Script)| *of == script || *of == Script::Neutral;
        let reach = parts[at..].iter().take_while(belongs).count();
        let last = parts[at..at + reach].iter().rposition(|(_, of)| *of == script).unwrap_or(0);
        parts[at..=at + last].reverse();
        at += reach;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Glyphs of the size 10 and the width 5, each at a distance from the first.
    fn text(glyphs: &[(&str, f64)]) -> String {
        let mut layout = Layout::default();
        for (text, x) in glyphs {
            let (start, end) = (Point::new(*x, 0.0), Point::new(x + 5.0, 0.0));
            let direction = Vec2::new(1.0, 0.0);
            layout.add(&Placed { text, start, end, direction, size: 10.0, spacing: 0.0 });
        }
        layout.finished()
    }

    #[test]
    fn gaps_are_blanks_and_steps_back_are_lines() {
        assert_eq!(text(&[("a", 0.0), ("b", 5.0), ("c", 11.0), ("d", 18.0)]), "abc d\n");
        assert_eq!(text(&[("a", 0.0), (" ", 5.0), ("b", 12.0)]), "a b\n");
        assert_eq!(text(&[("a", 0.0), ("b", 5.0), ("c", 0.0)]), "ab\nc\n");
        assert_eq!(text(&[("a", f64::NAN), ("b", 5.0)]), "a\nb\n");
    }

    #[test]
    fn a_long_line_ends_at_a_blank_and_keeps_its_words() {
        let placed = |glyphs: &'static [&'static str]| -> Vec<(&'static str, f64)> {
            glyphs
                .iter()
                .cycle()
                .zip(0..2_000_000)
                .map(|(glyph, n)| (*glyph, f64::from(n) * 5.0))
                .collect()
        };
        let words = text(&placed(&["a", "b", "c", "d", " "]));
        let lines: Vec<&str> = words.lines().collect();
        assert!(lines.len() > 20 && lines.iter().all(|line| line.len() <= LONG_LINE + 5));
        assert!(words.split_whitespace().all(|word| word == "abcd"));
        assert_eq!(words.split_whitespace().count(), 400_000);
        let without_blanks = text(&placed(&["a"]));
        assert!(without_blanks.lines().all(|line| line.len() <= 2 * LONG_LINE));
        assert_eq!(without_blanks.replace('\n', "").len(), 2_000_000);
        // In the order of reading, too.
        let hebrew = text(&placed(&["\u{5d0}", "\u{5d1}", " "]));
        assert!(hebrew.split_whitespace().all(|word| word == "\u{5d1}\u{5d0}"));
    }

    #[test]
    fn a_glyph_drawn_twice_is_one() {
        assert_eq!(text(&[("l", 0.0), ("l", 0.3), ("l", 5.0), ("a", 10.0)]), "lla\n");
    }

    #[test]
    fn letters_read_from_right_to_left_are_in_the_order_of_reading() {
        let shalom = "\u{5e9}\u{5dc}\u{5d5}\u{5dd}";
        let by_place = [("\u{5dd}", 0.0), ("\u{5d5}", 5.0), ("\u{5dc}", 10.0), ("\u{5e9}", 15.0)];
        assert_eq!(text(&by_place), format!("{shalom}\n"));
        let by_reading = [("\u{5e9}", 15.0), ("\u{5dc}", 10.0), ("\u{5d5}", 5.0), ("\u{5dd}", 0.0)];
        assert_eq!(text(&by_reading), format!("{shalom}\n"));
        let with_latin =
            [("a", 0.0), ("b", 5.0), (" ", 10.0), ("\u{5dd}", 15.0), ("\u{5d5}", 20.0)];
        assert_eq!(text(&with_latin), "ab \u{5d5}\u{5dd}\n");
    }

    #[test]
    fn numbers_ligatures_and_points_between_letters_read_from_right_to_left_keep_their_order() {
        let placed = |glyphs: &[&'static str]| -> Vec<(&'static str, f64)> {
            glyphs.iter().zip(0..).map(|(glyph, n)| (*glyph, f64::from(n) * 5.0)).collect()
        };
        // Drawn from left to right: shin lamed, 123, gimel bet, with a ligature of two letters.
        let drawn =
            placed(&["\u{5d1}", "\u{5d2}", " ", "1", "2", "3", " ", "\u{644}\u{627}", "\u{5e9}"]);
        assert_eq!(text(&drawn), "\u{5e9}\u{644}\u{627} 123 \u{5d2}\u{5d1}\n");
        // Drawn in the order of reading, with blanks and a number.
        let read = [
            ("\u{5e9}", 40.0),
            ("\u{5dc}", 35.0),
            ("\u{5b8}", 36.0),
            (" ", 30.0),
            ("1", 20.0),
            ("2", 25.0),
            (" ", 15.0),
            ("\u{5d2}", 10.0),
            ("\u{5d1}", 5.0),
        ];
        assert_eq!(text(&read), "\u{5e9}\u{5dc}\u{5b8} 12 \u{5d2}\u{5d1}\n");
    }
}
