//! Search in texts that are in no knowledge base (reference: conventions, "Search"): the words, phrases
//! and ranking of a knowledge base, computed for the texts that one search looks at. Nothing is stored,
//! so that what somebody may not read counts for nothing in what they find.

use std::collections::{BTreeSet, HashSet};

use super::content::boundary_before;
use super::knowledge_base::Ordinal;
use super::language::{Language, STEM};
use super::passages::{Passage, passage_within};
use super::postings::{Posting, length_step};
use super::query::Query;
use super::ranking::{Collection, TermPostings, rank};
use super::words::{DocumentWords, Term, folded, has_hyphenated_line, words};
use crate::base::{fold, without_accents};

/// A search has at most 32 words, as in a knowledge base; of one with more only names are found.
const MAX_WORDS: usize = 32;

/// A text without any of the words is not cut into its own: about so many bytes are one.
const BYTES_OF_WORD: usize = 6;

/// The words of a query are first looked for by so many of their first characters, anywhere in a text. Of
/// a stem it is the first one: that of `lying` is `lie`.
const HEAD_CHARS: usize = 3;

/// A search in texts, which are added one by one.
#[derive(Clone)]
pub struct TextSearch {
    query: Query,
    /// What each text that is found has.
    heads: Vec<String>,
    /// For the terms of the query, then for its beginnings: what was found.
    postings: Vec<TermPostings>,
    of: Collection,
    /// For each text, where in it the first word was found.
    first_at: Vec<usize>,
}

impl TextSearch {
    /// A search for what a query says; `None` if it has no words, or too many.
    pub fn new(text: &str, language: Option<Language>) -> Option<Self> {
        if !(1..=MAX_WORDS).contains(&Query::count_words(text)) {
            return None;
        }
        let query = Query::parse(text, language);
        let all = query.terms.iter().chain(&query.beginnings);
        let heads: BTreeSet<String> = all.map(|term| head(term)).collect();
        let count = query.terms.len() + query.beginnings.len();
        Some(TextSearch {
            query,
            heads: heads.into_iter().collect(),
            postings: vec![TermPostings::default(); count],
            of: Collection { documents: 0, words: 0 },
            first_at: Vec::new(),
        })
    }

    /// Adds the next text.
    pub fn add(&mut self, name: &str, text: &str) {
        let number = self.first_at.len();
        self.first_at.push(0);
        self.of.documents += 1;
        if !self.may_have(name) && !self.may_have(text) {
            self.of.words += (text.len() / BYTES_OF_WORD) as u64;
            return;
        }
        let found = self.words_of(name, text);
        self.of.words += u64::from(found.count);
        if !self.query.phrases.iter().all(|all| has_phrase(name, all) || has_phrase(text, all)) {
            return;
        }
        // Of equal ones the text that was added first is found first.
        let ordinal = Ordinal::MAX - Ordinal::try_from(number).unwrap_or(Ordinal::MAX);
        let length = length_step(found.count);
        let Query { terms, beginnings, .. } = &self.query;
        let exact = terms.iter().map(|term| {
            let at = found.terms.binary_search_by(|(own, _)| own.cmp(term));
            at.ok().map(|at| found.terms[at].1)
        });
        let begun = beginnings.iter().map(|begin| beginning(&found, begin));
        for (term, postings) in exact.chain(begun).zip(&mut self.postings) {
            let Some(Term { frequency, first_at }) = term else { continue };
            postings.documents += 1;
            postings.postings.push(Posting { ordinal, frequency, length });
            let at = first_at.map_or(0, |at| at as usize);
            let first = &mut self.first_at[number];
            *first = if *first == 0 { at } else { at.min(*first) };
        }
    }

    /// The numbers of the texts that fit best, the best first.
    pub fn best(&self, limit: usize) -> Vec<usize> {
        let ranked = rank(&self.postings, &self.query.parts, self.of, &HashSet::new(), None, limit);
        ranked.iter().map(|ranked| (Ordinal::MAX - ranked.ordinal) as usize).collect()
    }

    /// The passage of a text that was found, by its number.
    pub fn passage(&self, number: usize, text: &str) -> Passage {
        let at = boundary_before(text, self.first_at[number]);
        passage_within(text, at, &self.query)
    }

    /// Whether a text may have any of the words, also over the end of a line.
    fn may_have(&self, text: &str) -> bool {
        let folded = fold(text);
        let has = |text: &str| self.heads.iter().any(|head| text.contains(head.as_str()));
        has(&folded)
            || !folded.is_ascii() && has(&without_accents(&folded))
            || has_hyphenated_line(text)
    }

    /// The words of a text, with the stems that may be those of the query.
    fn words_of(&self, name: &str, text: &str) -> DocumentWords {
        let found = DocumentWords::of(name, text);
        let Some(language) = self.query.language else { return found };
        let stems = self.query.terms.iter().filter(|term| term.starts_with(STEM));
        let begins: HashSet<char> =
            stems.filter_map(|stem| unmarked(stem).chars().next()).collect();
        found.with_stems_of(language, |bare| {
            bare.chars().next().is_some_and(|first| begins.contains(&first))
                || language.may_begin_otherwise(bare)
        })
    }
}

/// What each text has that is found by a term.
fn head(term: &str) -> String {
    let count = if term.starts_with(STEM) { 1 } else { HEAD_CHARS };
    unmarked(term).chars().take(count).collect()
}

/// A term without its mark, and without the language of a stem.
fn unmarked(term: &str) -> &str {
    match term.strip_prefix(STEM) {
        Some(stem) => stem.split_once(':').map_or(stem, |(_, stem)| stem),
        None => term.trim_start_matches(['~', '&']),
    }
}

/// The words of a text that begin so, as one.
fn beginning(found: &DocumentWords, begin: &str) -> Option<Term> {
    let from = found.terms.partition_point(|(own, _)| own.as_str() < begin);
    let all = found.terms[from..].iter().take_while(|(own, _)| own.starts_with(begin));
    all.map(|(_, term)| *term).reduce(|one, other| Term {
        frequency: one.frequency.saturating_add(other.frequency),
        first_at: one.first_at.min(other.first_at).or(one.first_at).or(other.first_at),
    })
}

/// Whether these words follow each other in a text.
fn has_phrase(text: &str, phrase: &[String]) -> bool {
    // Of each beginning of the phrase how many of its words have been met.
    let mut met: Vec<usize> = Vec::new();
    for word in words(text) {
        let form = folded(&word.written);
        met.push(0);
        met.retain_mut(|count| {
            *count += 1;
            phrase.get(*count - 1).is_some_and(|own| *own == form)
        });
        if met.contains(&phrase.len()) {
            return true;
        }
    }
    phrase.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(query: &str, language: Option<Language>, texts: &[(&str, &str)]) -> Vec<usize> {
        let mut search = TextSearch::new(query, language).unwrap();
        texts.iter().for_each(|(name, text)| search.add(name, text));
        search.best(10)
    }

    #[test]
    fn texts_are_ranked_as_documents_are() {
        let texts = [
            ("a", "Write the release notes, and the notes alone."),
            ("notes", "Be brief."),
            ("b", "Nothing of this."),
            ("c", "Notes."),
        ];
        assert_eq!(found("notes", None, &texts), [1, 3, 0]);
        assert_eq!(found("NOTES release", None, &texts)[0], 0);
        assert_eq!(found("\"release notes\"", None, &texts), [0]);
        assert_eq!(found("\"notes release\"", None, &texts), [0; 0]);
        assert_eq!(found("\"the notes alone\" brief", None, &texts), [0]);
        assert_eq!(found("rel*", None, &texts), [0]);
        assert_eq!(found("rel", None, &texts), [0; 0]);
    }

    #[test]
    fn words_are_found_in_other_cases_forms_and_scripts() {
        let texts = [("a", "Der Größte läuft."), ("b", "東京都の文書"), ("c", "he was running")];
        assert_eq!(found("GRÖSSTE", None, &texts), [0]);
        assert_eq!(found("lauft", None, &texts), [0]);
        assert_eq!(found("京都", None, &texts), [1]);
        assert_eq!(found("runs", None, &texts), [0; 0]);
        assert_eq!(found("runs", Some(Language::En), &texts), [2]);
    }

    #[test]
    fn words_over_the_end_of_a_line_are_found() {
        for text in
            ["an ex-\nample", "an ex\u{ad}\nample", "ex\u{2010} \r\n ample", "EX-\n\u{c}AMPLE"]
        {
            assert_eq!(found("example", None, &[("a", text)]), [0], "{text:?}");
        }
        assert_eq!(found("example", None, &[("a", "ex-ample"), ("b", "ex\nample")]), [0; 0]);
    }

    #[test]
    fn other_forms_are_found_that_begin_otherwise() {
        let of = |query, language, text| found(query, Some(language), &[("a", text)]);
        assert_eq!(of("lie", Language::En, "he was lying"), [0]);
        assert_eq!(of("dying", Language::En, "they die"), [0]);
        assert_eq!(of("loop", Language::Nl, "zij heeft gelopen"), [0]);
        assert_eq!(of("loop", Language::En, "zij heeft gelopen"), [0; 0]);
    }

    #[test]
    fn equal_texts_are_found_in_the_order_in_which_they_were_added() {
        assert_eq!(found("x", None, &[("a", "x y"), ("b", "x z"), ("c", "x w")]), [0, 1, 2]);
    }

    #[test]
    fn the_passage_is_where_the_word_is() {
        let text = format!("{}the keel {}", "lorem ipsum ".repeat(500), "dolor ".repeat(500));
        let mut search = TextSearch::new("keel", None).unwrap();
        search.add("a", "nothing");
        search.add("b", &text);
        let passage = search.passage(1, &text);
        assert!(passage.text.contains("the keel dolor"), "{}", passage.text);
        assert_eq!(passage.highlights.len(), 1);
        let short = "ä".repeat(100) + " keel";
        let mut search = TextSearch::new("keel ä", None).unwrap();
        search.add("b", &short);
        assert!(search.passage(0, &short).text.ends_with("keel"));
    }

    #[test]
    fn a_query_of_no_words_or_too_many_finds_no_texts() {
        let many: String = (0..33).map(|n| format!("w{n} ")).collect();
        assert!(TextSearch::new("", None).is_none() && TextSearch::new("-", None).is_none());
        assert!(TextSearch::new(&many, None).is_none());
    }
}
