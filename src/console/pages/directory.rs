//! `/o/{org}/directory/listings`: agents as other organizations find them, one's own and those of
//! others.

use askama::Template;
use serde::Deserialize;

use crate::base::Result;
use crate::console::api::segment;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/directory")
        .get(|visit| Box::pin(async { Ok(Reply::see_other(visit.in_org("/directory/listings"))) })),
    Page::of_org("/o/{org}/directory/listings").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/directory/listings/{listing}").get(|visit| Box::pin(show(visit))),
];

/// The pages of the directory beside each other.
pub const TABS: [(&str, &str); 2] =
    [("Listings", "/directory/listings"), ("Domains", "/directory/domains")];

#[derive(Template)]
#[template(path = "listings.html")]
struct Listings {
    frame: Frame,
    listings: List<Listing>,
    is_mine: bool,
    is_searched: bool,
    next: String,
}

#[derive(Template)]
#[template(path = "listing.html")]
struct ListingPage {
    frame: Frame,
    listing: Listing,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Listing {
    id: String,
    stable_key: String,
    handle: String,
    pubkey: String,
    display_name: String,
    description: Nullable<String>,
    skills: Vec<String>,
    visibility: String,
    verified: bool,
}

async fn list(visit: &Visit) -> Result<Reply> {
    let is_mine = visit.query.get("of") != "all";
    let words = visit.query.some("q");
    let mut query: Vec<_> = words.map(|words| ("q", words)).into_iter().collect();
    query.extend(is_mine.then_some(("mine", "true")));
    query.extend(visit.query.some("cursor").map(|cursor| ("cursor", cursor)));
    let next = form_urlencoded::Serializer::new(String::new())
        .extend_pairs((!is_mine).then_some(("of", "all")))
        .extend_pairs(words.map(|words| ("q", words)))
        .finish();
    let page = Listings {
        frame: visit.frame("Listings").tabs(&TABS),
        listings: visit.api.get("/agent-index/listings", &query).await?,
        is_mine,
        is_searched: words.is_some(),
        next: format!("{}?{next}&", visit.path),
    };
    render(page.frame.status, &page)
}

async fn show(visit: &Visit) -> Result<Reply> {
    let path = format!("/agent-index/listings/{}", segment(visit.param(1)));
    let listing: Listing = visit.api.get(&path, &[]).await?;
    let frame = visit.frame(&listing.display_name);
    let frame = frame.crumb("Listings", visit.in_org("/directory/listings"));
    render(frame.status, &ListingPage { frame, listing })
}
