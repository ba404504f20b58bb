//! Letters that are spaced, as in headlines: the gaps between them are no blanks.

/// A gap between two glyphs that is wider than this part of the font size is a blank. Letters of a word
/// are kerned and spaced by less; blanks are 0.15 of the font size or wider, a quarter mostly.
pub const BLANK: f64 = 0.14;

/// Letters whose gaps are narrower than this part of the font size are not spaced.
const MIN_GAP: f64 = 0.06;

/// The gap of most letters is wider than this where they are spaced so far that gaps look like blanks.
const MIN_SPACED: f64 = 0.12;

/// It is not wider than this: single letters that are farther apart may stand in columns.
const MAX_SPACED: f64 = 0.4;

/// The same where the file says how far it sets them apart.
const MAX_SAID: f64 = 0.5;

/// The same where gaps between words of some letters show which is which.
const MAX_SPACED_WORDS: f64 = 1.0;

/// Gaps that differ by less are the same: letters are kerned.
const SAME: f64 = 0.08;

/// Fewer gaps say nothing.
const MIN_GAPS: usize = 4;

/// The same where the file says how far it sets them apart.
const MIN_GAPS_SAID: usize = 2;

/// A part of a line: a glyph, or a blank between two.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// Where its text begins.
    pub at: usize,
    pub kind: Kind,
}

/// What a part of a line is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    Glyph {
        /// How far it is from the end of the one before, in font sizes.
        gap: f64,
        /// How far of it the file sets them apart, other than by their places.
        spacing: f64,
        sign: Sign,
    },
    /// A blank that the file has as a character.
    Written,
    /// A gap that looks like a blank.
    Gap,
}

/// What a glyph stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sign {
    /// A single one.
    Letter,
    /// A single one.
    Digit,
    Other,
}

impl Sign {
    /// Returns what a glyph with this text stands for.
    pub fn of(text: &str) -> Self {
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(c), None) if c.is_alphabetic() => Sign::Letter,
            (Some(c), None) if c.is_numeric() => Sign::Digit,
            _ => Sign::Other,
        }
    }
}

/// A glyph, and how it follows the one before.
struct Glyph {
    /// None if a blank is written between them.
    gap: Option<f64>,
    spacing: f64,
    sign: Sign,
    /// The part that is a blank before it, but only a gap.
    blank: Option<usize>,
}

/// Returns which parts of a line are gaps within words of spaced letters, ascending.
pub fn within_words(parts: &[Part]) -> Vec<usize> {
    if parts.iter().all(|part| part.kind != Kind::Gap) {
        return Vec::new();
    }
    let glyphs = glyphs(parts);
    let mut found: Vec<usize> =
        glyphs.chunk_by(|one, next| is_same(one.spacing, next.spacing)).flat_map(of_said).collect();
    let is_apart = |_: &Glyph, next: &Glyph| next.gap.is_none_or(|gap| gap >= MIN_GAP);
    let mut first = 0;
    for run in glyphs.chunk_by(is_apart) {
        let are_ends = (first == 0, first + run.len() == glyphs.len());
        found.extend(of_run(run, are_ends).unwrap_or_default());
        first += run.len();
    }
    found.sort_unstable();
    found.dedup();
    found
}

/// Whether the file sets glyphs apart by the same.
fn is_same(one: f64, other: f64) -> bool {
    (one - other).abs() < 0.001
}

/// Returns the gaps within words of glyphs that the file sets apart by the same, unless it moves some of them
/// back: some programs set glyphs apart by a blank and move back those that follow without one.
fn of_said(run: &[Glyph]) -> Vec<usize> {
    let spacing = run.first().map_or(0.0, |glyph| glyph.spacing);
    let gaps: Vec<f64> = run.iter().filter_map(|glyph| glyph.gap).collect();
    let as_said = gaps.iter().filter(|gap| (**gap - spacing).abs() <= SAME).count();
    let moved_back = gaps.iter().filter(|gap| **gap < spacing - SAME).count();
    let most = if are_letters(run) { MAX_SPACED_WORDS } else { MAX_SAID };
    if !(MIN_GAP..=most).contains(&spacing)
        || as_said < MIN_GAPS_SAID
        || moved_back * 8 > gaps.len()
        || !are(run, |sign| sign != Sign::Other)
    {
        return Vec::new();
    }
    let is_in_word = |glyph: &&Glyph| glyph.gap.is_some_and(|gap| gap <= spacing + BLANK);
    run.iter().filter(is_in_word).filter_map(|glyph| glyph.blank).collect()
}

/// Whether four of five glyphs are letters, or what else counts.
fn are(run: &[Glyph], is: impl Fn(Sign) -> bool) -> bool {
    run.iter().filter(|glyph| is(glyph.sign)).count() * 5 >= run.len() * 4
}

fn are_letters(run: &[Glyph]) -> bool {
    are(run, |sign| sign == Sign::Letter)
}

fn glyphs(parts: &[Part]) -> Vec<Glyph> {
    let (mut glyphs, mut blank) = (Vec::new(), None);
    for (index, part) in parts.iter().enumerate() {
        match part.kind {
            Kind::Glyph { gap, spacing, sign } => {
                let is_written = matches!(blank, Some((_, Kind::Written)));
                let gap = (!is_written).then_some(gap);
                let only_gap = blank.take().filter(|_| !is_written).map(|(index, _)| index);
                glyphs.push(Glyph { gap, spacing, sign, blank: only_gap });
            }
            kind => blank = Some((index, kind)),
        }
    }
    glyphs
}

/// Returns the gaps within words of a run of glyphs that all stand apart. `None` if it is none of spaced
/// letters. A run that does not begin or end with its line begins or ends in another word.
fn of_run(run: &[Glyph], (is_begin, is_end): (bool, bool)) -> Option<Vec<usize>> {
    let usual = median(run.iter().skip(1).filter_map(|glyph| glyph.gap).collect())?;
    let is_in_word = |glyph: &Glyph| glyph.gap.is_some_and(|gap| gap <= usual + BLANK);
    let mut run = run;
    if !is_begin {
        // The first glyph is of a word that is not spaced; so must what follows it be apart.
        run = run.get(1..).filter(|run| run.first().is_some_and(|glyph| !is_in_word(glyph)))?;
    }
    if !is_end {
        let (last, others) = run.split_last()?;
        run = Some(others).filter(|_| !is_in_word(last))?;
    }
    let rest = run.get(1..)?;
    let in_words: Vec<&Glyph> = rest.iter().filter(|glyph| is_in_word(glyph)).collect();
    let words = 1 + rest.len() - in_words.len();
    let is_usual = |glyph: &&&Glyph| glyph.gap.is_some_and(|gap| (gap - usual).abs() <= SAME);
    let usuals = in_words.iter().filter(is_usual).count();
    let most = if words > 1 && run.len() >= 4 * words { MAX_SPACED_WORDS } else { MAX_SPACED };
    let are_spaced = (MIN_SPACED..=most).contains(&usual)
        && in_words.len() >= MIN_GAPS
        && usuals * 5 >= in_words.len() * 4
        && are_letters(run)
        && run.len() >= 3 * words;
    are_spaced.then(|| in_words.iter().filter_map(|glyph| glyph.blank).collect())
}

fn median(mut numbers: Vec<f64>) -> Option<f64> {
    let middle = numbers.len().checked_sub(1)? / 2;
    Some(*numbers.select_nth_unstable_by(middle, f64::total_cmp).1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The text of glyphs, each with the gap before it in hundredths; `_` is a blank that is written.
    fn read(glyphs: &[(char, u32)]) -> String {
        read_as_said(glyphs, 0.0)
    }

    /// The same of glyphs that the file sets apart.
    fn read_as_said(glyphs: &[(char, u32)], spacing: f64) -> String {
        let (mut parts, mut text) = (Vec::new(), String::new());
        for (c, gap) in glyphs {
            let gap = f64::from(*gap) / 100.0;
            let blank = if *c == '_' { Some(Kind::Written) } else { None };
            if let Some(kind) = blank.or((gap > BLANK && !text.ends_with(' ')).then_some(Kind::Gap))
            {
                parts.push(Part { at: text.len(), kind });
                text.push(' ');
            }
            if *c != '_' {
                let sign = Sign::of(&c.to_string());
                let spacing = if parts.is_empty() { 0.0 } else { spacing };
                let kind = Kind::Glyph { gap, spacing, sign };
                parts.push(Part { at: text.len(), kind });
                text.push(*c);
            }
        }
        for index in within_words(&parts).into_iter().rev() {
            text.remove(parts[index].at);
        }
        text
    }

    /// Letters with this gap between them, and blanks with another.
    fn spaced(text: &str, gap: u32, blank: u32) -> Vec<(char, u32)> {
        let (mut glyphs, mut next) = (Vec::new(), 0);
        for c in text.chars() {
            if c == ' ' {
                next = blank;
            } else {
                glyphs.push((c, next));
                next = gap;
            }
        }
        glyphs
    }

    #[test]
    fn spaced_letters_are_words_and_wider_gaps_blanks() {
        for (text, gap, blank) in [
            ("SPACED HEADLINE", 25, 78),
            ("SPACED HEADLINE", 15, 45),
            ("SPACED HEADLINE", 90, 140),
            ("CONTENTS", 38, 0),
            ("A SPACED HEADLINE 7", 25, 78),
        ] {
            assert_eq!(read(&spaced(text, gap, blank)), text, "{gap}");
        }
        let written = spaced("SPACED_HEADLINE", 25, 0);
        assert_eq!(read(&written), "SPACED HEADLINE");
        // Kerned, in a line with other text.
        let kerned = [spaced("as ", 0, 0), spaced("e", 0, 0)].concat();
        assert_eq!(read(&kerned), "ase");
        let mut line = spaced("this", 0, 0);
        line.extend([('e', 50), ('m', 25), ('p', 27), ('h', 21), ('a', 25), ('s', 26), ('t', 50)]);
        line.extend(spaced("ext", 0, 0).iter().map(|(c, _)| (*c, 0)));
        assert_eq!(read(&line), "this emphas text");
    }

    #[test]
    fn single_letters_that_may_be_words_stay_apart() {
        for glyphs in [
            // Too few, too far apart, no letters, single letters between wider gaps, not uniform.
            spaced("ABCD", 33, 0),
            spaced("ABCDEFG", 50, 0),
            spaced("1234567", 33, 0),
            spaced("a+b=c+d=e", 25, 0),
            spaced("AB CD EF GH", 40, 120),
            vec![('a', 0), ('b', 20), ('c', 45), ('d', 20), ('e', 45), ('f', 33), ('g', 60)],
            // With words whose blanks are no wider.
            [spaced("to", 0, 0), vec![('A', 33), ('B', 33), ('C', 33), ('D', 33), ('E', 33)]]
                .concat(),
            [vec![('A', 0), ('B', 33), ('C', 33), ('D', 33), ('E', 33), ('t', 33), ('o', 0)]]
                .concat(),
            // Text that is hardly spaced, with narrow blanks.
            spaced("now we are set", 8, 18),
        ] {
            let apart: String = glyphs
                .iter()
                .enumerate()
                .map(|(n, (c, gap))| match gap {
                    15.. if n > 0 => format!(" {c}"),
                    _ => c.to_string(),
                })
                .collect();
            assert_eq!(read(&glyphs), apart);
        }
        assert_eq!(read(&"A_B_C_D_E_F".chars().map(|c| (c, 0)).collect::<Vec<_>>()), "A B C D E F");
        assert!(within_words(&[]).is_empty());
    }

    #[test]
    fn glyphs_that_the_file_sets_apart_are_words_if_they_stand_so() {
        assert_eq!(read_as_said(&spaced("NOTE 12", 20, 50), 0.2), "NOTE 12");
        assert_eq!(read_as_said(&spaced("NOTE IN LETTERS", 90, 140), 0.9), "NOTE IN LETTERS");
        // Columns, a single one, and all but one moved back.
        assert_eq!(read_as_said(&spaced("1230", 60, 0), 0.6), "1 2 3 0");
        assert_eq!(read_as_said(&spaced("OK", 20, 0), 0.2), "O K");
        assert_eq!(read_as_said(&spaced("...A", 30, 0), 0.3), ". . . A");
        assert_eq!(read_as_said(&[('S', 0), ('a', 30), ('s', 0), ('p', 30)], 0.3), "S as p");
        let moved = [vec![('A', 0), ('s', 38)], spaced("ection", 0, 0)].concat();
        assert_eq!(read_as_said(&moved, 0.38), "A section");
    }
}
