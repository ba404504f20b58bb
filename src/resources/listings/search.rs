//! Search in the inverted index: the listings that have all of some terms, newest first.
//!
//! Two streams are merged, of the organization's own listings and of public ones. Each intersects the
//! rows of its terms: the row of one term is looked up at or below that of another, so that what lies
//! between is skipped.

use super::listing::Listing;
use super::terms::{ListingTerm, PublicListingTerm, TermRow};
use crate::base::{Error, Id, Result};
use crate::store::{Order, Page, PageRequest, View};
use std::ops::ControlFlow;

/// A page ends after 20,000 look-ups, whether they found a listing or not: of two frequent terms that
/// seldom occur together, one request must not read all rows. They take some 50 ms.
const MAX_LOOKUPS: usize = 20_000;

/// A listing that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// It is the organization's own.
    Own(Id<Listing>),
    /// It is another organization's.
    Public(Id<Listing>),
}

/// Returns a page of the listings that have all of these terms (at least one), newest first: the
/// organization's own and, unless `only_own`, public ones. A page may be short, or empty, and still
/// have a next.
///
/// # Errors
/// 400 if the position is not of such a list.
pub fn search(
    view: &View,
    terms: &[String],
    only_own: bool,
    page: &PageRequest,
) -> Result<Page<Hit>> {
    within(view, terms, only_own, page, MAX_LOOKUPS)
}

/// Does the same as [`search`] with at most this many look-ups.
pub(super) fn within(
    view: &View,
    terms: &[String],
    only_own: bool,
    page: &PageRequest,
    lookups: usize,
) -> Result<Page<Hit>> {
    let end = end(page)?;
    let mut lookups = Lookups { view, terms, left: lookups };
    let (mut own, mut public) = (Stream::from(end), Stream::from(end));
    let mut items = Vec::new();
    loop {
        let is_known = lookups.advance::<ListingTerm>(&mut own)?
            && (only_own || lookups.advance::<PublicListingTerm>(&mut public)?);
        let head = own.head.max(public.head);
        let next = match head {
            // What was not looked at begins at the higher of both ends.
            _ if !is_known => Some(own.end.max(public.end)),
            Some(_) if items.len() == page.limit => Some(own.end.max(public.end)),
            _ => None,
        };
        if let Some(next) = next {
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
    /// What is below this id was not looked at, nor passed on.
    end: Id<Listing>,
    /// The next listing, just below `end`.
    head: Option<Id<Listing>>,
    is_at_end: bool,
}

impl Stream {
    fn from(end: Id<Listing>) -> Self {
        Stream { end, head: None, is_at_end: false }
    }

    /// Passes on the head, if it is this listing.
    fn skip(&mut self, found: Id<Listing>) {
        if self.head == Some(found) {
            self.head = None;
            self.end = found;
        }
    }
}

/// The look-ups of one request.
struct Lookups<'a> {
    view: &'a View<'a>,
    terms: &'a [String],
    left: usize,
}

impl Lookups<'_> {
    /// Finds the head of a stream, if it has none. False if the look-ups are used up before.
    fn advance<R: TermRow>(&mut self, stream: &mut Stream) -> Result<bool> {
        // How many terms in a row have the listing `found`.
        let (mut agreeing, mut found) = (0, None);
        let mut terms = self.terms.iter().cycle();
        while stream.head.is_none() && !stream.is_at_end {
            let Some(term) = terms.next() else { return Ok(true) };
            if self.left == 0 {
                return Ok(false);
            }
            self.left -= 1;
            let Some(below) = self.last_below::<R>(term, stream.end)? else {
                (stream.is_at_end, stream.end) = (true, Id::NIL);
                break;
            };
            agreeing = if found == Some(below) { agreeing + 1 } else { 1 };
            found = Some(below);
            stream.end = below.successor();
            if agreeing == self.terms.len() {
                stream.head = found;
            }
        }
        Ok(true)
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
