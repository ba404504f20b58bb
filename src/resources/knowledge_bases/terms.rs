//! The words of a content, in rows of some hundred terms each.

use std::collections::BTreeMap;
use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::document::DocumentContent;
use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::language::{AFTER_STEMS, Language, STEM};
use super::varint;
use super::words::Term;
use crate::base::{Error, Id, Result};
use crate::store::{AnyReference, Export, Key, ListSource, Order, Record, Reference, Tx, View};

/// A row of words has some 4 KiB, about 300 words: to look one up costs as much.
const TERMS_BYTES: usize = 4 * 1024;

/// So many terms at most are added to the terms of a row at once: some 100 KiB.
const EXTENDED_TERMS: usize = 2_048;

/// The terms of a content that begin as one of a query are looked for in 4 rows: 1,200 terms.
const BEGINNING_ROWS: usize = 4;

crate::base::portable! {
/// Consecutive words of a content.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct DocumentTerms {
    knowledge_base: Id<KnowledgeBase>,
    ordinal: Ordinal,
    /// The first word.
    first: String,
    /// Each word with its term: see [`TermEntries`].
    entries: Vec<u8>,
}
}

static TERMS_OF: Reference<DocumentTerms, DocumentContent> = Reference::cascade(
    &["knowledge_base"],
    |content: &DocumentContent| content.key().to_bytes(),
    |terms: &DocumentTerms, _| vec![(terms.knowledge_base, terms.ordinal).to_bytes()],
)
.deferred();

impl Record for DocumentTerms {
    const TABLE: &'static str = "document_terms";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&TERMS_OF];
    type Key = (Id<KnowledgeBase>, Ordinal, String);
    fn key(&self) -> Self::Key {
        (self.knowledge_base, self.ordinal, self.first.clone())
    }
}

// ── Writing ──────────────────────────────────────────────────────────────────

impl DocumentTerms {
    /// Returns a row of the first of these terms, of which there is one, and how many it has.
    pub fn of_first<'a>(
        (knowledge_base, ordinal): (Id<KnowledgeBase>, Ordinal),
        terms: impl Iterator<Item = (&'a str, Term)>,
    ) -> (Self, usize) {
        let mut entries = Vec::with_capacity(TERMS_BYTES + 256);
        let (mut first, mut count) = (String::new(), 0);
        for (word, term) in terms {
            if count == 0 {
                first = word.into();
            } else if entries.len() >= TERMS_BYTES {
                break;
            }
            write_entry(word, term, &mut entries);
            count += 1;
        }
        (DocumentTerms { knowledge_base, ordinal, first, entries }, count)
    }

    /// Adds terms to those of a content that is complete: of these, which are in the order of their
    /// bytes, those after `after` that it does not have, or only from a later place in its text on,
    /// until `room` is used up.
    pub fn extend(
        tx: &mut Tx,
        content: (Id<KnowledgeBase>, Ordinal),
        terms: &[(String, Term)],
        after: &str,
        room: &mut usize,
    ) -> Result<Extended> {
        let mut rest = &terms[terms.partition_point(|(term, _)| term.as_str() <= after)..];
        let mut extended = Extended { is_changed: false, rest_after: None };
        let mut last = after;
        while let Some((first, _)) = rest.first() {
            if *room == 0 {
                extended.rest_after = Some(last.into());
                break;
            }
            // Terms before those of the first row are added to it.
            let row = match Self::up_to(&tx.view(), content, first)? {
                None => Self::after(&tx.view(), content, "")?,
                found => found,
            };
            let next = match &row {
                Some(row) => Self::after(&tx.view(), content, &row.first)?.map(|next| next.first),
                None => None,
            };
            let is_here = |term: &str| next.as_ref().is_none_or(|next| term < next.as_str());
            let here = rest.partition_point(|(term, _)| is_here(term)).min(EXTENDED_TERMS);
            let (added, others) = rest.split_at(here);
            let written = Self::add_to_row(tx, content, row, added)?;
            extended.is_changed |= written > 0;
            *room = room.saturating_sub(written);
            last = added.last().map_or(last, |(term, _)| term);
            rest = others;
        }
        Ok(extended)
    }

    /// Returns a row of a content with stems of other languages than this one, if there is any, and takes
    /// what it reads from `room`. It looks where they would be: before and after those of the language.
    fn with_other_stems(
        view: &View,
        content: (Id<KnowledgeBase>, Ordinal),
        language: Option<Language>,
        room: &mut usize,
    ) -> Result<Option<Self>> {
        let spans = match language.map(Language::stem_span) {
            None => vec![(STEM.to_string(), AFTER_STEMS.to_string())],
            Some((first, after)) => {
                vec![(STEM.to_string(), first), (after, AFTER_STEMS.to_string())]
            }
        };
        for (start, end) in spans {
            if let Some(row) = Self::up_to(view, content, &start)? {
                *room = room.saturating_sub(row.bytes());
                for entry in row.entries() {
                    if Language::is_of_other(language, entry?.0) {
                        return Ok(Some(row));
                    }
                }
            }
            if let Some(row) = Self::after(view, content, &start)? {
                *room = room.saturating_sub(row.bytes());
                if row.first < end {
                    return Ok(Some(row));
                }
            }
        }
        Ok(None)
    }

    /// Whether a content has stems of other languages than this one.
    pub fn has_other_stems(
        view: &View,
        content: (Id<KnowledgeBase>, Ordinal),
        language: Option<Language>,
    ) -> Result<bool> {
        Ok(Self::with_other_stems(view, content, language, &mut 0)?.is_some())
    }

    /// Drops the stems of other languages than this one from the terms of a content, until `room` is
    /// used up by what is read and written. The index must not have them any more. Returns whether none
    /// is left.
    pub fn drop_other_stems(
        tx: &mut Tx,
        content: (Id<KnowledgeBase>, Ordinal),
        language: Option<Language>,
        room: &mut usize,
    ) -> Result<bool> {
        while *room > 0 {
            let Some(here) = Self::with_other_stems(&tx.view(), content, language, room)? else {
                return Ok(true);
            };
            let all: Vec<(&str, Term)> = here.entries().collect::<Result<_>>()?;
            let is_kept = |(term, _): &&(&str, Term)| !Language::is_of_other(language, term);
            let kept: Vec<_> = all.iter().filter(is_kept).copied().collect();
            *room = room.saturating_sub(here.bytes());
            // Fewer terms than those of a row are one row.
            let new = (!kept.is_empty()).then(|| Self::of_first(content, kept.into_iter()).0);
            match new {
                Some(new) if new.first == here.first => tx.replace(&here, &new)?,
                new => {
                    tx.remove(&here)?;
                    new.map_or(Ok(()), |new| tx.insert(&new))?;
                }
            }
        }
        Ok(false)
    }

    /// Adds terms to a row, if there is one; it becomes as many as it needs to. Returns the bytes that
    /// are written.
    fn add_to_row(
        tx: &mut Tx,
        content: (Id<KnowledgeBase>, Ordinal),
        row: Option<Self>,
        added: &[(String, Term)],
    ) -> Result<usize> {
        let entries = row.as_ref().map_or(TermEntries(&[]), Self::entries);
        let mut terms: BTreeMap<&str, Term> = entries.collect::<Result<_>>()?;
        let mut is_changed = false;
        for (term, of) in added {
            let known = terms.get(term.as_str()).copied();
            let place = terms.entry(term).or_insert(*of);
            place.unite(*of);
            is_changed |= known != Some(*place);
        }
        if !is_changed {
            return Ok(0);
        }
        let terms: Vec<_> = terms.into_iter().collect();
        let (mut rest, mut written) = (terms.as_slice(), 0);
        let mut old = row.as_ref();
        while !rest.is_empty() {
            let (new, count) = Self::of_first(content, rest.iter().copied());
            rest = &rest[count..];
            written += new.entries.len();
            match old.take() {
                Some(old) if old.first == new.first => tx.replace(old, &new)?,
                old => {
                    old.map_or(Ok(()), |old| tx.remove(old))?;
                    tx.insert(&new)?;
                }
            }
        }
        Ok(written)
    }
}

/// What was added to the terms of a content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extended {
    pub is_changed: bool,
    /// After which term the rest of them are, if there are more.
    pub rest_after: Option<String>,
}

fn write_entry(word: &str, term: Term, out: &mut Vec<u8>) {
    varint::write(word.len() as u32, out);
    out.extend_from_slice(word.as_bytes());
    out.push(term.frequency);
    varint::write(term.first_at.map_or(0, |at| at.saturating_add(1)), out);
}

// ── Reading ──────────────────────────────────────────────────────────────────

/// The words of a row, in the order of their bytes.
pub struct TermEntries<'a>(&'a [u8]);

impl<'a> Iterator for TermEntries<'a> {
    type Item = Result<(&'a str, Term)>;

    fn next(&mut self) -> Option<Self::Item> {
        (!self.0.is_empty()).then(|| {
            read_entry(&mut self.0).ok_or_else(|| {
                self.0 = &[];
                Error::internal("the words of a document cannot be read")
            })
        })
    }
}

fn read_entry<'a>(bytes: &mut &'a [u8]) -> Option<(&'a str, Term)> {
    let length = varint::read(bytes)? as usize;
    let (word, rest) = bytes.split_at_checked(length)?;
    let (&frequency, rest) = rest.split_first()?;
    *bytes = rest;
    let first_at = varint::read(bytes)?.checked_sub(1);
    Some((std::str::from_utf8(word).ok()?, Term { frequency, first_at }))
}

impl DocumentTerms {
    /// How many bytes its words take.
    pub fn bytes(&self) -> usize {
        self.entries.len()
    }

    /// The words of the row.
    pub fn entries(&self) -> TermEntries<'_> {
        TermEntries(&self.entries)
    }

    /// Returns the row of a content with the largest words up to this one; without such words, none.
    pub fn up_to(
        view: &View,
        (base, ordinal): (Id<KnowledgeBase>, Ordinal),
        word: &str,
    ) -> Result<Option<Self>> {
        let end = (base, ordinal, successor(word));
        let start = (base, ordinal, String::new());
        edge(view, &start, &end, Order::Descending)
    }

    /// Returns the first row of a content whose words are all larger than this one.
    pub fn after(
        view: &View,
        (base, ordinal): (Id<KnowledgeBase>, Ordinal),
        word: &str,
    ) -> Result<Option<Self>> {
        let start = (base, ordinal, successor(word));
        let end = (base, ordinal + 1, String::new());
        edge(view, &start, &end, Order::Ascending)
    }

    /// Returns what a content has of the terms that begin so and are after `after`: as often as the most
    /// frequent one, as of those in the index, and where the first one is.
    pub fn beginning(
        view: &View,
        content: (Id<KnowledgeBase>, Ordinal),
        begin: &str,
        after: &str,
    ) -> Result<Option<Term>> {
        let mut found: Option<Term> = None;
        let mut row = match Self::up_to(view, content, begin.max(after))? {
            None => Self::after(view, content, begin.max(after))?,
            found => found,
        };
        for _ in 0..BEGINNING_ROWS {
            let Some(here) = row else { break };
            for entry in here.entries() {
                let (own, term) = entry?;
                if own > begin && !own.starts_with(begin) {
                    return Ok(found);
                }
                if own.starts_with(begin) && own > after {
                    found.get_or_insert(term).unite(term);
                }
            }
            row = Self::after(view, content, &here.first)?;
        }
        Ok(found)
    }

    /// Verifies that all rows of a content can be read.
    ///
    /// # Errors
    /// 500 if one is not what was written; those of the store.
    pub fn verify(view: &View, content: (Id<KnowledgeBase>, Ordinal)) -> Result<()> {
        view.for_each(ListSource::TABLE, &content, Order::Ascending, |row: Self| {
            row.entries().try_for_each(|entry| entry.map(|_| ()))?;
            Ok(ControlFlow::Continue(()))
        })
    }

    /// Returns what a content has of each of these words, which are in the order of their bytes.
    pub fn find_all(
        view: &View,
        content: (Id<KnowledgeBase>, Ordinal),
        words: &[&str],
    ) -> Result<Vec<Option<Term>>> {
        let mut found = Vec::with_capacity(words.len());
        let mut row: Option<Self> = None;
        for word in words {
            // Most contents have few rows, and the words of a query are in the same ones.
            let mut place = row.as_ref().map_or(Ok(Place::After), |row| row.place(word))?;
            if place == Place::After {
                row = Self::up_to(view, content, word)?;
                place = row.as_ref().map_or(Ok(Place::Nowhere), |row| row.place(word))?;
            }
            found.push(match place {
                Place::At(term) => Some(term),
                Place::Nowhere | Place::After => None,
            });
        }
        Ok(found)
    }

    /// Returns where a word is that is not before the row.
    fn place(&self, word: &str) -> Result<Place> {
        for entry in self.entries() {
            let (own, term) = entry?;
            if own >= word {
                return Ok(if own == word { Place::At(term) } else { Place::Nowhere });
            }
        }
        Ok(Place::After)
    }
}

/// Where a word is in a content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// It is in the row.
    At(Term),
    /// It would be in the row.
    Nowhere,
    /// It is after the words of the row.
    After,
}

/// The smallest text after this one.
pub fn successor(word: &str) -> String {
    format!("{word}\0")
}

/// Returns the first record in this order from the key `start`, included, to `end`, excluded.
pub fn edge<R: Record>(
    view: &View,
    start: &R::Key,
    end: &R::Key,
    order: Order,
) -> Result<Option<R>> {
    let mut found = None;
    view.record_keys::<R>(start, end, order, |key| {
        found = Some(key);
        Ok(ControlFlow::Break(()))
    })?;
    found.map_or(Ok(None), |key| view.get(&key))
}
