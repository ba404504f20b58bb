//! Search in a knowledge base (reference: knowledge-bases, "Search").

use std::cmp::Reverse;
use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::{ChangeKind, DocumentChange, numbered};
use super::content::{DocumentTerms, successor};
use super::document::{Document, DocumentContent};
use super::knowledge_base::{IndexMerge, IndexState, KnowledgeBase, Ordinal, merge, state};
use super::passages::{Highlight, passage};
use super::phrases::{PHRASE_BYTES, PhraseSearch};
use super::position::{RankingBasis, SearchPosition, WordBasis};
use super::postings::{DocumentPostings, Posting, length_step};
use super::query::{Part, Query};
use super::ranking::{Collection, Ranked, TermPostings, rank};
use super::words::Term;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::SESSION_MEMBER;
use crate::base::{Error, Id, Issue, Name, Result, Text};
use crate::store::{Order, Page, Record, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A search has at most 32 words: each is some lists to read.
const MAX_QUERY_WORDS: usize = 32;

/// A search reads about 200,000 postings, some 10 ms: of rare terms first, and of a term that would
/// exceed that only those of the newest documents.
const MAX_POSTINGS: usize = 200_000;

/// The beginning of a word is that of at most 512 terms: each is looked up, which takes some 10 ms.
const MAX_BEGUN: usize = 512;

/// Of a search with phrases at most 256 documents are looked at for a page.
const MAX_CANDIDATES: usize = 256;

// ── What callers send and see ────────────────────────────────────────────────

/// A search.
#[derive(Deserialize, JsonSchema)]
pub struct DocumentSearch {
    /// Words, at most 32 different ones; documents with any of them are found, those that fit best
    /// first. Neither case nor the order matters, and accents only for the ranking. `"in quotes"`:
    /// only documents in which these words follow each other, as they are spelled. `begin*`: words
    /// that begin so, of two characters or more.
    q: Text<1, 500>,
}

impl Input for DocumentSearch {
    fn check(&self, issues: &mut Vec<Issue>) {
        if Query::count_words(&self.q) > MAX_QUERY_WORDS {
            let message = format!("must have at most {MAX_QUERY_WORDS} different words");
            issues.push(Issue::new("q", message));
        }
    }
}

/// A document that was found.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SearchHit {
    pub document_id: Id<Document>,
    name: Name,
    /// The passage of its text with most of the words, at most 300 characters; its beginning, if they
    /// are in its name only.
    snippet: String,
    /// The words of the query in the snippet, in its order, in characters.
    highlights: Vec<Highlight>,
    /// How well it fits: comparable within one search only.
    score: f64,
}

impl Output for SearchHit {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operation ────────────────────────────────────────────────────────────────

pub(super) fn search(
    view: &View,
    req: &Req<Id<KnowledgeBase>, DocumentSearch>,
) -> Result<Page<SearchHit>> {
    search_within(view, req, MAX_POSTINGS)
}

/// Returns a page of a search that reads about so many postings.
pub(super) fn search_within(
    view: &View,
    req: &Req<Id<KnowledgeBase>, DocumentSearch>,
    max_postings: usize,
) -> Result<Page<SearchHit>> {
    let base: KnowledgeBase = view.fetch(&req.params)?;
    let query = Query::parse(&req.input.q);
    let count = query.terms.len() + query.beginnings.len();
    let wrong = || Error::invalid_at("cursor", "is not a cursor of this list");
    let position = match &req.page.after {
        Some(bytes) => Some(SearchPosition::read(bytes, count).ok_or_else(wrong)?),
        None => None,
    };
    let index = SearchIndex::of(view, base.id)?;
    let lists = Lists::of(view, &index, &query)?;
    let (below, found) = match position {
        Some(SearchPosition { last, basis }) => (Some(last), lists.again(view, basis)?),
        None => (None, lists.first(view, &index, max_postings)?),
    };
    let limit = req.page.limit;
    let most = if query.phrases.is_empty() { limit } else { limit.max(MAX_CANDIDATES) };
    let Found { postings, basis } = found;
    let (of, removed) = (basis.collection, &index.removed);
    let mut ranked = rank(&postings, &query.parts, of, removed, below, most.saturating_add(1));
    let mut has_more = ranked.len() > most;
    ranked.truncate(most);
    let hits = Hits { view, base: base.id, query: &query, rarest: rarest_first(&query, &basis) };
    let (items, seen) = hits.of(&ranked, limit)?;
    has_more |= seen < ranked.len();
    let last = seen.checked_sub(1).map(|last| ranked[last]).filter(|_| has_more);
    let next = last.map(|last| SearchPosition { last, basis }.to_bytes());
    Ok(Page { items, next })
}

/// The index of a knowledge base, with the changes that are not merged into it.
struct SearchIndex {
    base: Id<KnowledgeBase>,
    state: IndexState,
    merge: IndexMerge,
    /// The contents that came, of those that are still there.
    added: Vec<DocumentChange>,
    /// Contents whose words are still in the index.
    removed: HashSet<Ordinal>,
}

impl SearchIndex {
    fn of(view: &View, base: Id<KnowledgeBase>) -> Result<Self> {
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
struct Lists {
    base: Id<KnowledgeBase>,
    /// For each term and each beginning the words of the index, and what is not in the index.
    all: Vec<(Vec<String>, Vec<Posting>)>,
}

/// What was read for a query.
struct Found {
    /// The postings of each term and each beginning.
    postings: Vec<TermPostings>,
    basis: RankingBasis,
}

impl Lists {
    fn of(view: &View, index: &SearchIndex, query: &Query) -> Result<Self> {
        let base = index.base;
        let begun = query.beginnings.iter().map(|begin| begun_by(view, base, begin));
        let words = query.terms.iter().map(|term| Ok(vec![term.clone()])).chain(begun);
        let words = words.collect::<Result<Vec<_>>>()?;
        let all = words.into_iter().zip(index.pending(view, query)?).collect();
        Ok(Lists { base, all })
    }

    /// Reads about `max_postings` postings for the first page of a search.
    fn first(self, view: &View, index: &SearchIndex, max_postings: usize) -> Result<Found> {
        let mut of_words = Vec::with_capacity(self.all.len());
        for (words, pending) in &self.all {
            let mut documents = pending.len() as u32;
            for word in words {
                let last = DocumentPostings::last(view, self.base, word)?;
                let merged = last.map_or(Ok(0), |last| last.total())?;
                documents = documents.saturating_add(merged);
            }
            of_words.push(WordBasis { documents, first: 0 });
        }
        let collection = Collection { documents: index.state.documents, words: index.state.words };
        let end = index.state.next_ordinal;
        self.read(view, RankingBasis { collection, end, words: of_words }, max_postings)
    }

    /// Reads the postings that the first page was ranked by, those of deleted documents excepted.
    fn again(self, view: &View, basis: RankingBasis) -> Result<Found> {
        self.read(view, basis, usize::MAX)
    }

    /// Reads the postings of each term, of the rarest first; where they exceed `room`, the oldest are
    /// left out.
    fn read(self, view: &View, mut basis: RankingBasis, mut room: usize) -> Result<Found> {
        let mut order: Vec<_> = (0..self.all.len()).collect();
        order.sort_by_key(|at| basis.words[*at].documents);
        let mut postings: Vec<_> = (0..self.all.len()).map(|_| TermPostings::default()).collect();
        let mut all = self.all;
        for at in order {
            let WordBasis { documents, first } = basis.words[at];
            let (words, pending) = std::mem::take(&mut all[at]);
            let contents = first..basis.end;
            let (first, newest) = newest(view, (self.base, &words), contents, pending, room)?;
            basis.words[at].first = first;
            room = room.saturating_sub(newest.len());
            postings[at] = TermPostings { documents, postings: newest };
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

/// Returns the postings of some words for the newest of these contents, the newest first, each once:
/// `pending` ones and about `room` of the index, and those of each word's last chunk in any case. Also
/// returns the smallest ordinal to which they are complete.
fn newest(
    view: &View,
    (base, words): (Id<KnowledgeBase>, &[String]),
    contents: Range<Ordinal>,
    pending: Vec<Posting>,
    room: usize,
) -> Result<(Ordinal, Vec<Posting>)> {
    let (mut first, mut all) = (contents.start, pending);
    for word in words {
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
    }
    all.retain(|posting| (first..contents.end).contains(&posting.ordinal));
    all.sort_by_key(|posting| (Reverse(posting.ordinal), Reverse(posting.frequency)));
    all.dedup_by_key(|posting| posting.ordinal);
    Ok((first, all))
}

// ── Documents ────────────────────────────────────────────────────────────────

/// Returns the parts of a query, the rarest first.
fn rarest_first<'a>(query: &'a Query, basis: &RankingBasis) -> Vec<&'a Part> {
    let documents = |part: &&Part| {
        let of = part.members.iter().map(|(term, _)| u64::from(basis.words[*term].documents));
        of.sum::<u64>()
    };
    let mut parts: Vec<_> = query.parts.iter().collect();
    parts.sort_by_key(documents);
    parts
}

/// The documents of ranked contents.
struct Hits<'a> {
    view: &'a View<'a>,
    base: Id<KnowledgeBase>,
    query: &'a Query,
    /// The parts of the query, the rarest first.
    rarest: Vec<&'a Part>,
}

impl Hits<'_> {
    /// Returns the first ones that have the phrases of the query, at most `limit`, and how many were
    /// looked at.
    fn of(&self, ranked: &[Ranked], limit: usize) -> Result<(Vec<SearchHit>, usize)> {
        let (mut hits, mut room) = (Vec::new(), PHRASE_BYTES);
        for (seen, ranked) in ranked.iter().enumerate() {
            if hits.len() == limit {
                return Ok((hits, seen));
            }
            let place = (self.base, ranked.ordinal);
            let content: DocumentContent = self.view.fetch(&place)?;
            let document: Document = self.view.fetch(&(self.base, content.document))?;
            let phrases = PhraseSearch::of(self.view, place, &document.name, self.query)?;
            let Some(phrases) = phrases else { continue };
            if phrases.bytes() > room {
                // The next page begins with it.
                return Ok((hits, seen));
            }
            if let Some(at) = phrases.run(self.view, self.query, &mut room)? {
                hits.push(self.hit(*ranked, document, at)?);
            }
        }
        Ok((hits, ranked.len()))
    }

    /// Returns a document, with a passage at this offset or near the rarest word.
    fn hit(&self, ranked: Ranked, document: Document, at: Option<u32>) -> Result<SearchHit> {
        let content = (self.base, ranked.ordinal);
        let at = at.map_or_else(|| self.first_at(content), |at| Ok(Some(at)))?;
        let passage = passage(self.view, content, at.unwrap_or(0), self.query)?;
        Ok(SearchHit {
            document_id: document.id,
            name: document.name,
            snippet: passage.text,
            highlights: passage.highlights,
            score: (f64::from(ranked.score) * 1e4).round() / 1e4,
        })
    }

    /// Returns where the rarest part of the query is in a text.
    fn first_at(&self, content: (Id<KnowledgeBase>, Ordinal)) -> Result<Option<u32>> {
        let Query { terms, beginnings, .. } = self.query;
        let sorted: Vec<&str> = terms.iter().map(String::as_str).collect();
        let found = DocumentTerms::find_all(self.view, content, &sorted)?;
        for part in &self.rarest {
            let mut first: Option<u32> = None;
            for (number, _) in &part.members {
                let term = match number.checked_sub(found.len()) {
                    None => found[*number],
                    Some(at) => DocumentTerms::beginning(self.view, content, &beginnings[at], "")?,
                };
                let own = term.and_then(|term| term.first_at);
                first = [first, own].into_iter().flatten().min();
            }
            if first.is_some() {
                return Ok(first);
            }
        }
        Ok(None)
    }
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/knowledge-bases/{id}/search",
            SESSION_MEMBER,
            "document.search",
            op::list(search),
        )
        .costly_with("q")
        .about("Search in documents, best match first"),
    ]
}
