//! `/o/{org}/teams/{slug}/timeline`: what a team reports of its work, and adding to it.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result, Time};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/teams/{slug}/timeline")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(add(visit)))];

/// The texts of entries may be long.
const ROWS: &str = "20";

/// The kinds of entries.
const KINDS: [(&str, &str); 5] = [
    ("milestone", "Milestone"),
    ("progress_update", "Progress"),
    ("goal_update", "Goal"),
    ("blocker_digest", "Blockers"),
    ("summary", "Summary"),
];

#[derive(Template)]
#[template(path = "timeline.html")]
struct Timeline {
    frame: Frame,
    place: TeamPlace,
    entries: List<Entry>,
    crew: Crew,
    people: People,
    kinds: [(&'static str, &'static str); 5],
    only: &'static str,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    kind: String,
    title: String,
    body: Nullable<String>,
    agent_id: Nullable<String>,
    created_by: String,
    created_at: Time,
}

impl Entry {
    /// The word of its kind.
    fn word(&self) -> &'static str {
        KINDS.iter().find(|(kind, _)| *kind == self.kind).map_or("Entry", |(_, word)| word)
    }
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let wanted = visit.query.get("only");
    let only = KINDS.iter().find(|(value, _)| *value == wanted).map_or("", |(value, _)| value);
    let mut query = vec![("limit", ROWS)];
    query.extend((!only.is_empty()).then_some(("kind", only)));
    query.extend(visit.walk());
    let frame = place.crumbs(visit, visit.frame("Timeline")).failed(error.as_ref()).live();
    let page = Timeline {
        frame,
        entries: visit.api.get(&place.api("/timeline"), &query).await?,
        crew: Crew::read(&visit.api, &place).await?,
        people: People::read(&visit.api).await?,
        kinds: KINDS,
        only,
        place,
    };
    render(page.frame.status, &page)
}

async fn add(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let mut body = json!({"kind": visit.form.get("kind"), "title": visit.form.get("title")});
    if let Some(text) = visit.form.some("body") {
        body["body"] = json!(text);
    }
    match visit.api.post::<Value>(&place.api("/timeline"), body).await {
        Ok(_) => Ok(visit.done(&visit.path, Flash::TimelineAdded)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}
