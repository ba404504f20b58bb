//! A2A agent cards of published listings (reference: agent-index, "Agent cards"): for the members of
//! organizations in the API, and for everyone at the well-known path of a verified domain.
//!
//! A card is not signed: the private key belongs to the agent and is not on this server.

mod card;

use super::listings::{Listing, PublicListing, card_of_domain};
use crate::api::{PublicDocument, PublicRequest, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Domain, Error, Id, Result};
use crate::store::{Org, Record, View};

use card::{AgentCard, card};

/// Agent cards.
pub const RESOURCE: Resource = Resource { routes, documents: &[CARD_OF_DOMAIN], ..Resource::EMPTY };

/// The card that stands for the domain that is asked for.
const CARD_OF_DOMAIN: PublicDocument =
    PublicDocument { path: "/.well-known/agent-card.json", read: of_domain };

/// Returns the card of a listing that the caller may see.
fn get(view: &View, req: &Req<Id<Listing>>) -> Result<AgentCard> {
    let id = &req.params;
    let org = if view.has::<Listing>(id)? {
        view.org()
    } else {
        view.get::<PublicListing>(id)?.ok_or_else(|| Listing::missing(id))?.org
    };
    of_listing(view, org, id, &req.origin.link_base)
}

/// Returns the card of the domain that is asked for, if it is verified.
fn of_domain(view: &View, request: &PublicRequest) -> Result<Vec<u8>> {
    let found = match Domain::parse(request.host) {
        Ok(domain) => card_of_domain(view, &domain)?,
        Err(_) => None,
    };
    let found = found.ok_or_else(no_card)?;
    let card = of_listing(view, found.org, &found.listing, request.link_base)?;
    serde_json::to_vec(&card).map_err(Error::internal)
}

/// Returns the card of a listing in its organization, which may be another than the view's: a card
/// names a team.
fn of_listing(view: &View, org: Id<Org>, id: &Id<Listing>, base: &str) -> Result<AgentCard> {
    let view = view.in_org(org);
    let listing: Listing = view.fetch(id)?;
    card(&view, &listing, base)
}

fn no_card() -> Error {
    Error::no_such("agent card")
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/agent-index/listings/{listingId}/agent-card.json",
            MEMBER,
            "agent_card.get",
            op::read(get),
        )
        .needs(ScopeName::ListingRead)
        .about("Get the A2A agent card of a listing"),
    ]
}
