//! Search in a knowledge base (reference: knowledge-bases, "Search").

use std::collections::HashSet;
use std::ops::ControlFlow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::{ChangeKind, DocumentChange, numbered};
use super::content::DocumentTerms;
use super::document::{Document, DocumentContent};
use super::knowledge_base::{IndexMerge, KnowledgeBase, Ordinal, merge, state};
use super::passages::{Highlight, passage};
use super::postings::{DocumentPostings, Posting, length_step};
use super::ranking::{Collection, Ranked, WordPostings, rank};
use super::words::{Term, folded, words};
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::SESSION_MEMBER;
use crate::base::{Error, Id, Issue, Name, Result, Text};
use crate::store::{ListSource, Order, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A search has at most 32 words: each is a list to read.
const MAX_QUERY_WORDS: usize = 32;

/// A search reads at most 200,000 postings, some 10 ms: of rare words first, and of a word that would
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
    let base: KnowledgeBase = view.fetch(&req.params)?;
    let wrong = || Error::invalid_at("cursor", "is not a cursor of this list");
    let below = match &req.page.after {
        Some(position) => Some(Ranked::read(position).ok_or_else(wrong)?),
        None => None,
    };
    let state = state(view, base.id)?;
    let merge = merge(view, base.id)?;
    let changes = numbered(view, base.id, merge.first..state.next_change)?;
    let found = Found::of(view, base.id, &req.input.words(), &merge, &changes)?;
    let collection = Collection { documents: state.documents, words: state.words };
    let limit = req.page.limit;
    let mut ranked =
        rank(&found.postings, collection, &found.removed, below, limit.saturating_add(1));
    let has_more = ranked.len() > limit;
    ranked.truncate(limit);
    let next = ranked.last().filter(|_| has_more).map(|last| last.to_bytes());
    let hits = ranked.into_iter().map(|ranked| hit(view, base.id, &found.words, ranked));
    Ok(Page { items: hits.collect::<Result<_>>()?, next })
}

/// What the index has of the words of a query.
struct Found {
    /// The words, the rarest first.
    words: Vec<String>,
    /// The postings of each.
    postings: Vec<WordPostings>,
    /// Contents whose words are still in the index.
    removed: HashSet<Ordinal>,
}

impl Found {
    /// Reads the postings of these words, which are in the order of their bytes: those in the index,
    /// and those of documents that are not merged into it.
    fn of(
        view: &View,
        base: Id<KnowledgeBase>,
        words: &[String],
        merge: &IndexMerge,
        changes: &[DocumentChange],
    ) -> Result<Self> {
        let of_kind = |kind| changes.iter().filter(move |change| change.kind == kind);
        let removed: HashSet<_> =
            of_kind(ChangeKind::Removed).map(|change| change.ordinal).collect();
        let mut pending = vec![Vec::new(); words.len()];
        let borrowed: Vec<&str> = words.iter().map(String::as_str).collect();
        for change in of_kind(ChangeKind::Added) {
            if removed.contains(&change.ordinal) {
                continue;
            }
            // Of a merge under way, the words that are applied are found in the index.
            let applied = if change.number() >= merge.until {
                0
            } else if merge.is_applied {
                words.len()
            } else {
                words.partition_point(|word| *word <= merge.after)
            };
            let rest = &borrowed[applied..];
            let terms = DocumentTerms::find_all(view, (base, change.ordinal), rest)?;
            for (postings, term) in pending[applied..].iter_mut().zip(terms) {
                postings.extend(term.map(|term: Term| Posting {
                    ordinal: change.ordinal,
                    frequency: term.frequency,
                    length: length_step(change.words),
                }));
            }
        }
        let mut found = Vec::with_capacity(words.len());
        for (word, pending) in words.iter().zip(pending) {
            let last = DocumentPostings::last(view, base, word)?;
            let merged = last.map_or(Ok(0), |last| last.total())?;
            found.push((merged.saturating_add(pending.len() as u32), word.clone(), pending));
        }
        found.sort_by_key(|(documents, ..)| *documents);
        let mut room = MAX_POSTINGS;
        let (mut words, mut lists) = (Vec::new(), Vec::new());
        for (documents, word, pending) in found {
            let postings = newest(view, base, &word, pending, room)?;
            room = room.saturating_sub(postings.len());
            words.push(word);
            lists.push(WordPostings { documents, postings });
        }
        Ok(Found { words, postings: lists, removed })
    }
}

/// Returns the newest postings of a word, the newest first: `pending` ones and those of the index,
/// about `limit` of these.
fn newest(
    view: &View,
    base: Id<KnowledgeBase>,
    word: &str,
    mut postings: Vec<Posting>,
    limit: usize,
) -> Result<Vec<Posting>> {
    let has_pending = !postings.is_empty();
    let of_word = (base, word.to_string());
    if limit > 0 {
        view.for_each(
            ListSource::TABLE,
            &of_word,
            Order::Descending,
            |chunk: DocumentPostings| {
                postings.extend(chunk.postings()?.into_iter().rev());
                Ok(if postings.len() < limit {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                })
            },
        )?;
    }
    if has_pending {
        postings.sort_unstable_by_key(|posting| std::cmp::Reverse(posting.ordinal));
    }
    Ok(postings)
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
