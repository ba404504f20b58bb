//! What a search reads of the index: the postings of terms and of beginnings, within bounds.

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use super::changes::{ChangeKind, DocumentChange, numbered};
use super::knowledge_base::{IndexMerge, IndexState, KnowledgeBase, Ordinal, merge, state};
use super::language::Language;
use super::position::{RankingBasis, WordBasis};
use super::postings::{DocumentPostings, Posting, length_step};
use super::query::Query;
use super::ranking::{Collection, TermPostings};
use super::terms::{DocumentTerms, successor};
use super::words::Term;
use crate::base::{Id, Result};
use crate::store::{Order, Record, View};

/// The beginning of a word is that of at most 512 terms: each is looked up, which takes some 10 ms.
const MAX_BEGUN: usize = 512;

/// Beginnings are read after terms, and may have a quarter of what a search reads in any case.
const BEGUN_SHARE: usize = 4;

/// The index of a knowledge base, with the changes that are not merged into it.
pub struct SearchIndex {
    base: Id<KnowledgeBase>,
    state: IndexState,
    merge: IndexMerge,
    /// The contents that came, of those that are still there.
    added: Vec<DocumentChange>,
    /// Contents whose words are still in the index.
    pub removed: HashSet<Ordinal>,
}

impl SearchIndex {
    /// Reads the state of an index, and its pending changes.
    pub fn of(view: &View, base: Id<KnowledgeBase>) -> Result<Self> {
        let (state, merge) = (state(view, base)?, merge(view, base)?);
        let changes = numbered(view, base, merge.first..state.next_change)?;
        let of_kind = |kind| changes.iter().filter(move |change| change.kind == kind);
        let removed: HashSet<_> =
            of_kind(ChangeKind::Removed).map(|change| change.ordinal).collect();
        // Of those that are extended, the index has the words that they had before.
        let lasting =
            of_kind(ChangeKind::Added).filter(|change| !removed.contains(&change.ordinal));
        let added = lasting.cloned().collect();
        Ok(SearchIndex { base, state, merge, added, removed })
    }

    /// Returns the postings of each term and each beginning of a query that are not in the index yet.
    fn pending(&self, view: &View, query: &Query) -> Result<Vec<Vec<Posting>>> {
        let terms: Vec<&str> = query.terms.iter().map(String::as_str).collect();
        let mut pending = vec![Vec::new(); terms.len() + query.beginnings.len()];
        for change in &self.added {
            // Of a merge under way, the words that are applied are found in the index.
            let after = if change.number() >= self.merge.until {
                ""
            } else if self.merge.is_applied {
                continue;
            } else {
                self.merge.after.as_str()
            };
            let content = (self.base, change.ordinal);
            let applied = terms.partition_point(|term| *term <= after);
            let found = DocumentTerms::find_all(view, content, &terms[applied..])?;
            let begun = query.beginnings.iter();
            let begun = begun.map(|begin| DocumentTerms::beginning(view, content, begin, after));
            let found = found.into_iter().map(Ok).chain(begun);
            for (postings, term) in pending[applied..].iter_mut().zip(found) {
                postings.extend(term?.map(|term: Term| Posting {
                    ordinal: change.ordinal,
                    frequency: term.frequency,
                    length: length_step(change.words),
                }));
            }
        }
        Ok(pending)
    }
}

/// What is to be read for a query.
pub struct Lists {
    base: Id<KnowledgeBase>,
    /// Of each term, then of each beginning.
    all: Vec<List>,
    terms: usize,
    language: Option<Language>,
}

#[derive(Default)]
struct List {
    /// The words of the index, and about how many documents have each: the rarest first.
    words: Vec<(String, u32)>,
    /// What is not in the index.
    pending: Vec<Posting>,
}

/// What was read for a query.
pub struct Found {
    /// The postings of each term and each beginning.
    pub postings: Vec<TermPostings>,
    pub basis: RankingBasis,
}

impl Lists {
    /// Returns what is to be read for a query.
    pub fn of(view: &View, index: &SearchIndex, query: &Query) -> Result<Self> {
        let base = index.base;
        let begun = query.beginnings.iter().map(|begin| begun_by(view, base, begin));
        let words = query.terms.iter().map(|term| Ok(vec![term.clone()])).chain(begun);
        let mut all = Vec::new();
        for (words, pending) in words.zip(index.pending(view, query)?) {
            let mut counted = Vec::new();
            for word in words? {
                let last = DocumentPostings::last(view, base, &word)?;
                counted.push((word, last.map_or(Ok(0), |last| last.total())?));
            }
            counted.sort_by_key(|(_, documents)| *documents);
            all.push(List { words: counted, pending });
        }
        Ok(Lists { base, all, terms: query.terms.len(), language: query.language })
    }

    /// Reads about `max_postings` postings for the first page of a search.
    pub fn first(self, view: &View, index: &SearchIndex, max_postings: usize) -> Result<Found> {
        // Of a beginning, the most frequent word: the others are mostly in the same documents, or rare.
        let basis_of = |List { words, pending }: &List| {
            let merged = words.last().map_or(0, |(_, documents)| *documents);
            WordBasis { documents: merged.saturating_add(pending.len() as u32), first: 0 }
        };
        let words = self.all.iter().map(basis_of).collect();
        let collection = Collection { documents: index.state.documents, words: index.state.words };
        let (language, end) = (self.language, index.state.next_ordinal);
        let basis = RankingBasis { language, collection, end, words };
        self.read(view, basis, max_postings, max_postings)
    }

    /// Reads the postings that the first page was ranked by, those of deleted documents excepted.
    pub fn again(self, view: &View, basis: RankingBasis, max_postings: usize) -> Result<Found> {
        self.read(view, basis, usize::MAX, max_postings)
    }

    /// Reads the postings of each term, of the rarest first; where they exceed `of_terms`, the oldest
    /// are left out. Then those of the beginnings, as far as there is room.
    fn read(
        mut self,
        view: &View,
        mut basis: RankingBasis,
        mut of_terms: usize,
        max_postings: usize,
    ) -> Result<Found> {
        let mut order: Vec<_> = (0..self.all.len()).collect();
        order.sort_by_key(|at| (*at >= self.terms, basis.words[*at].documents));
        let mut postings: Vec<_> = (0..self.all.len()).map(|_| TermPostings::default()).collect();
        let (terms, beginnings) = order.split_at(self.terms);
        let mut room = max_postings;
        for at in terms.iter().copied() {
            let WordBasis { documents, first } = basis.words[at];
            let List { words, pending } = std::mem::take(&mut self.all[at]);
            let Some((word, _)) = words.first() else { continue };
            let contents = first..basis.end;
            let (first, newest) =
                newest(view, (self.base, word.as_str()), contents, pending, of_terms)?;
            basis.words[at].first = first;
            of_terms = of_terms.saturating_sub(newest.len());
            room = room.saturating_sub(newest.len());
            postings[at] = TermPostings { documents, postings: newest };
        }
        room = room.max(max_postings / BEGUN_SHARE);
        for at in beginnings.iter().copied() {
            let list = std::mem::take(&mut self.all[at]);
            let of = begun(view, self.base, list, basis.end, &mut room)?;
            postings[at] = TermPostings { documents: basis.words[at].documents, postings: of };
        }
        Ok(Found { postings, basis })
    }
}

/// Returns the terms of an index that begin so, the first ones in the order of their bytes.
fn begun_by(view: &View, base: Id<KnowledgeBase>, begin: &str) -> Result<Vec<String>> {
    let end: <DocumentPostings as Record>::Key = (base, format!("{begin}{}", char::MAX), 0);
    let (mut found, mut from) = (Vec::new(), begin.to_string());
    while found.len() < MAX_BEGUN {
        let mut next = None;
        let start: <DocumentPostings as Record>::Key = (base, from, 0);
        view.record_keys::<DocumentPostings>(&start, &end, Order::Ascending, |(_, word, _)| {
            next = Some(word);
            Ok(ControlFlow::Break(()))
        })?;
        let Some(word) = next else { break };
        from = successor(&word);
        found.push(word);
    }
    Ok(found)
}

/// Returns the postings of a word for the newest of these contents, the newest first, each once:
/// `pending` ones and about `room` of the index, and those of its last chunk in any case. Also returns
/// the smallest ordinal to which they are complete.
fn newest(
    view: &View,
    (base, word): (Id<KnowledgeBase>, &str),
    contents: Range<Ordinal>,
    pending: Vec<Posting>,
    room: usize,
) -> Result<(Ordinal, Vec<Posting>)> {
    let (mut first, mut all) = (contents.start, pending);
    let room = room.saturating_sub(all.len());
    let before = all.len();
    DocumentPostings::each_before(view, base, word, contents.end, |chunk| {
        all.extend(chunk.postings()?.into_iter().rev());
        let begin = chunk.first();
        Ok(if begin <= first {
            ControlFlow::Break(())
        } else if all.len() - before >= room {
            first = begin;
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    Ok((first, sorted(all, first..contents.end)))
}

/// Returns the postings of the words of a beginning for contents before `end`, the newest first, each
/// once: `pending` ones, and those of the index, of the rarest word first, until `room` is used up.
fn begun(
    view: &View,
    base: Id<KnowledgeBase>,
    List { words, pending: mut all }: List,
    end: Ordinal,
    room: &mut usize,
) -> Result<Vec<Posting>> {
    for (word, _) in &words {
        if *room == 0 {
            break;
        }
        DocumentPostings::each_before(view, base, word, end, |chunk| {
            let postings = chunk.postings()?;
            *room = room.saturating_sub(postings.len());
            all.extend(postings);
            Ok(if *room == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
    }
    Ok(sorted(all, 0..end))
}

/// Returns the postings of these contents, the newest first, each once.
fn sorted(mut all: Vec<Posting>, contents: Range<Ordinal>) -> Vec<Posting> {
    all.retain(|posting| contents.contains(&posting.ordinal));
    all.sort_by_key(|posting| (Reverse(posting.ordinal), Reverse(posting.frequency)));
    all.dedup_by_key(|posting| posting.ordinal);
    all
}
