//! Search in a knowledge base (reference: knowledge-bases, "Search").

use std::collections::HashSet;
use std::ops::{ControlFlow, Range};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::{ChangeKind, DocumentChange, numbered};
use super::content::DocumentTerms;
use super::document::{Document, DocumentContent};
use super::knowledge_base::{IndexMerge, IndexState, KnowledgeBase, Ordinal, merge, state};
use super::passages::{Highlight, passage};
use super::position::{RankingBasis, SearchPosition, WordBasis};
use super::postings::{DocumentPostings, Posting, length_step};
use super::ranking::{Collection, Ranked, WordPostings, rank};
use super::words::{Term, folded, words};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::SESSION_MEMBER;
use crate::base::{Error, Id, Issue, Name, Result, Text};
use crate::store::{Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A search has at most 32 words: each is a list to read.
const MAX_QUERY_WORDS: usize = 32;

/// A search reads about 200,000 postings, some 10 ms: of rare words first, and of a word that would
/// exceed that only those of the newest documents.
const MAX_POSTINGS: usize = 200_000;

// ── What callers send and see ────────────────────────────────────────────────

/// A search.
#[derive(Deserialize, JsonSchema)]
pub struct DocumentSearch {
    /// Words, at most 32 different ones; documents with any of them are found. Neither case nor the
    /// order matters, and a word matches whole words.
    q: Text<1, 500>,
}

impl Input for DocumentSearch {
    fn check(&self, issues: &mut Vec<Issue>) {
        if self.words().len() > MAX_QUERY_WORDS {
            let message = format!("must have at most {MAX_QUERY_WORDS} different words");
            issues.push(Issue::new("q", message));
        }
    }
}

impl DocumentSearch {
    /// The different words, in the order of their bytes.
    fn words(&self) -> Vec<String> {
        let mut found: Vec<_> =
            words(&self.q).map(|word| folded(word.written).into_owned()).collect();
        found.sort_unstable();
        found.dedup();
        found
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
    let words = req.input.words();
    let wrong = || Error::invalid_at("cursor", "is not a cursor of this list");
    let position = match &req.page.after {
        Some(bytes) => Some(SearchPosition::read(bytes, words.len()).ok_or_else(wrong)?),
        None => None,
    };
    let index = SearchIndex::of(view, base.id)?;
    let pending = index.pending(view, &words)?;
    let (below, found) = match position {
        Some(SearchPosition { last, basis }) => {
            (Some(last), Found::again(view, base.id, &words, pending, basis)?)
        }
        None => (None, Found::first(view, &index, &words, pending, max_postings)?),
    };
    let Found { words, postings, basis } = found;
    let limit = req.page.limit;
    let mut ranked =
        rank(&postings, basis.collection, &index.removed, below, limit.saturating_add(1));
    let has_more = ranked.len() > limit;
    ranked.truncate(limit);
    let next = ranked.last().filter(|_| has_more).map(|last| {
        let position = SearchPosition { last: *last, basis };
        position.to_bytes()
    });
    let hits = ranked.into_iter().map(|ranked| hit(view, base.id, &words, ranked));
    Ok(Page { items: hits.collect::<Result<_>>()?, next })
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
        let (added, removed): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.kind == ChangeKind::Added);
        let removed: HashSet<_> = removed.iter().map(|change| change.ordinal).collect();
        let lasts = |change: &DocumentChange| !removed.contains(&change.ordinal);
        let added = added.into_iter().filter(lasts).collect();
        Ok(SearchIndex { base, state, merge, added, removed })
    }

    /// Returns the postings of each of these words, which are in the order of their bytes, that are
    /// not in the index yet.
    fn pending(&self, view: &View, words: &[String]) -> Result<Vec<Vec<Posting>>> {
        let mut pending = vec![Vec::new(); words.len()];
        let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
        for change in &self.added {
            // Of a merge under way, the words that are applied are found in the index.
            let applied = if change.number() >= self.merge.until {
                0
            } else if self.merge.is_applied {
                words.len()
            } else {
                words.partition_point(|word| *word <= self.merge.after)
            };
            let rest = &borrowed[applied..];
            let terms = DocumentTerms::find_all(view, (self.base, change.ordinal), rest)?;
            for (postings, term) in pending[applied..].iter_mut().zip(terms) {
                postings.extend(term.map(|term: Term| Posting {
                    ordinal: change.ordinal,
                    frequency: term.frequency,
                    length: length_step(change.words),
                }));
            }
        }
        Ok(pending)
    }
}

/// What is known of the words of a query.
struct Found {
    /// The words, the rarest first.
    words: Vec<String>,
    /// The postings of each.
    postings: Vec<WordPostings>,
    basis: RankingBasis,
}

impl Found {
    /// Reads about `max_postings` postings for the first page of a search; `words` are in the order
    /// of their bytes, and `pending` is what the index does not have of each.
    fn first(
        view: &View,
        index: &SearchIndex,
        words: &[String],
        pending: Vec<Vec<Posting>>,
        max_postings: usize,
    ) -> Result<Self> {
        let end = index.state.next_ordinal;
        let mut of_words = Vec::with_capacity(words.len());
        for (word, pending) in words.iter().zip(&pending) {
            let last = DocumentPostings::last(view, index.base, word)?;
            let merged = last.map_or(Ok(0), |last| last.total())?;
            let documents = merged.saturating_add(pending.len() as u32);
            of_words.push(WordBasis { documents, first: 0 });
        }
        let collection = Collection { documents: index.state.documents, words: index.state.words };
        let basis = RankingBasis { collection, end, words: of_words };
        Self::read(view, index.base, (words, pending), basis, max_postings)
    }

    /// Reads the postings that the first page was ranked by, those of deleted documents excepted.
    fn again(
        view: &View,
        base: Id<KnowledgeBase>,
        words: &[String],
        pending: Vec<Vec<Posting>>,
        basis: RankingBasis,
    ) -> Result<Self> {
        Self::read(view, base, (words, pending), basis, usize::MAX)
    }

    /// Reads the postings of each word, of the rarest first; where they exceed `room`, the oldest are
    /// left out.
    fn read(
        view: &View,
        base: Id<KnowledgeBase>,
        (words, mut pending): (&[String], Vec<Vec<Posting>>),
        mut basis: RankingBasis,
        mut room: usize,
    ) -> Result<Self> {
        let mut order: Vec<_> = (0..words.len()).collect();
        order.sort_by_key(|at| basis.words[*at].documents);
        let mut postings = Vec::with_capacity(words.len());
        for at in &order {
            let WordBasis { documents, first } = basis.words[*at];
            let pending = std::mem::take(&mut pending[*at]);
            let contents = first..basis.end;
            let (first, newest) = newest(view, (base, &words[*at]), contents, pending, room)?;
            basis.words[*at].first = first;
            room = room.saturating_sub(newest.len());
            postings.push(WordPostings { documents, postings: newest });
        }
        let words = order.into_iter().map(|at| words[at].clone()).collect();
        Ok(Found { words, postings, basis })
    }
}

/// Returns the postings of a word for the newest of these contents, the newest first: `pending` ones
/// and about `room` of the index, and those of its last chunk in any case. Also returns the smallest
/// ordinal to which they are complete.
fn newest(
    view: &View,
    (base, word): (Id<KnowledgeBase>, &str),
    contents: Range<Ordinal>,
    pending: Vec<Posting>,
    room: usize,
) -> Result<(Ordinal, Vec<Posting>)> {
    let mut postings = Vec::new();
    let mut first = contents.start;
    DocumentPostings::each_before(view, base, word, contents.end, |chunk| {
        postings.extend(chunk.postings()?.into_iter().rev());
        let begin = chunk.first();
        Ok(if begin <= first {
            ControlFlow::Break(())
        } else if postings.len() >= room {
            first = begin;
            ControlFlow::Break(())
        } else {
            ControlFlow::Continue(())
        })
    })?;
    let has_pending = !pending.is_empty();
    postings.extend(pending);
    postings.retain(|posting| (first..contents.end).contains(&posting.ordinal));
    if has_pending {
        postings.sort_unstable_by_key(|posting| std::cmp::Reverse(posting.ordinal));
    }
    Ok((first, postings))
}

fn hit(
    view: &View,
    base: Id<KnowledgeBase>,
    query: &[String],
    ranked: Ranked,
) -> Result<SearchHit> {
    let content: DocumentContent = view.fetch(&(base, ranked.ordinal))?;
    let document: Document = view.fetch(&(base, content.document))?;
    let mut sorted: Vec<&str> = query.iter().map(String::as_str).collect();
    sorted.sort_unstable();
    let terms = DocumentTerms::find_all(view, (base, ranked.ordinal), &sorted)?;
    let rarest_first: Vec<_> = query
        .iter()
        .map(|word| {
            (word.as_str(), sorted.binary_search(&word.as_str()).ok().and_then(|at| terms[at]))
        })
        .collect();
    let passage = passage(view, (base, ranked.ordinal), &rarest_first)?;
    Ok(SearchHit {
        document_id: document.id,
        name: document.name,
        snippet: passage.text,
        highlights: passage.highlights,
        score: (f64::from(ranked.score) * 1e4).round() / 1e4,
    })
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
        .about("Search in documents, best match first"),
    ]
}
