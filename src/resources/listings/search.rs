//! Search in the inverted index: the listings that have all of some terms, newest first.
//!
//! Two streams are merged, of the organization's own listings and of public ones. Each intersects the
//! rows of its terms: the row of one term is looked up at or below that of another, so that what lies
//! between is skipped.

use std::ops::ControlFlow;

use super::listing::Listing;
use super::public::PublicListingTerm;
use super::terms::{ListingTerm, TermRow};
use crate::base::{Error, Id, Result};
use crate::store::{Order, Page, PageRequest, View};

/// A page ends after 10,000 look-ups in one of its streams, whether they found a listing or not: of two
/// frequent terms that seldom occur together, one request must not read all rows. They take some
/// 30 ms.
const MAX_LOOKUPS: usize = 10_000;

/// A listing that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// It is the organization's own.
    Own(Id<Listing>),
    /// It is another organization's.
    Public(Id<Listing>),
}

/// Returns a page of the listings that have each of these terms (at least one) in any of its forms,
/// newest first: the organization's own and, unless `only_own`, public ones. A page may be short, or
/// empty, and still have a next.
///
/// # Errors
/// 400 if the position is not of such a list.
pub fn search(
    view: &View,
    terms: &[Vec<String>],
    only_own: bool,
    page: &PageRequest,
) -> Result<Page<Hit>> {
    within(view, terms, only_own, page, MAX_LOOKUPS)
}

/// Does the same as [`search`] with at most this many look-ups in each stream.
pub(super) fn within(
    view: &View,
    terms: &[Vec<String>],
    only_own: bool,
    page: &PageRequest,
    lookups: usize,
) -> Result<Page<Hit>> {
    let end = end(page)?;
    let query = Query { view, terms };
    let mut own = Stream::new(end, lookups);
    let mut public = if only_own { Stream::empty() } else { Stream::new(end, lookups) };
    let mut items = Vec::new();
    loop {
        query.advance::<ListingTerm>(&mut own)?;
        query.advance::<PublicListingTerm>(&mut public)?;
        let (head, unknown) = (own.head.max(public.head), own.unknown().max(public.unknown()));
        let is_page_end = match head {
            None => !unknown.is_nil(),
            // A stream may have one that is newer, if its look-ups are used up.
            Some(found) => items.len() == page.limit || unknown > found,
        };
        if is_page_end {
            let next = own.end.max(public.end);
            return Ok(Page { items, next: Some(next.bytes().to_vec()) });
        }
        let Some(found) = head else { return Ok(Page::single(items)) };
        // One that is in both streams is the organization's own.
        items.push(if own.head == head { Hit::Own(found) } else { Hit::Public(found) });
        own.skip(found);
        public.skip(found);
    }
}

/// Returns the id below which a page begins: greater than all, without a position.
fn end(page: &PageRequest) -> Result<Id<Listing>> {
    let Some(position) = &page.after else { return Ok(Id::new(uuid::Uuid::max())) };
    let id = uuid::Uuid::from_slice(position);
    id.map(Id::new).map_err(|_| Error::invalid_at("cursor", "is not a cursor of this list"))
}

/// One of the merged streams.
struct Stream {
    /// What is below this id was not looked at, or not passed on; nil at the end of the stream.
    end: Id<Listing>,
    /// The next listing, just below `end`.
    head: Option<Id<Listing>>,
    /// How many more look-ups it may take.
    lookups: usize,
}

impl Stream {
    fn new(end: Id<Listing>, lookups: usize) -> Self {
        Stream { end, head: None, lookups }
    }

    fn empty() -> Self {
        Stream::new(Id::NIL, 0)
    }

    /// Returns the id below which the next listing is unknown; nil if it is known, or there is none.
    fn unknown(&self) -> Id<Listing> {
        if self.head.is_some() { Id::NIL } else { self.end }
    }

    /// Passes on the head, if it is this listing.
    fn skip(&mut self, found: Id<Listing>) {
        if self.head == Some(found) {
            self.head = None;
            self.end = found;
        }
    }
}

/// The terms to look for.
struct Query<'a> {
    view: &'a View<'a>,
    terms: &'a [Vec<String>],
}

impl Query<'_> {
    /// Finds the head of a stream, if it has none, as far as its look-ups last.
    fn advance<R: TermRow>(&self, stream: &mut Stream) -> Result<()> {
        // How many terms in a row have the listing `found`.
        let (mut agreeing, mut found) = (0, None);
        for forms in self.terms.iter().cycle() {
            if stream.head.is_some() || stream.end.is_nil() || stream.lookups == 0 {
                break;
            }
            stream.lookups = stream.lookups.saturating_sub(forms.len());
            let mut below = None;
            for term in forms {
                below = below.max(self.last_below::<R>(term, stream.end)?);
            }
            let Some(below) = below else {
                *stream = Stream::empty();
                break;
            };
            agreeing = if found == Some(below) { agreeing + 1 } else { 1 };
            found = Some(below);
            stream.end = below.successor();
            if agreeing == self.terms.len() {
                stream.head = found;
            }
        }
        Ok(())
    }

    /// Returns the newest listing below `end` that has this term.
    fn last_below<R: TermRow>(&self, term: &str, end: Id<Listing>) -> Result<Option<Id<Listing>>> {
        let (from, to) = ((term.to_string(), Id::<Listing>::NIL), (term.to_string(), end));
        let mut last = None;
        self.view.record_keys::<R>(&from, &to, Order::Descending, |(_, id)| {
            last = Some(id);
            Ok(ControlFlow::Break(()))
        })?;
        Ok(last)
    }
}
