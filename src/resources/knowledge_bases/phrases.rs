//! Phrases: whether the words of a query that are in quotes follow each other in a document.
//!
//! The index does not know where words are, so the texts of those documents are read that have all
//! words of a phrase, the best one first, up to a bound; a page of the search ends there.

use super::content::{boundary_before, text_bytes, text_from};
use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::phrase_places::phrase_in;
use super::query::Query;
use super::terms::DocumentTerms;
use super::words::Term;
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
