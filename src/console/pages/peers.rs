//! `/o/{org}/teams/{slug}/peers`: agents outside of the organization that wrote to a team, and what
//! becomes of their requests.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::inbox::beginning;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::TeamPlace;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/peers").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/teams/{slug}/peers/{peer}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
];

/// The filters: the value in the query, and its label.
const FILTERS: [(&str, &str); 5] = [
    ("", "All"),
    ("pending", "Waiting"),
    ("accepted", "Accepted"),
    ("refused", "Refused"),
    ("blocked", "Blocked"),
];

#[derive(Template)]
#[template(path = "peers.html")]
struct Peers {
    frame: Frame,
    place: TeamPlace,
    peers: List<Peer>,
    only: &'static str,
    filters: [(&'static str, &'static str); 5],
}

#[derive(Template)]
#[template(path = "peer.html")]
struct PeerPage {
    frame: Frame,
    peer: Peer,
    people: People,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Peer {
    id: String,
    handle: String,
    pubkey: String,
    domain: String,
    state: String,
    first_message: String,
    reason: Nullable<String>,
    decided_by: Nullable<String>,
    decided_at: Nullable<Time>,
    created_at: Time,
}

impl Peer {
    /// The beginning of what it wrote.
    fn beginning(&self) -> String {
        beginning(&self.first_message)
    }
}

/// Class, icon and word of a state.
pub fn state(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "pending" => ("warning", "clock", "Waits for a decision"),
        "accepted" => ("good", "check", "Accepted"),
        "refused" => ("off", "off", "Refused"),
        "blocked" => ("bad", "octagon", "Blocked"),
        _ => ("off", "off", "Unknown"),
    }
}

async fn list(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let wanted = visit.query.get("only");
    let only = FILTERS.iter().find(|(value, _)| *value == wanted).map_or("", |(value, _)| value);
    let mut query: Vec<_> = (!only.is_empty()).then_some(("state", only)).into_iter().collect();
    query.extend(visit.walk());
    let page = Peers {
        frame: place.crumbs(visit, visit.frame("Peers")).live(),
        peers: visit.api.get(&place.api("/exchange/peers"), &query).await?,
        only,
        filters: FILTERS,
        place,
    };
    render(page.frame.status, &page)
}

fn path(visit: &Visit, place: &TeamPlace) -> String {
    place.api(&format!("/exchange/peers/{}", segment(visit.param(2))))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let peer: Peer = visit.api.get(&path(visit, &place), &[]).await?;
    let frame = place
        .crumbs(visit, visit.frame(&peer.handle))
        .crumb("Peers", place.at("/peers"))
        .script("draft");
    let frame = frame.failed(error.as_ref());
    let page = PeerPage { frame, peer, people: People::read(&visit.api).await? };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let path = path(visit, &place);
    let (step, body, flash) = match visit.form.get("action") {
        "accept" => ("accept", json!({}), Flash::PeerAccepted),
        "refuse" => {
            let reason = visit.form.get("reason").trim();
            ("refuse", json!({"reason": reason}), Flash::PeerRefused)
        }
        "block" => ("block", json!({}), Flash::PeerBlocked),
        "write" => ("messages", json!({"body": visit.form.get("body")}), Flash::PeerWritten),
        "forget" => return forget(visit, &place, &path).await,
        _ => return show(visit, None).await,
    };
    match visit.api.post::<Value>(&format!("{path}/{step}"), body).await {
        Ok(_) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn forget(visit: &Visit, place: &TeamPlace, path: &str) -> Result<Reply> {
    match visit.api.delete(path, &[]).await {
        Ok(()) => Ok(visit.done(&place.at("/peers"), Flash::PeerForgotten)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}
