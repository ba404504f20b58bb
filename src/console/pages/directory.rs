//! `/o/{org}/directory/listings`: agents as other organizations find them, one's own and those of
//! others.

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::Result;
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
    may_write: bool,
    base: String,
}

/// A listing, as everyone sees it who may see it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Listing {
    pub id: String,
    pub stable_key: String,
    pub handle: String,
    pub pubkey: String,
    pub display_name: String,
    pub description: Nullable<String>,
    pub skills: Vec<String>,
    pub visibility: String,
    pub verified: bool,
}

async fn list(visit: &Visit) -> Result<Reply> {
    let is_mine = visit.query.get("of") != "all";
    let words = visit.query.some("q");
    let mut query: Vec<_> = words.map(|words| ("q", words)).into_iter().collect();
    query.extend(is_mine.then_some(("mine", "true")));
    query.extend(visit.cursor());
    let page = Listings {
        frame: visit.frame("Listings").tabs(&TABS),
        listings: visit.api.get("/agent-index/listings", &query).await?,
        is_mine,
        is_searched: words.is_some(),
        may_write: visit.may(Method::Post, "/agent-index/listings"),
        base: visit.in_org("/directory"),
    };
    render(page.frame.status, &page)
}
