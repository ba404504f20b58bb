//! Words of texts and queries, in the form in which they are compared.

use std::borrow::Cow;
use std::collections::HashMap;

use unicode_normalization::UnicodeNormalization as _;
use unicode_segmentation::UnicodeSegmentation as _;

/// A word counts up to its 40th character: longer ones are found by their beginning.
const MAX_WORD_CHARS: usize = 40;

/// A document is found by its first 65,536 different words: a text of 10 MiB in a natural language
/// has fewer, and an index of more would take longer to write than its text.
const MAX_TERMS: usize = 65_536;

/// An occurrence in the name of a document counts as three in its text.
const NAME_WEIGHT: u32 = 3;

/// A word in a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word<'a> {
    /// Where it begins, in bytes.
    pub at: usize,
    /// As it is written.
    pub written: &'a str,
}

/// Returns the words of a text in their order: words as Unicode defines them (UAX #29), which keeps
/// marks with their letters and separates ideographs, cut at punctuation within them, as in
/// `example.com`.
pub fn words(text: &str) -> impl Iterator<Item = Word<'_>> {
    text.unicode_word_indices().flat_map(|(start, found)| {
        let is_cut = |c: char| !c.is_alphanumeric() && !is_mark(c);
        let parts = found.split(is_cut).filter(|part| !part.is_empty());
        parts.map(move |part| {
            let at = start + (part.as_ptr() as usize - found.as_ptr() as usize);
            Word { at, written: part }
        })
    })
}

/// Whether a character belongs to the one before it. Others that are neither letters nor digits, and
/// that are in the middle of a word, are punctuation.
fn is_mark(c: char) -> bool {
    unicode_normalization::char::is_combining_mark(c) || matches!(c, '\u{200c}' | '\u{200d}')
}

/// Returns a word in the form in which words are compared: normalized (NFKC), in lower case, up to
/// its 40th character.
pub fn folded(written: &str) -> Cow<'_, str> {
    if written.is_ascii() {
        let written = &written[..written.len().min(MAX_WORD_CHARS)];
        let is_lower = !written.bytes().any(|byte| byte.is_ascii_uppercase());
        return if is_lower { written.into() } else { written.to_ascii_lowercase().into() };
    }
    let folded = written.nfkc().flat_map(char::to_lowercase).nfc();
    folded.take(MAX_WORD_CHARS).collect::<String>().into()
}

/// A word of a document.
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
    /// Each different word, as far as the document is found by it, in the order of their bytes.
    pub terms: Vec<(String, Term)>,
    /// The number of words in its text.
    pub count: u32,
}

impl DocumentWords {
    /// Returns the words of a document.
    pub fn of(name: &str, text: &str) -> Self {
        let (mut found, mut count) = (HashMap::new(), 0_u32);
        for word in words(name) {
            add(&mut found, &folded(word.written), NAME_WEIGHT, None);
        }
        for word in words(text) {
            count = count.saturating_add(1);
            // Texts are far smaller than 4 GiB.
            add(&mut found, &folded(word.written), 1, u32::try_from(word.at).ok());
        }
        let mut terms: Vec<_> = found.into_iter().collect();
        terms.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        DocumentWords { terms, count }
    }
}

fn add(found: &mut HashMap<String, Term>, term: &str, weight: u32, at: Option<u32>) {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str) -> Vec<String> {
        words(text).map(|word| folded(word.written).into_owned()).collect()
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
    }

    #[test]
    fn words_are_compared_without_regard_to_case_and_form() {
        assert_eq!(folded("cafe\u{301}"), "café");
        assert_eq!(folded("ＡＢＣ"), "abc");
        assert_eq!(folded("ÄRZTE"), folded("ärzte"));
        assert_eq!(folded(&"A".repeat(100)), "a".repeat(MAX_WORD_CHARS));
        assert_eq!(folded(&"ß".repeat(100)), "ß".repeat(MAX_WORD_CHARS));
    }

    #[test]
    fn a_word_knows_where_it_is() {
        let text = "äh, example.com";
        let found: Vec<_> =
            words(text).map(|word| &text[word.at..][..word.written.len()]).collect();
        assert_eq!(found, ["äh", "example", "com"]);
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
}
