//! Passages: the part of a document's text that a search shows.

use std::ops::Range;

use schemars::JsonSchema;
use serde::Serialize;

use super::content::{boundary_before, text_from};
use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::query::Query;
use super::words::{Word, words};
use crate::base::{Id, Result};
use crate::store::View;

/// A passage has at most 300 characters: a few lines.
const PASSAGE_CHARS: usize = 300;

/// A passage begins up to so many characters before its first word of the query.
const LEAD_CHARS: usize = 60;

/// The passage is looked for in so many bytes before and after the first occurrence of the rarest word
/// of the query: it takes some 10 µs, and most words that belong together are close.
const BEFORE_BYTES: u32 = 400;
const AFTER_BYTES: u32 = 1_200;

/// A word of the query in a passage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Highlight {
    /// The number of characters before it.
    pub start: usize,
    /// The number of characters up to its end.
    pub end: usize,
}

/// A part of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Passage {
    pub text: String,
    pub highlights: Vec<Highlight>,
}

/// Returns the passage of a content for a query, at or near this offset of its text.
pub fn passage(
    view: &View,
    content: (Id<KnowledgeBase>, Ordinal),
    at: u32,
    query: &Query,
) -> Result<Passage> {
    let from = at.saturating_sub(BEFORE_BYTES);
    let bytes = (BEFORE_BYTES + AFTER_BYTES) as usize;
    let (begin, text) = text_from(view, content, from, bytes)?;
    Ok(cut((&text, begin), (at, from), query))
}

/// Returns the passage of a text for a query, at or near this offset.
pub fn passage_within(text: &str, at: usize, query: &Query) -> Passage {
    // Texts are far smaller than 4 GiB.
    let at = u32::try_from(at).unwrap_or(u32::MAX);
    cut((text, 0), (at, at.saturating_sub(BEFORE_BYTES)), query)
}

/// The passage of a part of a text that begins at `begin`, near `at`; it is looked for from `from` on.
fn cut((text, begin): (&str, usize), (at, from): (u32, u32), query: &Query) -> Passage {
    let bytes = (BEFORE_BYTES + AFTER_BYTES) as usize;
    let start = boundary_before(text, (from as usize).saturating_sub(begin));
    let end = boundary_before(text, start + bytes);
    let text = &text[start..end];
    let hit = boundary_before(text, (at as usize).saturating_sub(begin + start));
    best_passage((text, hit), begin + start == 0, |written| query.part_of(written))
}

/// A word of the query, with its bytes in a text.
struct Match {
    bytes: Range<usize>,
    word: usize,
}

/// Returns the passage of a text with most of the words that have a number, or else the one at `hit`, which was
/// found otherwise. `is_begin` says whether this is the beginning of a text, so that the first word is
/// complete.
fn best_passage(
    (text, hit): (&str, usize),
    is_begin: bool,
    number: impl Fn(&str) -> Option<usize>,
) -> Passage {
    let all: Vec<Word> = words(text).skip(usize::from(!is_begin)).collect();
    let matches = matches(&all, number);
    let at = most_words(text, &matches).unwrap_or(hit);
    let lead = back(text, at, LEAD_CHARS);
    // At the beginning of a word.
    let word = all.iter().map(|word| word.at).find(|start| *start >= lead);
    let start = if lead == 0 && is_begin { 0 } else { word.unwrap_or(at) };
    let end = start + forward(&text[start..], PASSAGE_CHARS);
    // At the end of a word, unless the text ends or the word is longer than the passage.
    let whole = all.iter().map(|word| word.end).rfind(|word| (start + 1..=end).contains(word));
    let end = if end == text.len() { end } else { whole.unwrap_or(end) };
    let shown = text[start..end].trim_end();
    let highlights = matches
        .iter()
        .filter(|found| found.bytes.start >= start && found.bytes.end <= start + shown.len())
        .map(|found| {
            let chars = |to: usize| text[start..to].chars().count();
            Highlight { start: chars(found.bytes.start), end: chars(found.bytes.end) }
        })
        .collect();
    Passage { text: shown.into(), highlights }
}

/// Returns the words that have a number, or else their pieces; of those that are one sign the first.
fn matches(all: &[Word], number: impl Fn(&str) -> Option<usize>) -> Vec<Match> {
    let mut matches: Vec<Match> = Vec::new();
    let mut add = |bytes: Range<usize>, word: Option<usize>| {
        let is_apart = matches.last().is_none_or(|last| last.bytes.end <= bytes.start);
        matches.extend(word.filter(|_| is_apart).map(|word| Match { bytes, word }));
        word.is_some()
    };
    for word in all {
        if !add(word.at..word.end, number(&word.written)) {
            for piece in &word.pieces {
                add(piece.at..piece.end(), number(piece.written));
            }
        }
    }
    matches
}

/// Returns where a passage with most of the words begins: the first of those.
fn most_words(text: &str, matches: &[Match]) -> Option<usize> {
    let room = PASSAGE_CHARS - LEAD_CHARS;
    let different = |at: usize| {
        let start = matches[at].bytes.start;
        let end = start + forward(&text[start..], room);
        let within = matches[at..].iter().take_while(|found| found.bytes.end <= end);
        let mut words: Vec<_> = within.map(|found| found.word).collect();
        words.sort_unstable();
        words.dedup();
        words.len()
    };
    // Of equal ones the first.
    let best = (0..matches.len()).rev().max_by_key(|at| different(*at))?;
    Some(matches[best].bytes.start)
}

/// The position so many characters before this one.
fn back(text: &str, at: usize, chars: usize) -> usize {
    text[..at].char_indices().rev().take(chars).last().map_or(at, |(at, _)| at)
}

/// The position after so many characters.
fn forward(text: &str, chars: usize) -> usize {
    text.char_indices().nth(chars).map_or(text.len(), |(at, _)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::resources::knowledge_bases::words::folded;

    /// The passage with its highlights in brackets.
    fn marked(text: &str, query: &[&str]) -> String {
        let number = |written: &str| query.iter().position(|own| *own == folded(written));
        let passage = best_passage((text, 0), true, number);
        let mut chars: Vec<String> = passage.text.chars().map(String::from).collect();
        for Highlight { start, end } in passage.highlights {
            chars[start].insert(0, '[');
            chars[end - 1].push(']');
        }
        chars.concat()
    }

    #[test]
    fn words_of_the_query_are_highlighted_in_any_case() {
        assert_eq!(marked("Ärzte und ärzte, Ä.", &["ärzte"]), "[Ärzte] und [ärzte], Ä.");
        assert_eq!(marked("日本語", &["本"]), "日[本]語");
        assert_eq!(marked("nothing here", &["else"]), "nothing here");
        assert_eq!(marked("", &["a"]), "");
        assert_eq!(marked("the CO₂, ㍿", &["co2", "式", "社"]), "the [CO₂], [㍿]");
        assert_eq!(
            marked("Road™ zero\u{200b}width", &["road", "width"]),
            "[Road]™ zero\u{200b}[width]"
        );
    }

    #[test]
    fn the_passage_has_most_of_the_words_and_begins_and_ends_with_whole_ones() {
        let filler = "lorem ipsum dolor ".repeat(40);
        let text = format!("{filler}on call. {filler}who is on call answers {filler}");
        let shown = marked(&text, &["answers", "call", "on"]);
        assert!(shown.contains("is [on] [call] [answers] lorem"), "{shown}");
        let plain = shown.replace(['[', ']'], "");
        assert!(plain.chars().count() <= PASSAGE_CHARS);
        for end in [plain.split(' ').next(), plain.rsplit(' ').next()] {
            assert!(text.contains(&format!(" {} ", end.unwrap())), "{plain}");
        }
    }

    #[test]
    fn a_word_longer_than_the_passage_is_cut() {
        let long = "x".repeat(1000);
        assert_eq!(best_passage((&long, 0), true, |_| None).text.len(), PASSAGE_CHARS);
    }

    proptest! {
        #[test]
        fn any_text_has_a_passage_within_its_limits(text: String, word in "\\PC{1,3}", is_begin: bool) {
            let text = format!("{text} {word} {text}");
            let query = folded(&word).into_owned();
            let number = |written: &str| (folded(written) == query).then_some(0);
            let Passage { text: shown, highlights } = best_passage((&text, 0), is_begin, number);
            let chars = shown.chars().count();
            prop_assert!(chars <= PASSAGE_CHARS && text.contains(&shown));
            for Highlight { start, end } in highlights {
                prop_assert!(start < end && end <= chars);
            }
        }
    }
}
