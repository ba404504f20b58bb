//! Text from glyphs: a file says where they stand, and nothing of words and lines.

use hayro_font::kurbo::{Point, Vec2};

/// A gap between two glyphs that is wider than this part of the font size is a blank. Letters of a word
/// are kerned and spaced by less; blanks are a quarter of the font size or wider.
const BLANK: f64 = 0.15;

/// A glyph that is farther from the line than this part of the font size, or as far before the end of
/// its text, begins another line. Raised and lowered characters and accents are nearer.
const ANOTHER_LINE: f64 = 0.8;

/// Two glyphs that are nearer to each other than this part of the font size are one, drawn twice.
const SAME_PLACE: f64 = 0.1;

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
}

/// The text of a page so far: complete lines, and one that is not.
#[derive(Default)]
pub struct Layout {
    text: String,
    /// Where the last line begins.
    line_at: usize,
    last: Option<Last>,
    /// In this line, letters that are read from right to left came in the order of their places.
    is_mirrored: bool,
}

/// The glyph before.
struct Last {
    start: Point,
    end: Point,
    direction: Vec2,
    size: f64,
    /// Where its text begins.
    at: usize,
}

/// What is between two glyphs.
enum Gap {
    None { is_forward: bool },
    Blank,
    Line,
}

impl Layout {
    /// The bytes of the text so far.
    pub fn len(&self) -> usize {
        self.text.len()
    }

    /// Adds a glyph.
    pub fn add(&mut self, glyph: &Placed) {
        if let Some(last) = &mut self.last {
            if glyph.text.is_empty() {
                last.end = glyph.end;
                return;
            }
            if last.is_same_place(glyph) && self.text[last.at..] == *glyph.text {
                return; // Bold type, made by drawing twice.
            }
            let before = self.text.chars().next_back();
            let is_rtl = before.is_some_and(is_rtl) && glyph.text.chars().any(is_rtl);
            match last.gap(glyph, is_rtl) {
                Gap::None { is_forward } => self.is_mirrored |= is_rtl && is_forward,
                Gap::Blank => self.add_blank(),
                Gap::Line => self.end_line(),
            }
        }
        let at = self.text.len();
        for c in glyph.text.chars() {
            if c.is_whitespace() { self.add_blank() } else { self.text.push(c) }
        }
        let Placed { start, end, direction, size, .. } = *glyph;
        self.last = Some(Last { start, end, direction, size, at });
    }

    fn add_blank(&mut self) {
        let line = &self.text[self.line_at..];
        if !line.is_empty() && !line.ends_with(' ') {
            self.text.push(' ');
        }
    }

    /// Ends the line, if one is begun.
    pub fn end_line(&mut self) {
        let mut line = self.text.split_off(self.line_at);
        line.truncate(line.trim_end().len());
        if std::mem::take(&mut self.is_mirrored) {
            line = mirrored(&line);
        }
        if !line.is_empty() {
            self.text.push_str(&line);
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
        if text.split_whitespace().all(|word| shown.contains(word)) {
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

    /// Of values that are no numbers each comparison is false: a line of its own.
    fn gap(&self, glyph: &Placed, is_rtl: bool) -> Gap {
        // Text of the size zero is at one place.
        let size = self.size.max(glyph.size).max(f64::MIN_POSITIVE);
        let step = glyph.start - self.end;
        let along = step.dot(self.direction) / size;
        let across = step.cross(self.direction) / size;
        let is_same_line = across.abs() < ANOTHER_LINE && glyph.direction.dot(self.direction) > 0.9;
        if !is_same_line {
            return Gap::Line;
        }
        let before = (self.start - glyph.end).dot(self.direction) / size;
        // The next letter stands to the left, in the order of reading.
        if is_rtl && along < 0.0 && before > -ANOTHER_LINE {
            return if before > BLANK { Gap::Blank } else { Gap::None { is_forward: false } };
        }
        if along < -ANOTHER_LINE {
            Gap::Line
        } else if along > BLANK {
            Gap::Blank
        } else {
            Gap::None { is_forward: true }
        }
    }
}

/// Whether a letter is read from right to left.
fn is_rtl(c: char) -> bool {
    let is_in_scripts =
        matches!(c, '\u{590}'..='\u{8ff}' | '\u{fb1d}'..='\u{fdff}' | '\u{fe70}'..='\u{fefc}');
    is_in_scripts && !c.is_numeric()
}

/// Returns a line in the order of reading, whose letters were in the order of their places.
fn mirrored(line: &str) -> String {
    let chars: Vec<char> = line.chars().collect();
    let (mut read, mut at) = (String::with_capacity(line.len()), 0);
    while at < chars.len() {
        let belongs = |c: &&char| is_rtl(**c) || !c.is_alphanumeric();
        let reach = chars[at..].iter().take_while(belongs).count();
        // As far as the last of these letters.
        match chars[at..at + reach].iter().rposition(|c| is_rtl(*c)) {
            Some(last) if is_rtl(chars[at]) => {
                read.extend(chars[at..=at + last].iter().rev());
                at += last + 1;
            }
            _ => {
                read.push(chars[at]);
                at += 1;
            }
        }
    }
    read
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
            layout.add(&Placed { text, start, end, direction, size: 10.0 });
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
        let with_latin = [("a", 0.0), (" ", 5.0), ("\u{5dd}", 10.0), ("\u{5d5}", 15.0)];
        assert_eq!(text(&with_latin), "a \u{5d5}\u{5dd}\n");
    }
}
