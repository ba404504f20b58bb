//! Phrases: whether the words of a query that are in quotes follow each other in a document.
//!
//! The index does not know where words are, so the texts of those documents are read that have all
//! words of a phrase, the best one first, up to a bound; a page of the search ends there.

use super::content::{boundary_before, text_bytes, text_from};
use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::query::Query;
use super::terms::DocumentTerms;
use super::words::{Term, Word, folded, joined, words};
use crate::base::{Id, Result};
use crate::store::View;

/// A page of a search reads at most 2 MiB of text for its phrases, in about a tenth of a second, and
/// no more of a single document; each phrase has the same part of that.
pub const PHRASE_BYTES: usize = 2 * 1024 * 1024;

/// The words of a phrase are at most 4 KiB apart, from the first one on.
const MAX_SPREAD: u32 = 4 * 1024;

/// What there is to read of a document to know whether it has the phrases of a query.
pub struct PhraseSearch {
    content: (Id<KnowledgeBase>, Ordinal),
    /// The phrases that are not in its name, with the offsets in its text.
    phrases: Vec<PlacedPhrase>,
}

struct PlacedPhrase {
    /// The number of the phrase.
    number: usize,
    /// It begins there at the earliest.
    from: usize,
    /// Whether a word begins there.
    is_begin: bool,
    /// To which offset it is looked for.
    to: usize,
    /// Whether the text goes on there.
    is_cut: bool,
}

impl PhraseSearch {
    /// Returns what is to be read of the text of a content whose document has this name; none if it
    /// does not have the phrases.
    pub fn of(
        view: &View,
        content: (Id<KnowledgeBase>, Ordinal),
        name: &str,
        query: &Query,
    ) -> Result<Option<Self>> {
        let mut phrases = Vec::new();
        if query.phrases.is_empty() {
            return Ok(Some(PhraseSearch { content, phrases }));
        }
        let sorted: Vec<&str> = query.terms.iter().map(String::as_str).collect();
        let terms = DocumentTerms::find_all(view, content, &sorted)?;
        let length = text_bytes(view, content)?;
        let bytes = PHRASE_BYTES / query.phrases.len();
        for (number, phrase) in query.phrases.iter().enumerate() {
            if phrase_in(name, true, phrase).is_some() {
                continue;
            }
            let first_at = |word: &String| first_at(query, &terms, word);
            let Some(offsets) = phrase.iter().map(first_at).collect::<Option<Vec<u32>>>() else {
                return Ok(None);
            };
            let last = offsets.iter().copied().max().unwrap_or_default();
            let first = offsets.first().copied().unwrap_or_default();
            let from = first.max(last.saturating_sub(MAX_SPREAD)) as usize;
            let to = length.min(from + bytes);
            let (is_begin, is_cut) = (from == first as usize, to < length);
            phrases.push(PlacedPhrase { number, from, is_begin, to, is_cut });
        }
        Ok(Some(PhraseSearch { content, phrases }))
    }

    /// Returns how many bytes of the text are to be read.
    pub fn bytes(&self) -> usize {
        self.phrases.iter().map(|phrase| phrase.to.saturating_sub(phrase.from)).sum()
    }

    /// Reads them. Returns whether the document has all phrases, and where the first one begins that
    /// is not in its name; and takes from `room` what was looked through.
    pub fn run(&self, view: &View, query: &Query, room: &mut usize) -> Result<Option<Option<u32>>> {
        let mut first = None;
        for PlacedPhrase { number, from, is_begin, to, is_cut } in &self.phrases {
            let Ok(at) = u32::try_from(*from) else { return Ok(None) };
            let bytes = to.saturating_sub(*from);
            let (begin, text) = text_from(view, self.content, at, bytes)?;
            let start = boundary_before(&text, from.saturating_sub(begin));
            let mut part = &text[start..boundary_before(&text, start + bytes)];
            if *is_cut {
                // The last word may be incomplete.
                part = part.rfind(char::is_whitespace).map_or(part, |end| &part[..end]);
            }
            let found = phrase_in(part, *is_begin, &query.phrases[*number]);
            // What is only read takes less time.
            *room = room.saturating_sub(found.unwrap_or(part.len()).max(part.len() / 8));
            let Some(found) = found else { return Ok(None) };
            first = first.or(u32::try_from(begin + start + found).ok());
        }
        Ok(Some(first))
    }
}

/// Returns where a word of a phrase first occurs in a text, in any of its forms.
fn first_at(query: &Query, terms: &[Option<Term>], word: &String) -> Option<u32> {
    let number = query.terms.binary_search(word).ok()?;
    let has = |members: &[(usize, f32)]| members.iter().any(|(term, _)| *term == number);
    let part = query.parts.iter().find(|part| part.is_required && has(&part.members))?;
    let of = part.members.iter().filter_map(|(term, _)| terms.get(*term)?.as_ref()?.first_at);
    of.min()
}

/// Returns where a phrase begins in a text. `is_begin` says whether this is the beginning of a text, so
/// that the first word is complete. It takes time in proportion to the length of the text.
pub fn phrase_in(text: &str, is_begin: bool, phrase: &[String]) -> Option<usize> {
    let (mut begun, mut begun_before) = (Vec::new(), Vec::new());
    let mut last: Option<Word> = None;
    for word in words(text).skip(usize::from(!is_begin)) {
        let mut next = advance(&begun, phrase, &folded(&word.written), word.at);
        let mut within = begun.clone();
        let mut is_found = ends(&next, phrase);
        for piece in &word.pieces {
            within = advance(&within, phrase, &folded(piece.written), piece.at);
            is_found = is_found.or(ends(&within, phrase));
        }
        if !word.pieces.is_empty() {
            next.extend(within);
        }
        if let Some(last) = &last
            && let Some(whole) = joined(text, last, &word)
        {
            next.extend(advance(&begun_before, phrase, &whole, last.at));
        }
        is_found = is_found.or(ends(&next, phrase));
        if is_found.is_some() {
            return is_found;
        }
        // Where several ways lead to one, they would be more with every word.
        next.sort_unstable();
        next.dedup_by_key(|Begun { words, .. }| *words);
        begun_before = std::mem::replace(&mut begun, next);
        last = Some(word);
    }
    None
}

/// A phrase that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Begun {
    /// So many of its words are there.
    words: usize,
    start: usize,
}

/// Returns where a phrase begins that is complete.
fn ends(begun: &[Begun], phrase: &[String]) -> Option<usize> {
    begun.iter().find(|begun| begun.words == phrase.len()).map(|begun| begun.start)
}

/// Returns the phrases that a word continues or begins.
fn advance(begun: &[Begun], phrase: &[String], word: &str, at: usize) -> Vec<Begun> {
    let all = begun.iter().copied().chain([Begun { words: 0, start: at }]);
    let goes_on = |begun: &Begun| phrase.get(begun.words).is_some_and(|own| own == word);
    all.filter(goes_on).map(|begun| Begun { words: begun.words + 1, ..begun }).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_phrase_is_found_where_its_words_follow_each_other() {
        let find = |text: &str, phrase: &str| {
            let words: Vec<_> = words(phrase).map(|w| folded(&w.written).into_owned()).collect();
            phrase_in(text, true, &words)
        };
        assert_eq!(find("who is on on Call", "on call"), Some(10));
        assert_eq!(find("on, CALL", "on call"), Some(0));
        assert_eq!(find("call on", "on call"), None);
        assert_eq!(find("a long exam-\nple here", "long example here"), Some(2));
        assert_eq!(find("a long exam-\nple here", "exam ple"), Some(7));
        assert_eq!(find("これは日本語です", "日本語"), Some(9));
        assert_eq!(find("a a a b", "a a b"), Some(2));
        assert_eq!(
            find("the hippo-\n\u{c}potamus and GIRAF-\nFES", "hippopotamus and giraffes"),
            Some(4)
        );
        assert_eq!(find("of COVID-\n19", "COVID-19"), Some(3));
        let words = ["on".to_string(), "call".into()];
        assert_eq!(phrase_in("on call", false, &words), None, "the first word may be cut");
    }

    #[test]
    fn a_phrase_has_words_with_signs_whole_or_in_pieces() {
        let text = "emission of CO₂ by Road™ word¹ 株式会社 zero\u{200b}width 10⁵ m²";
        for phrase in [
            "CO2 by",
            "of CO₂ by",
            "co 2 by",
            "2 by road",
            "of CO",
            "by Road word",
            "roadtm word1 株",
            "㍿ zerowidth",
            "zero width 105 m2",
        ] {
            let all: Vec<_> = words(phrase).map(|w| folded(&w.written).into_owned()).collect();
            assert!(phrase_in(text, true, &all).is_some(), "{phrase}");
        }
        for phrase in ["of 2", "co by", "word 株1", "width 5"] {
            let all: Vec<_> = words(phrase).map(|w| folded(&w.written).into_owned()).collect();
            assert_eq!(phrase_in(text, true, &all), None, "{phrase}");
        }
    }

    #[test]
    fn a_phrase_that_may_go_on_in_many_ways_is_looked_for_in_one_go() {
        let long = "a".repeat(40);
        let text = format!("{long}a²\u{200b}{long}a ").repeat(2_000);
        let phrase: Vec<String> = (0..30).map(|_| long.clone()).chain(["z".into()]).collect();
        assert_eq!(phrase_in(&text, true, &phrase), None);
    }

    proptest! {
        #[test]
        fn a_phrase_is_found_as_in_the_list_of_words(text in "[abc ]{0,60}", phrase in "[abc] [abc] [abc]") {
            let all = |text: &str| -> Vec<String> { words(text).map(|w| w.written.to_string()).collect() };
            let (of, wanted) = (all(&text), all(&phrase));
            let has = of.windows(wanted.len()).any(|window| window == wanted);
            prop_assert_eq!(phrase_in(&text, true, &wanted).is_some(), has);
        }
    }
}
