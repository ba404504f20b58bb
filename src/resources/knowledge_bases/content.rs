//! The rows of a content: its text in pieces, beside its words.

use std::ops::ControlFlow;
use std::sync::Arc;

use bincode::{Decode, Encode};

use super::document::DocumentContent;
use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::language::Language;
use super::terms::{DocumentTerms, edge};
use super::words::DocumentWords;
use crate::api::Calls;
use crate::base::{Error, Id, Result};
use crate::store::{AnyReference, Export, Key, ListSource, Order, Record, Reference, Tx, View};

/// The stems of so many words are found within a transaction: in a millisecond at most.
const FEW_TERMS: usize = 100;

/// A piece of text has at most 16 KiB: a passage is cut from one or two of them.
const PIECE_BYTES: usize = 16 * 1024;

/// One transaction writes some 1 MiB of a content: a few milliseconds, during which other writes
/// wait.
pub const PART_BYTES: usize = 1024 * 1024;

crate::base::portable! {
/// A piece of the text of a content.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DocumentText {
    knowledge_base: Id<KnowledgeBase>,
    ordinal: Ordinal,
    /// Where it begins in the text, in bytes.
    at: u32,
    text: String,
}
}

fn of_content(content: &DocumentContent) -> Vec<u8> {
    content.key().to_bytes()
}

static TEXT_OF: Reference<DocumentText, DocumentContent> =
    Reference::cascade(&["knowledge_base"], of_content, |text: &DocumentText, _| {
        vec![(text.knowledge_base, text.ordinal).to_bytes()]
    })
    .deferred();

impl Record for DocumentText {
    const TABLE: &'static str = "document_texts";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TEXT_OF];
    type Key = (Id<KnowledgeBase>, Ordinal, u32);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.ordinal, self.at)
    }
}

// ── Writing ──────────────────────────────────────────────────────────────────

/// A document's text and words, before they are stored.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    pub text: String,
    pub words: Arc<DocumentWords>,
    /// The words with their stems in a language.
    stemmed: Option<(Language, Arc<DocumentWords>)>,
}

/// How far a content is stored: the bytes of its text, then the number of its words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stored {
    pub text_bytes: usize,
    pub terms: usize,
}

impl Prepared {
    /// Returns a document's text with its words.
    pub fn new(name: &str, text: String) -> Self {
        let words = DocumentWords::of(name, &text);
        Self::of(text, words)
    }

    /// Returns a text with these words.
    pub fn of(text: String, words: DocumentWords) -> Self {
        Prepared { text, words: Arc::new(words), stemmed: None }
    }

    /// Returns it with the stems in a language, if there is one.
    pub fn stemmed(self, language: Option<Language>) -> Self {
        let of = |language| (language, Arc::new((*self.words).clone().with_stems(language)));
        Prepared { stemmed: language.map(of), ..self }
    }

    /// Returns the words as they are stored in a knowledge base of this language. The stems of many words
    /// take too long to find for a transaction: they are work of the request, unless they are known.
    ///
    /// # Errors
    /// 500 if they are not found yet: the run is discarded.
    pub fn words_in(
        &self,
        language: Option<Language>,
        calls: &mut Calls,
    ) -> Result<Arc<DocumentWords>> {
        let Some(language) = language else { return Ok(self.words.clone()) };
        if let Some((known, words)) = &self.stemmed
            && *known == language
        {
            return Ok(words.clone());
        }
        if self.words.terms.len() <= FEW_TERMS {
            return Ok(Arc::new((*self.words).clone().with_stems(language)));
        }
        // A request has one text.
        let mut tag = [0; 32];
        tag[..2].copy_from_slice(language.code().as_bytes());
        let words = self.words.clone();
        let compute = move || (*words).clone().with_stems(language);
        let found = calls.computed(tag, compute, DocumentWords::bytes);
        found.ok_or_else(|| Error::internal("the stems are not found yet"))
    }

    /// Stores the next part, with these words: as much as one transaction should write. Returns how far
    /// it is stored then, and whether this is all of it.
    pub fn store(
        &self,
        tx: &mut Tx,
        (knowledge_base, ordinal): (Id<KnowledgeBase>, Ordinal),
        DocumentWords { terms, .. }: &DocumentWords,
        mut stored: Stored,
    ) -> Result<(Stored, bool)> {
        let mut room = PART_BYTES;
        while stored.text_bytes < self.text.len() && room > 0 {
            let rest = &self.text[stored.text_bytes..];
            let text = &rest[..boundary_before(rest, PIECE_BYTES)];
            let at = u32::try_from(stored.text_bytes).map_err(Error::internal)?;
            tx.insert(&DocumentText { knowledge_base, ordinal, at, text: text.into() })?;
            stored.text_bytes += text.len();
            room = room.saturating_sub(text.len());
        }
        while stored.terms < terms.len() && room > 0 {
            let rest = terms[stored.terms..].iter();
            let rest = rest.map(|(word, term)| (word.as_str(), *term));
            let (row, count) = DocumentTerms::of_first((knowledge_base, ordinal), rest);
            room = room.saturating_sub(row.bytes());
            tx.insert(&row)?;
            stored.terms += count;
        }
        let is_all = stored.text_bytes == self.text.len() && stored.terms == terms.len();
        Ok((stored, is_all))
    }
}

/// Returns the last position in a text, up to this one, that is between two characters.
pub fn boundary_before(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0)
}

/// Returns the text of a content.
pub fn text(view: &View, content: (Id<KnowledgeBase>, Ordinal)) -> Result<String> {
    let mut whole = String::new();
    view.for_each(ListSource::TABLE, &content, Order::Ascending, |row: DocumentText| {
        whole.push_str(&row.text);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(whole)
}

/// Returns the length of the text of a content, in bytes.
pub fn text_bytes(view: &View, (base, ordinal): (Id<KnowledgeBase>, Ordinal)) -> Result<usize> {
    let (start, end) = ((base, ordinal, 0), (base, ordinal, u32::MAX));
    let last = edge::<DocumentText>(view, &start, &end, Order::Descending)?;
    Ok(last.map_or(0, |last| last.at as usize + last.text.len()))
}

/// Returns a part of the text of a content of at least this many bytes, if there are as many, that
/// begins at or before the offset `at`, and where it begins.
pub fn text_from(
    view: &View,
    (base, ordinal): (Id<KnowledgeBase>, Ordinal),
    at: u32,
    bytes: usize,
) -> Result<(usize, String)> {
    let end = (base, ordinal, at.saturating_add(1));
    let first = edge::<DocumentText>(view, &(base, ordinal, 0), &end, Order::Descending)?;
    let Some(DocumentText { at: begin, mut text, .. }) = first else {
        return Ok((0, String::new()));
    };
    let begin = begin as usize;
    while begin + text.len() < at as usize + bytes {
        let next = (base, ordinal, u32::try_from(begin + text.len()).map_err(Error::internal)?);
        let Some(row) = view.get::<DocumentText>(&next)? else { break };
        text.push_str(&row.text);
    }
    Ok((begin, text))
}
