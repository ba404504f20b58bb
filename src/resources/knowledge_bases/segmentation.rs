//! Where the words of a text are.
//!
//! Words are those of Unicode (UAX #29), cut at punctuation within them, as in `example.com`. It takes
//! signs for letters and digits (`㎏`, `₂`, `№`) for no part of a word, and so a character that shows
//! nothing, if a line may end at it. They are read as what they stand for before words are cut, so that
//! `CO₂` is the word `CO2`. What it was without that are the pieces of a word: a footnote's `word¹` is
//! looked for as `word`, too.

use std::borrow::Cow;

use unicode_normalization::char::decompose_compatible;
use unicode_segmentation::UnicodeSegmentation as _;

use crate::base::{fold, is_ignorable};

/// Signs are read as what they stand for in 4 KiB of letters at a time, which are some 50 KiB then: a
/// longer word that has one is cut there.
const MAX_RUN_BYTES: usize = 4 * 1024;

/// Read in place of what shows nothing and would end a word: it shows nothing, and does not.
const WORD_JOINER: char = '\u{2060}';

/// Is in what a fraction stands for.
const FRACTION_SLASH: char = '\u{2044}';

/// A word in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Where it begins, in bytes.
    pub at: usize,
    /// Where it ends. One sign may be several words, which begin and end with it.
    pub end: usize,
    /// As it is written, with what signs stand for in place of them.
    pub written: Cow<'a, str>,
    /// The words that are there if signs are not read so; none if that is the same.
    pub pieces: Vec<Piece<'a>>,
}

/// A part of a word, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Where it begins in the text, in bytes.
    pub at: usize,
    pub written: &'a str,
}

impl Piece<'_> {
    /// Where it ends in the text.
    pub fn end(&self) -> usize {
        self.at + self.written.len()
    }
}

/// Returns the words of a text in their order.
pub fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    let mut at = 0;
    let runs = std::iter::from_fn(move || {
        let run = Run::first(text, at)?;
        at = run.at + run.text.len();
        Some(run)
    });
    runs.flat_map(Run::words)
}

/// Letters, digits, their marks, and signs for them, between others.
struct Run<'a> {
    at: usize,
    text: &'a str,
    has_signs: bool,
}

impl<'a> Run<'a> {
    /// Returns the first run of a text from an offset on.
    fn first(text: &'a str, from: usize) -> Option<Self> {
        let rest = &text[from..];
        let (mut start, mut has_signs) = (None, false);
        for (at, c) in rest.char_indices() {
            let is_sign = is_sign(c);
            // Marks are read with what is before them.
            let next = rest[at + c.len_utf8()..].chars().next();
            let is_between = !is_sign && is_cut(c) && !next.is_some_and(is_mark);
            let begin = start.filter(|start| {
                at - start >= MAX_RUN_BYTES && (has_signs || is_sign) || is_between
            });
            if let Some(begin) = begin {
                return Some(Run { at: from + begin, text: &rest[begin..at], has_signs });
            }
            if start.is_none() && !is_between {
                start = Some(at);
            }
            has_signs |= is_sign;
        }
        let begin = start?;
        Some(Run { at: from + begin, text: &rest[begin..], has_signs })
    }

    fn words(self) -> impl Iterator<Item = Word<'a>> {
        let Run { at, text, has_signs } = self;
        let read = if has_signs { read(at, text) } else { Vec::new() };
        let plain = if has_signs { "" } else { text };
        let as_it_is = cut(plain).map(move |(start, written)| Word {
            at: at + start,
            end: at + start + written.len(),
            written: written.into(),
            pieces: Vec::new(),
        });
        as_it_is.chain(read)
    }
}

/// Returns the words of a text, and where they begin.
fn cut(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.unicode_word_indices().flat_map(|(start, found)| {
        let is_seen = |c: char| c.is_alphanumeric() && !is_ignorable(c);
        let parts = found.split(is_cut).filter(move |part| part.contains(is_seen));
        parts.map(move |part| (start + (part.as_ptr() as usize - found.as_ptr() as usize), part))
    })
}

/// Whether a character is neither a letter, a digit nor a mark of one: in the middle of a word it is
/// punctuation.
pub fn is_cut(c: char) -> bool {
    if c.is_ascii() { !c.is_ascii_alphanumeric() } else { !c.is_alphanumeric() && !is_mark(c) }
}

/// Whether a character belongs to the one before it.
pub fn is_mark(c: char) -> bool {
    c > '\u{a0}' && (unicode_normalization::char::is_combining_mark(c) || is_ignorable(c))
}

// ── Signs ────────────────────────────────────────────────────────────────────

/// Whether a character is read as another one, or others: it stands for letters or digits, and is no
/// letter, or it shows nothing and would end a word.
fn is_sign(c: char) -> bool {
    // Most of many texts, for which the tables of Unicode need not be asked.
    let is_other = matches!(c, '\0'..='\u{b1}' | '\u{bf}'..='\u{52f}' | '\u{590}'..='\u{114f}'
        | '\u{2000}'..='\u{200a}' | '\u{200c}'..='\u{205f}' | '\u{3000}'..='\u{3030}' | '\u{3041}'..='\u{3130}'
        | '\u{4dc0}'..='\u{d7ff}');
    !is_other && (is_separating(c) || !is_letter(c) && has_plain(c))
}

/// Whether a character is a letter, or a digit that UAX #29 takes for one: of full width, a Roman number,
/// in the alphabets of mathematics.
fn is_letter(c: char) -> bool {
    c.is_alphabetic() && !c.is_numeric()
        || matches!(c, '\u{2160}'..='\u{217f}' | '\u{ff10}'..='\u{ff19}' | '\u{1d7ce}'..='\u{1d7ff}')
}

/// Whether a character stands for letters or digits that are others.
fn has_plain(c: char) -> bool {
    let mut has_plain = false;
    decompose_compatible(c, |plain| {
        has_plain |= plain != c && plain.is_alphanumeric() && !is_ignorable(plain);
    });
    has_plain
}

/// Whether a character shows nothing, and UAX #29 has no word go on after it.
fn is_separating(c: char) -> bool {
    matches!(c, '\u{115f}'..='\u{1160}' | '\u{200b}' | '\u{2065}' | '\u{3164}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fff8}' | '\u{e0000}' | '\u{e0002}'..='\u{e001f}'
        | '\u{e0080}'..='\u{e00ff}' | '\u{e01f0}'..='\u{e0fff}')
}

/// Adds what a sign stands for.
fn add_plain(c: char, out: &mut String) {
    if is_separating(c) {
        out.push(WORD_JOINER);
    } else if is_sign(c) {
        let start = out.len();
        decompose_compatible(c, |plain| out.push(plain));
        if out[start..].contains(FRACTION_SLASH) {
            // `3½` is not 31 halves.
            out.insert(start, ' ');
        }
    } else {
        out.push(c);
    }
}

/// Returns the words of a run that has signs, and is at this offset of its text.
fn read(at: usize, run: &str) -> Vec<Word<'_>> {
    let mut plain = String::with_capacity(2 * run.len());
    // Where each character is in the plain text, and in the run.
    let mut places: Vec<(usize, usize)> = Vec::with_capacity(run.len());
    for (start, c) in run.char_indices() {
        places.push((plain.len(), start));
        add_plain(c, &mut plain);
    }
    // Of the last character that is at or before a place, or the first one that is not.
    let place = |number: usize| at + places.get(number).map_or(run.len(), |(_, start)| *start);
    let mut words: Vec<Word> = Vec::new();
    for (start, written) in cut(&plain) {
        let end = start + written.len();
        words.push(Word {
            at: place(places.partition_point(|(own, _)| *own <= start).saturating_sub(1)),
            end: place(places.partition_point(|(own, _)| *own < end)),
            written: written.to_string().into(),
            pieces: Vec::new(),
        });
    }
    let mut number = 0;
    for (start, written) in cut(run) {
        let start = at + start;
        while number + 1 < words.len() && words[number].end <= start {
            number += 1;
        }
        if let Some(word) = words.get_mut(number) {
            word.pieces.push(Piece { at: start, written });
        }
    }
    for word in &mut words {
        if let [one] = word.pieces[..]
            && fold(one.written) == fold(&word.written)
        {
            word.pieces.clear();
        }
    }
    words
}

#[cfg(test)]
/// Returns the words of a text as they were up to form 3, where signs were not read.
pub fn former(text: &str) -> Vec<(usize, &str)> {
    cut(text).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The words of a text, folded, each with its pieces in brackets.
    fn all(text: &str) -> Vec<String> {
        let pieces = |word: &Word| -> String {
            word.pieces.iter().map(|piece| format!("[{}]", piece.written)).collect()
        };
        words(text).map(|word| format!("{}{}", fold(&word.written), pieces(&word))).collect()
    }

    #[test]
    fn signs_are_read_as_what_they_stand_for() {
        assert_eq!(all("CO₂ emission 5㎏"), ["co2[CO][₂]", "emission", "5kg[5]"]);
        assert_eq!(all("10⁵ m² x2"), ["105[10][⁵]", "m2[m][²]", "x2"]);
        assert_eq!(all("①② № ™ ㊀ Ⅷ ⼀"), ["12[①][②]", "no", "tm", "一", "viii", "一"]);
        assert_eq!(all("㍿"), ["株", "式", "会", "社"]);
        assert_eq!(all("⑴ 25℃ ㏂"), ["1[⑴]", "25", "c", "a", "m"]);
        assert_eq!(all("3½"), ["3", "1[½]", "2"]);
        assert_eq!(all("Road™ word¹"), ["roadtm[Road]", "word1[word][¹]"]);
        assert_eq!(all("﹙a，b： ¨ ´ … ー"), ["a", "b", "ー"]);
    }

    #[test]
    fn letters_are_no_signs() {
        for c in '\0'..=char::MAX {
            assert_eq!(is_sign(c), is_separating(c) || !is_letter(c) && has_plain(c), "{c:?}");
            let text = format!("a{c}1");
            if is_letter(c) && has_plain(c) && c.is_numeric() {
                assert_eq!(all(&text).len(), 1, "{c:?}");
            }
        }
    }

    #[test]
    fn what_shows_nothing_does_not_end_a_word() {
        assert_eq!(all("zero\u{200b}width"), ["zerowidth[zero][width]"]);
        assert_eq!(all("so\u{ad}ft a\u{200d}b c\u{feff}d"), ["soft", "ab", "cd"]);
        for c in ('\u{80}'..='\u{e0fff}').filter(|c| is_ignorable(*c)) {
            assert_eq!(words(&format!("ab{c}cd")).count(), 1, "{c:?}");
            let text = format!("日{c}本");
            let places: Vec<_> = words(&text).map(|word| (word.at, word.end)).collect();
            assert_eq!(places, [(0, text.len() - 3), (text.len() - 3, text.len())], "{c:?}");
        }
    }

    #[test]
    fn a_word_that_is_read_knows_where_it_is() {
        let of = |text: &str| -> Vec<String> {
            let end = |word: &Word| word.pieces.last().map(Piece::end);
            let shown = |word: Word| format!("{} {:?}", &text[word.at..word.end], end(&word));
            words(text).map(shown).collect()
        };
        assert_eq!(
            of("äh CO₂, ㍿!"),
            ["äh None", "CO₂ Some(9)", "㍿ None", "㍿ None", "㍿ None", "㍿ None"]
        );
        assert_eq!(of("a㏂b"), ["a㏂ Some(1)", "㏂ None", "b None"]);
    }

    #[test]
    fn a_sign_in_a_text_without_blanks_takes_no_more_room_than_a_run_may() {
        let text = format!("{}²{}", "日本語".repeat(200_000), "ﷺ²".repeat(100_000));
        let (mut last, mut count) = (0, 0);
        for word in words(&text) {
            assert!(word.written.len() <= 64 * 1024 && word.pieces.len() <= MAX_RUN_BYTES);
            assert!(word.at >= last);
            (last, count) = (word.at, count + 1);
        }
        assert!(count > 600_000);
    }

    const TEXT: &str = "[a-cA-Z0-9é日本ไ한カ①²₂½㎏㍿™ﬁﷺ⑴㏂\u{200b}\u{ad}\u{2065}\u{301}\u{3164}\
         \u{f900}\u{fa1e} .,_'\n]{0,30}";

    /// Without signs, but for a few.
    const PLAIN: &str =
        "\\PC{0,40}|[a-z0-9_.:'\",א日ア한\u{301}\u{93f}\u{200d}\u{ad}😀🇩🇪 \n]{0,40}";

    proptest! {
        #[test]
        fn without_signs_words_are_those_of_the_whole_text(text in PLAIN) {
            prop_assume!(!text.contains(is_sign));
            let found: Vec<_> = words(&text).map(|word| (word.at, word.written.into_owned())).collect();
            let former = former(&text).into_iter();
            prop_assert_eq!(found, former.map(|(at, word)| (at, word.to_string())).collect::<Vec<_>>());
        }

        #[test]
        fn each_former_word_is_a_word_or_a_piece_of_one(text in TEXT) {
            let found: Vec<Word> = words(&text).collect();
            for (at, word) in former(&text) {
                let is_same = |own: &Word| {
                    own.at < at + word.len() && at < own.end && fold(&own.written) == fold(word)
                };
                let is_own =
                    |own: &Word| is_same(own) || own.pieces.contains(&Piece { at, written: word });
                prop_assert!(found.iter().any(is_own), "{} in {:?}", word, found);
            }
        }

        #[test]
        fn words_are_in_their_order_and_between_characters(text in prop_oneof![TEXT, ".{0,40}".boxed()]) {
            let mut last = 0;
            for word in words(&text) {
                let own = text.get(word.at..word.end);
                prop_assert!(last <= word.at && own.is_some_and(|own| !own.is_empty()));
                for piece in &word.pieces {
                    prop_assert_eq!(text.get(piece.at..piece.end()), Some(piece.written));
                }
                last = word.at;
            }
        }
    }
}
