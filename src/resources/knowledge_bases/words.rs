//! Words of texts and queries, and the terms by which documents are found.
//!
//! A term is a word as it is spelled, folded, or begins with a mark that is in no word: `~` before a
//! word without its accents, `&` before two characters of a script that has no blanks between words,
//! `^` before the stem of a word in a language.

use std::borrow::Cow;
use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;

use super::language::Language;
pub use super::segmentation::{Word, words};
use super::segmentation::{is_cut, is_mark};
use crate::base::{fold, fold_first, is_unspaced, without_accents};

/// A word counts up to its 40th character: longer ones are found by their beginning.
const MAX_WORD_CHARS: usize = 40;

/// A document is found by its first 65,536 different words: a text of 10 MiB in a natural language
/// has fewer, and an index of more would take longer to write than its text. As many pairs, and words
/// that are parts of others or over lines, are counted apart, so that they do not displace words.
const MAX_TERMS: usize = 65_536;

/// An occurrence in the name of a document counts as three in its text.
const NAME_WEIGHT: u32 = 3;

/// What is more than so many bytes between two words separates them in any case.
const MAX_GAP_BYTES: usize = 32;

/// Returns a word in the form in which words are compared: folded, up to its 40th character.
pub fn folded(written: &str) -> Cow<'_, str> {
    if written.is_ascii() {
        return fold(&written[..written.len().min(MAX_WORD_CHARS)]);
    }
    fold_first(written, MAX_WORD_CHARS)
}

/// Returns a folded word without its accents, up to its 40th character.
pub fn bare(folded: &str) -> Cow<'_, str> {
    match without_accents(folded) {
        Cow::Owned(bare) => bare.chars().take(MAX_WORD_CHARS).collect::<String>().into(),
        bare => bare,
    }
}

/// Returns the form in which words were stored up to version 0.1: in lower case letter by letter.
pub fn earlier_form(written: &str) -> String {
    let form = written.nfkc().flat_map(char::to_lowercase).nfc();
    form.take(MAX_WORD_CHARS).collect()
}

/// Returns the term for words that are this one without their accents.
pub fn bare_term(bare: &str) -> String {
    format!("~{bare}")
}

// ── Pairs ────────────────────────────────────────────────────────────────────

/// Whether a line of its script ends anywhere in a word.
fn is_broken_anywhere(c: char) -> bool {
    is_unspaced(c) && ('\u{3005}'..'\u{ac00}').contains(&c) || c > '\u{20000}'
}

/// The pairs of the words of a text, one word after another.
#[derive(Default)]
pub struct Pairs {
    /// The last character, with its marks, and where its word ends.
    last: Option<(String, usize)>,
}

impl Pairs {
    /// Calls `each` with the terms of the pairs that end in the next word of a text, folded.
    pub fn add(&mut self, text: &str, word: &Word, folded: &str, mut each: impl FnMut(String)) {
        let Some(first) = folded.chars().next().filter(|c| is_unspaced(*c)) else {
            self.last = None;
            return;
        };
        let last = self.last.take().filter(|(last, end)| {
            is_together(between(text, *end, word), last.chars().next_back(), first)
        });
        let mut before = last.map(|(last, _)| last);
        // Of scripts whose words are not separated, a word is one character with its marks.
        let is_run = is_run(first);
        let mut rest = folded;
        while let Some(c) = rest.chars().next() {
            let (unit, others) = rest.split_at(if is_run { c.len_utf8() } else { rest.len() });
            if let Some(before) = before {
                each(format!("&{before}{unit}"));
            }
            before = Some(unit.into());
            rest = others;
        }
        self.last = before.map(|before| (before, word.end));
    }
}

/// Whether its letters are words of several characters: Katakana and Hangul.
fn is_run(c: char) -> bool {
    matches!(c, '\u{30a0}'..='\u{30ff}' | '\u{31f0}'..='\u{31ff}' | '\u{ac00}'..='\u{d7a3}')
}

/// Whether two characters with this between them are a pair.
fn is_together(between: &str, last: Option<char>, first: char) -> bool {
    between.is_empty()
        || between.len() <= MAX_GAP_BYTES
            && last.is_some_and(is_broken_anywhere)
            && is_broken_anywhere(first)
            && is_line_end(between)
}

/// What is between the end of a word and the next one: nothing, if one sign is both.
fn between<'a>(text: &'a str, end: usize, next: &Word) -> &'a str {
    text.get(end..next.at).unwrap_or_default()
}

/// Whether one line ends in what is between two words, and nothing else is there.
fn is_line_end(between: &str) -> bool {
    line_ends(between) == Some(1)
}

/// How many lines end in what is between two words, if nothing else is there. A page that ends with a
/// line is the same end.
fn line_ends(between: &str) -> Option<usize> {
    let (mut count, mut last) = (0, ' ');
    for c in between.chars() {
        match c {
            ' ' | '\t' | '\u{a0}' | '\u{3000}' => continue,
            '\n' if matches!(last, '\r' | '\u{c}') => {}
            '\u{c}' if last != ' ' => {}
            '\n' | '\r' | '\u{b}' | '\u{c}' | '\u{85}' | '\u{2028}' | '\u{2029}' => count += 1,
            _ => return None,
        }
        last = c;
    }
    Some(count)
}

// ── Words over hyphenated lines ──────────────────────────────────────────────

const HYPHENS: [char; 3] = ['-', '\u{2010}', '\u{2011}'];
const SOFT_HYPHEN: char = '\u{ad}';

/// Whether a line of a text ends in a hyphen or a soft one, so that two words of it may be [`joined`].
pub fn has_hyphenated_line(text: &str) -> bool {
    text.match_indices(|c: char| HYPHENS.contains(&c) || c == SOFT_HYPHEN).any(|(at, hyphen)| {
        let rest = &text[at + hyphen.len()..];
        let end = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
        line_ends(&rest[..end]).is_some_and(|count| count > 0)
    })
}

/// Returns the word that two of a text are if a line was hyphenated between them, whose rest may be on
/// the next page: both are letters, and the second does not begin with a capital, unless all are
/// capitals.
pub fn joined(text: &str, one: &Word, next: &Word) -> Option<String> {
    let between = text.get(one.end..next.at).filter(|gap| gap.len() <= MAX_GAP_BYTES)?;
    let is_soft = one.written.ends_with(SOFT_HYPHEN);
    let line_end = between.strip_prefix(HYPHENS).or(is_soft.then_some(between))?;
    let goes_on = |c: char| c.is_lowercase() || c.is_uppercase() && is_capitals(one, next);
    let is_hyphenated = line_ends(line_end).is_some_and(|count| count > 0)
        && one.written.chars().next_back().is_some_and(|c| c.is_alphabetic() || is_mark(c))
        && next.written.chars().next().is_some_and(goes_on);
    is_hyphenated.then(|| folded(&format!("{}{}", one.written, next.written)).into_owned())
}

/// Whether no letter of two words is a small one, and the first has capitals.
fn is_capitals(one: &Word, next: &Word) -> bool {
    let is_small = |word: &Word| word.written.contains(char::is_lowercase);
    one.written.contains(char::is_uppercase) && !is_small(one) && !is_small(next)
}

// ── Documents ────────────────────────────────────────────────────────────────

/// A term of a document.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Term {
    /// How often it occurs, at most 255; an occurrence in the name counts thrice.
    pub frequency: u8,
    /// Where it first occurs in the text, in bytes; none if it is in the name only.
    pub first_at: Option<u32>,
}

/// The words of a document.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DocumentWords {
    /// Each different term, as far as the document is found by it, in the order of their bytes.
    pub terms: Vec<(String, Term)>,
    /// The number of words in its text.
    pub count: u32,
}

type Terms = HashMap<String, Term>;

impl DocumentWords {
    /// Returns the words of a document.
    pub fn of(name: &str, text: &str) -> Self {
        let mut found = Found::default();
        found.add_all(name, NAME_WEIGHT, |_| None);
        // Texts are far smaller than 4 GiB.
        let count = found.add_all(text, 1, |at| u32::try_from(at).ok());
        DocumentWords { terms: found.into_terms(), count }
    }
}

impl DocumentWords {
    /// Adds the stems of the words in a language: those by which a word is not found anyway. Of 50,000
    /// words it takes some 0.5 s.
    pub fn with_stems(self, language: Language) -> Self {
        self.with_stems_of(language, |_| true)
    }

    /// The same of those words alone that are `wanted`, without their accents.
    pub fn with_stems_of(mut self, language: Language, wanted: impl Fn(&str) -> bool) -> Self {
        let mut stems = Terms::new();
        for (word, term) in &self.terms {
            if word.starts_with(['~', '&', '^']) {
                continue;
            }
            let bare = bare(word);
            if !wanted(&bare) {
                continue;
            }
            let stem = language.stem(word);
            let other = language.stem_without_accents(word, &stem);
            for stem in [Some(stem), other].into_iter().flatten().filter(|stem| *stem != bare) {
                stems.entry(language.stem_term(&stem)).or_default().merge(*term);
            }
        }
        self.terms.extend(stems);
        self.terms.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        self
    }

    /// How many bytes they take in memory.
    pub fn bytes(&self) -> usize {
        let row = size_of::<(String, Term)>();
        self.terms.iter().map(|(term, _)| row + term.capacity()).sum()
    }
}

/// The terms of a document, by kind.
#[derive(Default)]
struct Found {
    words: Terms,
    /// Words that are parts of others, and over hyphenated lines.
    others: Terms,
    pairs: Terms,
}

impl Found {
    /// Adds the words of a text; returns their number.
    fn add_all(&mut self, text: &str, weight: u32, at: impl Fn(usize) -> Option<u32>) -> u32 {
        let (mut count, mut pairs, mut last) = (0_u32, Pairs::default(), None);
        for word in words(text) {
            count = count.saturating_add(1);
            let (form, first_at) = (folded(&word.written), at(word.at));
            add(&mut self.words, &form, weight, first_at);
            pairs.add(text, &word, &form, |pair| add(&mut self.pairs, &pair, weight, first_at));
            for piece in &word.pieces {
                let own = folded(piece.written);
                // What a sign is without reading it may be no word: `(1)`.
                if own != form && !own.contains(is_cut) {
                    add(&mut self.others, &own, weight, at(piece.at));
                }
            }
            if let Some((last, last_at)) = last
                && let Some(whole) = joined(text, &last, &word)
            {
                add(&mut self.others, &whole, weight, last_at);
            }
            last = Some((word, first_at));
        }
        count
    }

    fn into_terms(self) -> Vec<(String, Term)> {
        let Found { mut words, others, pairs } = self;
        for (word, term) in others {
            words.entry(word).or_default().merge(term);
        }
        let mut without_accents = Terms::new();
        for (word, term) in &words {
            let bare = bare(word);
            if *bare != **word {
                without_accents.entry(bare_term(&bare)).or_default().merge(*term);
            }
        }
        let mut terms: Vec<_> = words.into_iter().chain(without_accents).chain(pairs).collect();
        terms.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        terms
    }
}

fn add(found: &mut Terms, term: &str, weight: u32, at: Option<u32>) {
    if let Some(known) = found.get_mut(term) {
        known.add(weight, at);
    } else if found.len() < MAX_TERMS {
        found.entry(term.into()).or_default().add(weight, at);
    }
}

impl Term {
    fn add(&mut self, weight: u32, at: Option<u32>) {
        let frequency = u32::from(self.frequency).saturating_add(weight);
        self.frequency = u8::try_from(frequency).unwrap_or(u8::MAX);
        self.first_at = self.first_at.or(at);
    }

    /// Adds other occurrences.
    fn merge(&mut self, other: Term) {
        self.frequency = self.frequency.saturating_add(other.frequency);
        self.first_at = earlier(self.first_at, other.first_at);
    }

    /// Adds what is known from elsewhere of the same occurrences.
    pub fn unite(&mut self, other: Term) {
        self.frequency = self.frequency.max(other.frequency);
        self.first_at = earlier(self.first_at, other.first_at);
    }
}

fn earlier(one: Option<u32>, other: Option<u32>) -> Option<u32> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        words(text).map(|word| folded(&word.written).into_owned()).collect()
    }

    fn terms(text: &str) -> Vec<String> {
        DocumentWords::of("", text).terms.into_iter().map(|(term, _)| term).collect()
    }

    #[test]
    fn words_are_cut_at_punctuation_and_ideographs_stand_alone() {
        assert_eq!(
            all("Release-notes, für Ärzte: v2.1"),
            ["release", "notes", "für", "ärzte", "v2", "1"]
        );
        assert_eq!(
            all("snake_case can't example.com"),
            ["snake", "case", "can", "t", "example", "com"]
        );
        assert_eq!(all("日本語 カタカナ"), ["日", "本", "語", "カタカナ"]);
        assert_eq!(all("हिन्दी"), ["हिन्दी"]);
        assert_eq!(all(" -!\n\u{0}"), Vec::<String>::new());
        assert_eq!(all("\u{301} \u{ad}\u{ad} \u{3164}\u{115f}"), Vec::<String>::new());
    }

    #[test]
    fn words_are_compared_without_regard_to_case_and_form() {
        assert_eq!(folded("cafe\u{301}"), "café");
        assert_eq!(folded("ＡＢＣ"), "abc");
        assert_eq!(folded("ÄRZTE"), folded("ärzte"));
        assert_eq!(all("ΟΔΥΣΣΕΥΣ GRÖSSE depart\u{ad}ment"), all("οδυσσευς Größe department"));
        assert_eq!(folded(&"A".repeat(100)), "a".repeat(MAX_WORD_CHARS));
        assert_eq!(folded(&"ß".repeat(100)), "s".repeat(MAX_WORD_CHARS));
        assert_eq!(bare(&"æ".repeat(40)), "ae".repeat(20));
    }

    #[test]
    fn a_word_knows_where_it_is() {
        let text = "äh, example.com";
        let found: Vec<_> = words(text).map(|word| &text[word.at..word.end]).collect();
        assert_eq!(found, ["äh", "example", "com"]);
    }

    #[test]
    fn a_word_with_accents_is_a_term_with_and_without_them() {
        assert_eq!(terms("Café cafe"), ["cafe", "café", "~cafe"]);
        assert_eq!(terms("plain"), ["plain"]);
    }

    #[test]
    fn a_word_has_a_term_for_its_stem_unless_it_is_one() {
        let of = DocumentWords::of("Answering", "Answers answer cafés café, 日本")
            .with_stems(Language::En);
        let terms: Vec<&str> = of.terms.iter().map(|(term, _)| term.as_str()).collect();
        let plain = ["answer", "answering", "answers", "café", "cafés"];
        let marked = ["&日本", "^en:answer", "^en:cafe"];
        assert_eq!(terms, [&marked[..], &plain, &["~cafe", "~cafes", "日", "本"]].concat());
        assert_eq!(term(&of, "^en:answer"), Term { frequency: 4, first_at: Some(0) });
    }

    #[test]
    fn scripts_without_blanks_have_pairs_beside_their_words() {
        assert_eq!(terms("日本語"), ["&日本", "&本語", "日", "本", "語"]);
        assert_eq!(terms("日\n本, 語"), ["&日本", "日", "本", "語"]);
        assert_eq!(terms("日\n\u{c}本\n\n語"), ["&日本", "日", "本", "語"]);
        assert_eq!(terms("カタカナ字"), ["&カタ", "&カナ", "&タカ", "&ナ字", "カタカナ", "字"]);
        assert_eq!(terms("학교에서 나"), ["&교에", "&에서", "&학교", "나", "학교에서"]);
        assert_eq!(terms("a日b"), ["a", "b", "日"]);
        let thai = terms("ภาษาไทย");
        assert!(thai.contains(&"&ไท".to_string()), "{thai:?}");
    }

    #[test]
    fn a_word_over_a_hyphenated_line_is_found_whole_and_in_its_parts() {
        assert_eq!(terms("exam-\nple"), ["exam", "example", "ple"]);
        assert_eq!(terms("exam\u{2010} \r\n  ple"), ["exam", "example", "ple"]);
        assert_eq!(terms("soft\u{ad}\nware"), ["soft", "software", "ware"]);
        for end in ["\n\u{c}", "\u{c}", "\r\n\r\n", "\u{2028}", "\u{85}", "\r", " \n\n \u{c}\n "] {
            assert_eq!(terms(&format!("hippo-{end}potamus"))[1], "hippopotamus", "{end:?}");
        }
        for heading in ["GIRAF-\nFES", "GIRAF\u{ad}\nFES", "GIRAF-\n\u{c}FES"] {
            assert_eq!(terms(heading), ["fes", "giraf", "giraffes"], "{heading}");
        }
        // As on one line.
        assert_eq!(terms("COVID-\n19"), terms("COVID-19"));
        for apart in
            ["exam-ple", "exam-\nPle", "exam -\nple", "2-\nple", "exam\nple", "exam-\n-ple"]
        {
            assert!(!terms(apart).iter().any(|term| term.starts_with("example")), "{apart}");
        }
    }

    #[test]
    fn a_word_with_signs_is_found_whole_and_in_its_pieces() {
        assert_eq!(terms("CO₂"), ["2", "co", "co2"]);
        assert_eq!(terms("zero\u{200b}width"), ["width", "zero", "zerowidth"]);
        assert_eq!(terms("⑴ ½"), ["1", "2"]);
        assert_eq!(terms("㍿"), ["&会社", "&式会", "&株式", "会", "式", "株", "社"]);
        assert_eq!(terms("日\u{200b}本"), ["&日本", "日", "本"]);
        let of = DocumentWords::of("", "a CO₂ co");
        assert_eq!(of.count, 3);
        assert_eq!(term(&of, "co"), Term { frequency: 2, first_at: Some(2) });
        assert_eq!(term(&of, "co2"), Term { frequency: 1, first_at: Some(2) });
        assert_eq!(term(&of, "2"), Term { frequency: 1, first_at: Some(4) });
    }

    fn term(of: &DocumentWords, term: &str) -> Term {
        of.terms.iter().find(|(own, _)| own == term).unwrap().1
    }

    #[test]
    fn a_documents_words_are_counted_and_those_of_its_name_count_thrice() {
        let of = DocumentWords::of("Guide", "A guide: the first guide.");
        assert_eq!(of.count, 5);
        assert_eq!(term(&of, "guide"), Term { frequency: 5, first_at: Some(2) });
        assert_eq!(term(&of, "first"), Term { frequency: 1, first_at: Some(13) });
        assert!(of.terms.is_sorted_by(|(one, _), (other, _)| one < other));
        let of = DocumentWords::of("", "exam-\nple, example");
        assert_eq!(term(&of, "example"), Term { frequency: 2, first_at: Some(0) });
        let of = DocumentWords::of("Only here", &"x ".repeat(300));
        assert_eq!(term(&of, "only"), Term { frequency: 3, first_at: None });
        assert_eq!(term(&of, "x"), Term { frequency: 255, first_at: Some(0) });
    }

    #[test]
    fn a_document_is_found_by_a_bounded_number_of_words() {
        let text: String = (0..MAX_TERMS + 10).map(|n| format!("w{n} ")).collect();
        let of = DocumentWords::of("", &text);
        assert_eq!(of.terms.len(), MAX_TERMS);
        assert_eq!(of.count as usize, MAX_TERMS + 10);
    }

    #[test]
    fn pairs_do_not_displace_words() {
        let pairs: String = (0..400_u32)
            .flat_map(|n| (0..400).flat_map(move |m| [0x4e00 + n, 0x5e00 + m]))
            .map(|c| char::from_u32(c).unwrap())
            .collect();
        let of = DocumentWords::of("", &format!("{pairs} last"));
        assert_eq!(term(&of, "last").frequency, 1);
        let of_kind =
            |is_pair| of.terms.iter().filter(|(t, _)| t.starts_with('&') == is_pair).count();
        assert_eq!((of_kind(true), of_kind(false)), (MAX_TERMS, 801));
    }

    #[test]
    fn every_word_of_before_is_found_in_its_form_of_then_or_of_now() {
        for c in ('\u{80}'..='\u{323af}').filter(|c| c.is_alphanumeric()) {
            let word = c.to_string();
            let old = earlier_form(&word);
            assert_eq!(folded(&old), folded(&word), "{c:?}");
        }
    }
}
