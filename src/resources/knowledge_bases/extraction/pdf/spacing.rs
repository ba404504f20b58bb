//! Letters that are spaced, as in headlines: the gaps between them are no blanks.

/// A gap between two glyphs that is wider than this part of the font size is a blank. Letters of a word
/// are kerned and spaced by less; blanks are 0.15 of the font size or wider, a quarter mostly.
pub const BLANK: f64 = 0.14;

/// Letters whose gaps are narrower than this part of the font size are not spaced.
const MIN_GAP: f64 = 0.06;

/// The gap of most letters is wider than this where they are spaced so far that gaps look like blanks.
const MIN_SPACED: f64 = 0.12;

/// It is not wider than this: single letters that are farther apart may stand in columns.
const MAX_SPACED: f64 = 0.5;

/// The same where gaps between words of some letters show which is which.
const MAX_SPACED_WORDS: f64 = 1.0;

/// Gaps that differ by less are the same: letters are kerned.
const SAME: f64 = 0.08;

/// Fewer gaps say nothing.
const MIN_GAPS: usize = 4;

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
        /// Whether it is a single letter.
        is_letter: bool,
    },
    /// A blank that the file has as a character.
    Written,
    /// A gap that looks like a blank.
    Gap,
}

/// What is between two glyphs.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Between {
    Written,
    /// A gap, or none.
    Gap(f64),
}

/// A glyph, and what is between it and the one before.
struct Glyph {
    before: Between,
    is_letter: bool,
    /// The part that is a blank before it, but only a gap.
    blank: Option<usize>,
}

/// Returns which parts of a line are gaps within words of spaced letters, ascending.
pub fn within_words(parts: &[Part]) -> Vec<usize> {
    let gaps = parts.iter().filter(|part| part.kind == Kind::Gap).count();
    if gaps < MIN_GAPS {
        return Vec::new();
    }
    let glyphs = glyphs(parts);
    let is_apart = |glyph: &Glyph| match glyph.before {
        Between::Written => true,
        Between::Gap(gap) => gap >= MIN_GAP,
    };
    let (mut found, mut first) = (Vec::new(), 0);
    while first < glyphs.len() {
        let more = glyphs[first + 1..].iter().take_while(|glyph| is_apart(glyph)).count();
        let end = first + 1 + more;
        let are_ends = (first == 0, end == glyphs.len());
        found.extend(of_run(&glyphs[first..end], are_ends).unwrap_or_default());
        first = end;
    }
    found
}

fn glyphs(parts: &[Part]) -> Vec<Glyph> {
    let (mut glyphs, mut blank) = (Vec::new(), None);
    for (index, part) in parts.iter().enumerate() {
        match part.kind {
            Kind::Glyph { gap, is_letter } => {
                let is_written = blank == Some((index.wrapping_sub(1), Kind::Written));
                let before = if is_written { Between::Written } else { Between::Gap(gap) };
                let only_gap = blank.filter(|_| !is_written).map(|(index, _)| index);
                glyphs.push(Glyph { before, is_letter, blank: only_gap });
                blank = None;
            }
            kind => blank = Some((index, kind)),
        }
    }
    glyphs
}

/// Returns the gaps within words of a run of glyphs that all stand apart. `None` if it is none of spaced
/// letters. A run that does not begin or end with its line begins or ends in another word.
fn of_run(run: &[Glyph], (is_begin, is_end): (bool, bool)) -> Option<Vec<usize>> {
    let gaps = run.iter().skip(1).filter_map(|glyph| match glyph.before {
        Between::Gap(gap) => Some(gap),
        Between::Written => None,
    });
    let usual = median(gaps.collect())?;
    let is_in_word = |glyph: &Glyph| match glyph.before {
        Between::Gap(gap) => gap <= usual + BLANK,
        Between::Written => false,
    };
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
    let is_usual =
        |glyph: &&&Glyph| matches!(glyph.before, Between::Gap(gap) if (gap - usual).abs() <= SAME);
    let usuals = in_words.iter().filter(is_usual).count();
    let letters = run.iter().filter(|glyph| glyph.is_letter).count();
    let most = if words > 1 && run.len() >= 4 * words { MAX_SPACED_WORDS } else { MAX_SPACED };
    let are_spaced = (MIN_SPACED..=most).contains(&usual)
        && in_words.len() >= MIN_GAPS
        && usuals * 5 >= in_words.len() * 4
        && letters * 5 >= run.len() * 4
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
                let kind = Kind::Glyph { gap, is_letter: c.is_alphabetic() };
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
            ("CONTENTS", 40, 0),
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
            spaced("ABCDEFG", 60, 0),
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
        assert_eq!(within_words(&[]), []);
    }
}
