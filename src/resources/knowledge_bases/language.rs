//! The languages in which a search finds other forms of a word, and the stems by which it does.
//!
//! Stems are stored: the same words must have the same ones in all versions, or documents be indexed
//! anew (`IndexForm`).

use snowball_stemmers_rs::{Algorithm, Stemmer};

pub use crate::base::Language;
use crate::base::without_accents;

/// A stem counts up to its 40th character, as a word does.
const MAX_STEM_CHARS: usize = 40;

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

    /// Returns the term for words of this stem.
    pub fn stem_term(self, stem: &str) -> String {
        format!("^{}:{stem}", self.code())
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

    proptest! {
        #[test]
        fn any_word_has_a_stem(word in "\\PC{1,40}|[a-zäöüß'а-яії]{1,40}") {
            let word = fold_first(&word, MAX_STEM_CHARS).into_owned();
            for language in Language::all() {
                let stem = language.stem(&word);
                prop_assert!(word.is_empty() || !stem.is_empty());
                prop_assert!(stem.chars().count() <= 40);
            }
        }
    }
}
