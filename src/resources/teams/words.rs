//! The words and phrases by which memories and messages are found (reference: teams-and-wakes,
//! "Memories").

use std::borrow::Cow;
use std::cell::LazyCell;
use std::collections::BTreeMap;

use crate::base::{Issue, fold, without_accents};

/// Different words of a search. They are looked for one after another, in each text.
const MAX_WORDS: usize = 32;

/// What is searched for, each with whether it has accents.
pub struct Words(BTreeMap<Sought, bool>);

/// A part of a search, folded.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Sought {
    /// Anywhere in a text.
    Word(String),
    /// Where a word begins.
    Beginning(String),
    /// With single blanks, and its words alone.
    Phrase(String, String),
}

impl Words {
    /// Adds the problem of a parameter `q` with too many words.
    pub fn check(q: Option<&str>, issues: &mut Vec<Issue>) {
        if Words::of(q).0.len() > MAX_WORDS {
            issues.push(Issue::new("q", format!("must have at most {MAX_WORDS} different words")));
        }
    }

    /// Returns the words of a search; none of nothing.
    pub fn of(q: Option<&str>) -> Self {
        let words: Vec<&str> = q.unwrap_or_default().split_whitespace().collect();
        let last_close = words.iter().rposition(|word| word.ends_with('"'));
        let (mut found, mut at) = (BTreeMap::new(), 0);
        while at < words.len() {
            let may_close = last_close.is_some_and(|last| at <= last);
            let phrase = if may_close { phrase(&words[at..]) } else { None };
            let (sought, count) = match phrase {
                Some((phrase, count)) => (Sought::phrase(&phrase), count),
                None => (Sought::word(words[at]), 1),
            };
            let has_accents = without_accents(sought.text()) != sought.text();
            found.insert(sought, has_accents);
            at += count;
        }
        Words(found)
    }

    /// Whether each of them occurs in one of these texts.
    pub fn match_all(&self, texts: &[&str]) -> bool {
        let mut left: Vec<_> = self.0.iter().collect();
        let has_phrases = self.0.keys().any(|sought| matches!(sought, Sought::Phrase(..)));
        for text in texts {
            if left.is_empty() {
                break;
            }
            let mut text = fold(text);
            if has_phrases {
                text = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
            }
            let bare = LazyCell::new(|| without_accents(&text));
            let words = LazyCell::new(|| words_alone(&text));
            let bare_words = LazyCell::new(|| without_accents(&words));
            left.retain(|(sought, has_accents)| {
                !(sought.is_in(&text, || &words)
                    || !**has_accents && sought.is_in(&bare, || &bare_words))
            });
        }
        left.is_empty()
    }
}

impl Sought {
    fn word(written: &str) -> Self {
        let word = folded(written);
        match word.strip_suffix('*') {
            // What has letters and digits alone begins in no two places that overlap.
            Some(begin) if begin.chars().nth(1).is_some() && !begin.contains(is_between) => {
                Sought::Beginning(begin.into())
            }
            _ => Sought::Word(word.into_owned()),
        }
    }

    fn phrase(written: &str) -> Self {
        let phrase = folded(written).into_owned();
        let words = words_alone(&phrase);
        Sought::Phrase(phrase, words)
    }

    fn text(&self) -> &str {
        match self {
            Sought::Word(text) | Sought::Beginning(text) | Sought::Phrase(text, _) => text,
        }
    }

    /// Whether it is in a text, whose words alone are these.
    fn is_in<'a>(&self, text: &str, words: impl FnOnce() -> &'a str) -> bool {
        match self {
            Sought::Word(word) => text.contains(word),
            Sought::Beginning(begin) => text
                .match_indices(begin)
                .any(|(at, _)| text[..at].chars().next_back().is_none_or(is_between)),
            Sought::Phrase(phrase, own) => {
                // One word with signs, such as C++, is not meant without them.
                let has_words = own.contains(' ');
                text.contains(phrase)
                    || has_words && format!(" {} ", words()).contains(&format!(" {own} "))
            }
        }
    }
}

/// Folds what is searched for. What has invisible characters alone stays, which are in no folded text.
fn folded(written: &str) -> Cow<'_, str> {
    let folded = fold(written);
    if folded.is_empty() { written.into() } else { folded }
}

/// Whether a character separates words.
fn is_between(c: char) -> bool {
    !c.is_alphanumeric() && !unicode_normalization::char::is_combining_mark(c)
}

/// Returns the words of a folded text with single blanks between them, whatever is there.
fn words_alone(folded: &str) -> String {
    let words: Vec<&str> = folded.split(is_between).filter(|word| !word.is_empty()).collect();
    words.join(" ")
}

/// Returns the phrase in quotes with which these words begin, and how many words it has. Quotes that
/// do not close are characters as others.
fn phrase(words: &[&str]) -> Option<(String, usize)> {
    let first = words.first()?.strip_prefix('"')?;
    let end = match first.strip_suffix('"') {
        Some(_) => 0,
        None => 1 + words[1..].iter().position(|word| word.ends_with('"'))?,
    };
    let phrase = words[..=end].join(" ");
    let phrase = phrase.trim_matches(['"', ' ']);
    (!phrase.is_empty()).then(|| (phrase.to_string(), end + 1))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn assert_found(text: &str, q: &str, is_found: bool) {
        assert_eq!(Words::of(Some(q)).match_all(&[text]), is_found, "{q}");
    }

    #[test]
    fn a_beginning_is_found_where_a_word_begins() {
        let text = "The Départment, (depot) state-of-the-art; x*y a* 北京大学";
        for q in
            ["depart*", "DÉPART*", "dep*", "art*", "the* art*", "x*y", "a*", "京大", "partment"]
        {
            assert_found(text, q, true);
        }
        for q in ["part*", "döpart*", "partm*", "京大*", "depart**", "e-o*", "*dep"] {
            assert_found(text, q, false);
        }
    }

    #[test]
    fn a_phrase_is_found_over_punctuation() {
        let text = "A state-of-the-art design,\n\"on  call\" C++ CO₂ emission";
        for q in [
            "\"state of the art\"",
            "\"state-of-the-art\"",
            "state-of-the-art",
            "\"design on call\"",
            "\"C++\"",
            "\"c co2 emission\"",
            "\"art design\"",
        ] {
            assert_found(text, q, true);
        }
        for q in [
            "\"state the art\"",
            "\"C--\"",
            "\"C#\"",
            "\".des\"",
            "\"tate of\" the-x",
            "\"art. des\"",
            "state_of",
            "\"+ +\"",
            "\"call on\"",
        ] {
            assert_found(text, q, false);
        }
    }

    proptest! {
        #[test]
        fn what_a_text_begins_with_is_found(text in "[a-zé日\\u{301}.\\-]{1,12}( [a-z*\"]{1,9}){0,3}") {
            let first = text.split_whitespace().next().unwrap_or_default();
            prop_assert!(Words::of(Some(first)).match_all(&[&text]), "{}", first);
            let words = words_alone(&fold(&text));
            let phrase = format!("\"{words}\"");
            prop_assert!(words.is_empty() || Words::of(Some(&phrase)).match_all(&[&text]));
        }

        #[test]
        fn any_search_has_an_answer(q in "\\PC{0,20}|[a\"* é-]{0,20}", text in "\\PC{0,40}") {
            Words::of(Some(&q)).match_all(&[&text, &q]);
        }
    }
}
