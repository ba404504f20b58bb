//! The languages in which a search finds other forms of a word, and the stems by which it does.
//!
//! Stems are stored: the same words must have the same ones in all versions, or documents be indexed
//! anew (`IndexForm`).

use snowball_stemmers_rs::{Algorithm, Stemmer};

pub use crate::base::Language;
use crate::base::without_accents;

/// A stem counts up to its 40th character, as a word does.
const MAX_STEM_CHARS: usize = 40;

/// An accent is looked for in the last five letters: no ending that depends on one is longer, and each
/// letter is some more stems to find.
const MAX_ENDING_CHARS: usize = 5;

/// Terms that are stems begin so; no others are between [`STEM`] and [`AFTER_STEMS`].
pub const STEM: &str = "^";
/// See [`STEM`].
pub const AFTER_STEMS: &str = "_";

crate::store::stored_enum!(Language {
    Cs = 0,
    Da = 1,
    De = 2,
    En = 3,
    Es = 4,
    Fi = 5,
    Fr = 6,
    Hu = 7,
    It = 8,
    Nl = 9,
    No = 10,
    Pl = 11,
    Pt = 12,
    Ro = 13,
    Ru = 14,
    Sv = 15,
    Tr = 16,
    Uk = 17,
});

impl Language {
    /// Returns the stem of a folded word, without accents.
    pub fn stem(self, folded: &str) -> String {
        // Each by its constant, so that the program has no others.
        let stemmer = match self {
            Language::Cs => Stemmer::create(Algorithm::Czech),
            Language::Da => Stemmer::create(Algorithm::Danish),
            Language::De => Stemmer::create(Algorithm::German),
            Language::En => Stemmer::create(Algorithm::English),
            Language::Es => Stemmer::create(Algorithm::Spanish),
            Language::Fi => Stemmer::create(Algorithm::Finnish),
            Language::Fr => Stemmer::create(Algorithm::French),
            Language::Hu => Stemmer::create(Algorithm::Hungarian),
            Language::It => Stemmer::create(Algorithm::Italian),
            Language::Nl => Stemmer::create(Algorithm::Dutch),
            Language::No => Stemmer::create(Algorithm::Norwegian),
            Language::Pl => Stemmer::create(Algorithm::Polish),
            Language::Pt => Stemmer::create(Algorithm::Portuguese),
            Language::Ro => Stemmer::create(Algorithm::Romanian),
            Language::Ru => Stemmer::create(Algorithm::Russian),
            Language::Sv => Stemmer::create(Algorithm::Swedish),
            Language::Tr => Stemmer::create(Algorithm::Turkish),
            Language::Uk => Stemmer::create(Algorithm::Ukrainian),
        };
        let stem = stemmer.stem(folded);
        // A word may be nothing but endings.
        let stem = if stem.is_empty() { folded } else { &stem };
        without_accents(stem).chars().take(MAX_STEM_CHARS).collect()
    }

    /// The letters with accents that its rules know in endings, after how they are without them.
    fn endings(self) -> &'static [(&'static str, &'static str)] {
        match self {
            Language::Cs => {
                &[("a", "á"), ("e", "é"), ("e", "ě"), ("i", "í"), ("u", "ů"), ("y", "ý")]
            }
            Language::Es => &[("a", "á"), ("e", "é"), ("i", "í"), ("o", "ó"), ("u", "ú")],
            Language::Fr => &[("a", "â"), ("e", "è"), ("e", "é"), ("e", "ê"), ("i", "î")],
            Language::Hu => &[
                ("a", "á"),
                ("e", "é"),
                ("i", "í"),
                ("o", "ó"),
                ("o", "ő"),
                ("u", "ú"),
                ("u", "ű"),
            ],
            Language::It => {
                &[("a", "à"), ("e", "è"), ("e", "é"), ("i", "ì"), ("o", "ò"), ("u", "ù")]
            }
            Language::Pl => &[
                ("a", "ą"),
                ("c", "ć"),
                ("e", "ę"),
                ("l", "ł"),
                ("o", "ó"),
                ("s", "ś"),
                ("z", "ż"),
            ],
            Language::Pt => &[
                ("ca", "çã"),
                ("co", "çõ"),
                ("a", "á"),
                ("a", "ã"),
                ("a", "â"),
                ("c", "ç"),
                ("e", "é"),
                ("e", "ê"),
                ("i", "í"),
                ("o", "ó"),
                ("o", "õ"),
            ],
            Language::Ro => &[("a", "ă"), ("a", "â"), ("i", "î"), ("s", "ș"), ("t", "ț")],
            Language::Tr => {
                &[("c", "ç"), ("g", "ğ"), ("i", "ı"), ("o", "ö"), ("s", "ş"), ("u", "ü")]
            }
            // The rules of the others read endings without accents in the same way, or know none.
            _ => &[],
        }
    }

    /// Returns the stem that a word may have if it is spelled without its accents, or if another one is:
    /// the same for a word with accents and without them. `None` if that is its stem anyway.
    ///
    /// It is the shortest one of those that the word has with one accent in its ending.
    pub fn stem_without_accents(self, folded: &str, stem: &str) -> Option<String> {
        let endings = self.endings();
        if endings.is_empty() {
            return None;
        }
        let bare = without_accents(folded);
        let mut best = self.stem(&bare);
        let last = bare.char_indices().skip(2).map(|(at, _)| at);
        let last: Vec<usize> = last.collect();
        for at in last.iter().rev().take(MAX_ENDING_CHARS).copied() {
            for (plain, accented) in endings {
                let Some(rest) = bare[at..].strip_prefix(plain) else { continue };
                let other = self.stem(&format!("{}{accented}{rest}", &bare[..at]));
                // An accent before the ending changes nothing, or what the word is.
                if other.len() <= at && other.len() < best.len() {
                    best = other;
                }
            }
        }
        (best != stem).then_some(best)
    }

    /// Whether a word, without its accents, may have a stem that does not begin with its first letter:
    /// only Dutch has a beginning that is left out (`gelopen`, `loop`).
    pub fn may_begin_otherwise(self, bare: &str) -> bool {
        self == Language::Nl && bare.starts_with("ge")
    }

    /// Whether a term is a stem in another language, or in any if there is none now.
    pub fn is_of_other(language: Option<Self>, term: &str) -> bool {
        let Some(stem) = term.strip_prefix(STEM) else { return false };
        let is_of =
            |own: Language| stem.strip_prefix(own.code()).is_some_and(|rest| rest.starts_with(':'));
        !language.is_some_and(is_of)
    }

    /// Where the terms of its stems are: from the first of these, included, to the other.
    pub fn stem_span(self) -> (String, String) {
        // The character after the colon is the semicolon.
        (self.stem_term(""), format!("{STEM}{};", self.code()))
    }

    /// Returns the term for words of this stem.
    pub fn stem_term(self, stem: &str) -> String {
        format!("{STEM}{}:{stem}", self.code())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::base::{fold, fold_first};

    #[test]
    fn forms_of_a_word_have_one_stem() {
        // Stored stems: other ones need a new form of the index.
        for (language, words, stem) in [
            (Language::Cs, &["knihy", "knihou"][..], "knih"),
            (Language::Da, &["huset", "husene"], "hus"),
            (Language::De, &["Häuser", "Häusern", "Hauses"], "haus"),
            (Language::En, &["answer", "Answers", "answered", "answering"], "answer"),
            (Language::Es, &["canción", "canciones"], "cancion"),
            (Language::Fi, &["talossa", "talosta"], "talo"),
            (Language::Fr, &["chevaux", "cheval"], "cheval"),
            (Language::Hu, &["házak", "házakban"], "haz"),
            (Language::It, &["parlare", "parlato"], "parl"),
            (Language::Nl, &["huizen", "huis"], "huis"),
            (Language::No, &["husene", "huset"], "hus"),
            (Language::Pl, &["książki", "książkami"], "ksiazk"),
            (Language::Pt, &["livros", "livro"], "livr"),
            (Language::Ro, &["caselor", "casele"], "cas"),
            (Language::Ru, &["книги", "книгами"], "книг"),
            (Language::Sv, &["husen", "huset"], "hus"),
            (Language::Tr, &["evler", "evlerden"], "ev"),
            (Language::Uk, &["книги", "книгами"], "книг"),
        ] {
            for word in words {
                assert_eq!(language.stem(&fold(word)), stem, "{word} in {}", language.code());
            }
        }
    }

    #[test]
    fn forms_of_a_word_are_found_with_accents_and_without_them() {
        let stems = |language: Language, word: &str| {
            let stem = language.stem(&fold(word));
            let other = language.stem_without_accents(&fold(word), &stem);
            [Some(stem), other].into_iter().flatten().collect::<Vec<_>>()
        };
        // Stored stems: other ones need a new form of the index.
        for (language, with, without, other, stem) in [
            (Language::Cs, "knihách", "knihach", "kniha", "knih"),
            (Language::Es, "hablaría", "hablaria", "hablar", "habl"),
            (Language::Fr, "aimée", "aimee", "aimer", "aim"),
            (Language::Hu, "házból", "hazbol", "háznak", "haz"),
            (Language::It, "parlerò", "parlero", "parlare", "parl"),
            (Language::Pl, "zamków", "zamkow", "zamku", "zamk"),
            (Language::Pt, "colaboração", "colaboracao", "colaborar", "colabor"),
            (Language::Ro, "lucrătoare", "lucratoare", "lucrător", "lucrat"),
            (Language::Tr, "çocukları", "cocuklari", "çocuklar", "cocuk"),
        ] {
            let of = |word: &str| stems(language, word);
            let shared = |one: &str, other: &str| of(one).iter().any(|own| of(other).contains(own));
            assert!(
                shared(with, other) && shared(without, other),
                "{:?} {:?}",
                of(without),
                of(other)
            );
            assert!(of(without).contains(&stem.to_string()), "{without}: {:?}", of(without));
        }
        for (language, word) in
            [(Language::En, "café"), (Language::De, "Häuser"), (Language::Ru, "её")]
        {
            assert_eq!(stems(language, word).len(), 1);
        }
    }

    #[test]
    fn a_stem_is_of_one_language() {
        let of = |language, term| Language::is_of_other(language, term);
        assert!(of(None, "^en:answer") && of(Some(Language::De), "^en:answer"));
        assert!(!of(Some(Language::En), "^en:answer"));
        assert!(of(Some(Language::En), "^en") && of(Some(Language::En), "^enx:a"));
        assert!(!of(None, "answer") && !of(Some(Language::En), "~cafe") && !of(None, "&日本"));
        let (first, after) = Language::En.stem_span();
        let is_within = |term: &str| first.as_str() <= term && term < after.as_str();
        assert!(is_within("^en:a") && is_within("^en:\u{10ffff}"));
        assert!(!is_within("^de:z") && !is_within("^es:a"));
    }

    proptest! {
        #[test]
        fn any_word_has_a_stem(word in "\\PC{1,40}|[a-zäöüß'а-яії]{1,40}") {
            let word = fold_first(&word, MAX_STEM_CHARS).into_owned();
            for language in Language::all() {
                let stem = language.stem(&word);
                prop_assert!(word.is_empty() || !stem.is_empty());
                prop_assert!(stem.chars().count() <= 40);
                let other = language.stem_without_accents(&word, &stem);
                prop_assert!(other.is_none_or(|other| other.chars().count() <= 40));
            }
        }
    }
}
