//! The words and phrases by which memories and messages are found (reference: teams-and-wakes,
//! "Memories").

use std::cell::LazyCell;
use std::collections::BTreeMap;

use crate::base::{Issue, fold, without_accents};

/// Different words of a search. They are looked for one after another, in each text.
const MAX_WORDS: usize = 32;

/// The words and phrases of a search, folded, each with whether it has accents.
pub struct Words(BTreeMap<String, bool>);

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
            let (word, count) = phrase.unwrap_or_else(|| (words[at].to_string(), 1));
            let folded = fold(&word).into_owned();
            // One of invisible characters alone is in no folded text.
            let word = if folded.is_empty() { word } else { folded };
            let has_accents = without_accents(&word) != word;
            found.insert(word, has_accents);
            at += count;
        }
        Words(found)
    }

    /// Whether each of them occurs in one of these texts.
    pub fn match_all(&self, texts: &[&str]) -> bool {
        let mut left: Vec<_> = self.0.iter().collect();
        let has_phrases = self.0.keys().any(|word| word.contains(' '));
        for text in texts {
            if left.is_empty() {
                break;
            }
            let mut text = fold(text);
            if has_phrases {
                text = text.split_whitespace().collect::<Vec<_>>().join(" ").into();
            }
            let bare = LazyCell::new(|| without_accents(&text));
            left.retain(|(word, has_accents)| {
                !(text.contains(*word) || !**has_accents && bare.contains(*word))
            });
        }
        left.is_empty()
    }
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
