//! Search in a knowledge base (reference: knowledge-bases, "Search").

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::document::{Document, DocumentContent};
use super::knowledge_base::{KnowledgeBase, Ordinal};
use super::lists::{Found, Lists, SearchIndex};
use super::passages::{Highlight, passage};
use super::phrases::{PHRASE_BYTES, PhraseSearch};
use super::position::{RankingBasis, SearchPosition};
use super::query::{Part, Query};
use super::ranking::{Ranked, rank};
use super::terms::DocumentTerms;
use crate::api::{Input, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::SESSION_MEMBER;
use crate::base::{Error, Id, Issue, Name, Result, Text};
use crate::store::{Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A search has at most 32 words: each is some lists to read.
const MAX_QUERY_WORDS: usize = 32;

/// A search reads about 200,000 postings, some 10 ms: of rare terms first, and of a term that would
/// exceed that only those of the newest documents.
const MAX_POSTINGS: usize = 200_000;

/// Of a search with phrases at most 256 documents are looked at for a page.
const MAX_CANDIDATES: usize = 256;

// ── What callers send and see ────────────────────────────────────────────────

/// A search.
#[derive(Deserialize, JsonSchema)]
pub struct DocumentSearch {
    /// Words, at most 32 different ones; documents with any of them are found, those that fit best
    /// first. Neither case nor the order matters, and accents only for the ranking. `"in quotes"`:
    /// only documents in which these words follow each other, as they are spelled. `begin*`: words
    /// that begin so, of two characters or more. Other forms of words outside of quotes are found, too, if
    /// the knowledge base has a language. Not supported: the middle or the end of a word, `*` in quotes,
    /// other operators, similar spellings.
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
    let query = Query::parse(&req.input.q, base.language);
    let count = query.terms.len() + query.beginnings.len();
    let wrong = || Error::invalid_at("cursor", "is not a cursor of this list");
    let position = match &req.page.after {
        Some(bytes) => Some(SearchPosition::read(bytes, count, base.language).ok_or_else(wrong)?),
        None => None,
    };
    let index = SearchIndex::of(view, base.id)?;
    let lists = Lists::of(view, &index, &query)?;
    let (below, found) = match position {
        Some(SearchPosition { last, basis }) => {
            (Some(last), lists.again(view, basis, max_postings)?)
        }
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

// ── Documents ────────────────────────────────────────────────────────────────

/// Returns the parts of a query, the rarest first.
fn rarest_first<'a>(query: &'a Query, basis: &RankingBasis) -> Vec<&'a Part> {
    let documents =
        |part: &&Part| part.members.iter().map(|(term, _)| basis.words[*term].documents).max();
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
