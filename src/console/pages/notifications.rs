//! `/o/{org}/operations/log`: what was delivered, and what was not.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::channels::{Channel, event_types, tabs};
use crate::api::Method;
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/operations")
        .get(|visit| Box::pin(async { Ok(Reply::see_other(visit.in_org("/operations/log"))) })),
    Page::of_org("/o/{org}/operations/log")
        .get(|visit| Box::pin(show(visit)))
        .post(|visit| Box::pin(redeliver(visit))),
];

/// Entries on a page: with the longest payloads that are shown it stays below 60 KB.
const ROWS: usize = 20;
/// Characters of a payload that are shown; the API returns all of it.
const MAX_SHOWN: usize = 800;

/// What became of an entry: the value in the query, and its label.
const STATUSES: [(&str, &str); 4] = [
    ("", "Any outcome"),
    ("failed", "Not yet delivered"),
    ("dead", "Given up"),
    ("sent", "Delivered"),
];

#[derive(Template)]
#[template(path = "notifications.html")]
struct Log {
    frame: Frame,
    entries: Vec<Entry>,
    channels: Vec<Channel>,
    types: Vec<(String, String)>,
    /// The channels that can be selected.
    places: Vec<(String, String)>,
    statuses: &'static [(&'static str, &'static str)],
    asked: Asked,
    may_redeliver: bool,
    total: String,
    /// The query of the next page; empty if this is the last.
    next: String,
}

/// What was asked for.
struct Asked {
    event: String,
    channel: String,
    status: String,
}

impl Asked {
    fn is_any(&self) -> bool {
        self.event.is_empty() && self.channel.is_empty() && self.status.is_empty()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogPage {
    items: Vec<Entry>,
    pagination: Pagination,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Pagination {
    total: usize,
    total_exact: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    event_type: String,
    channel_id: String,
    status: String,
    attempts: u32,
    payload: Map<String, Value>,
    error: Nullable<String>,
    created_at: Time,
    next_attempt_at: Nullable<Time>,
}

impl Entry {
    /// The payload, or its beginning.
    fn payload(&self) -> String {
        let mut shown = serde_json::to_string_pretty(&self.payload).unwrap_or_default();
        if let Some((end, _)) = shown.char_indices().nth(MAX_SHOWN) {
            shown.truncate(end);
            shown.push('…');
        }
        shown
    }
}

/// Class, icon and word of what became of an entry.
pub fn state(status: &str) -> (&'static str, &'static str, &'static str) {
    match status {
        "sent" => ("good", "check", "Delivered"),
        "failed" => ("warning", "clock", "Not yet"),
        _ => ("bad", "octagon", "Given up"),
    }
}

impl Log {
    fn channel<'a>(&'a self, id: &str) -> &'a str {
        let found = self.channels.iter().find(|channel| channel.id == id);
        found.map_or("a deleted channel", |channel| channel.name.as_str())
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.query.get(name).to_string();
    let asked = Asked { event: of("event"), channel: of("channel"), status: of("status") };
    let page: usize = visit.query.get("page").parse().unwrap_or(0);
    let (limit, offset) = (ROWS.to_string(), page.saturating_mul(ROWS).to_string());
    let filters =
        [("eventType", &asked.event), ("channelId", &asked.channel), ("status", &asked.status)];
    let mut query: Vec<_> = filters
        .into_iter()
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, value)| (name, value.as_str()))
        .collect();
    query.extend([("limit", limit.as_str()), ("offset", &offset)]);
    let found: LogPage = visit.api.get("/notifications/logs", &query).await?;
    let Pagination { total, total_exact } = found.pagination;
    let more = total > page.saturating_add(1).saturating_mul(ROWS);
    let next = form_urlencoded::Serializer::new(String::new())
        .extend_pairs([
            ("event", &asked.event),
            ("channel", &asked.channel),
            ("status", &asked.status),
        ])
        .append_pair("page", &page.saturating_add(1).to_string())
        .finish();
    let channels: Vec<Channel> = visit.api.items("/notifications/channels", &[]).await?;
    let places = channels.iter().map(|one| (one.id.clone(), one.name.clone()));
    let places = any("Any channel", places);
    let types = event_types(visit).await?.into_iter();
    let shown = Log {
        frame: visit.frame("Notification log").tabs(&tabs(visit)).live(),
        entries: found.items,
        channels,
        types: any("Any event", types.map(|one| (one.clone(), one))),
        places,
        statuses: &STATUSES,
        may_redeliver: visit.may(Method::Post, "/notifications/logs/id/redeliver"),
        total: if total_exact { total.to_string() } else { format!("more than {total}") },
        next: if more { next } else { String::new() },
        asked,
    };
    render(shown.frame.status, &shown)
}

/// What can be selected, after all of it.
fn any(all: &str, each: impl Iterator<Item = (String, String)>) -> Vec<(String, String)> {
    [(String::new(), all.to_string())].into_iter().chain(each).collect()
}

async fn redeliver(visit: &Visit) -> Result<Reply> {
    let path = format!("/notifications/logs/{}/redeliver", segment(visit.form.get("entry")));
    visit.api.post::<Value>(&path, json!({})).await?;
    Ok(visit.done(&visit.target, Flash::Redelivered))
}
