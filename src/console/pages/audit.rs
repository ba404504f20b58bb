//! `/o/{org}/operations/audit`: who did what, and the end of the chain.

use askama::Template;
use serde::Deserialize;

use super::channels::tabs;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/operations/audit").get(|visit| Box::pin(show(visit)))];

/// The filters: parameters of the route, and of the page.
const FILTERS: [&str; 6] = ["actor", "action", "resourceType", "resourceId", "from", "to"];

#[derive(Template)]
#[template(path = "audit.html")]
struct Audit {
    frame: Frame,
    entries: List<Entry>,
    actors: Vec<(String, String)>,
    checkpoint: Checkpoint,
    is_filtered: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    id: String,
    sequence: u64,
    created_at: Time,
    actor: Actor,
    via: Nullable<String>,
    action: String,
    resource: Resource,
    request_id: String,
    outcome: String,
    hash: String,
}

#[derive(Deserialize)]
struct Actor {
    name: String,
    person: Nullable<Person>,
}

#[derive(Deserialize)]
struct Person {
    name: String,
}

#[derive(Deserialize)]
struct Resource {
    #[serde(rename = "type")]
    kind: String,
    id: Nullable<String>,
    detail: Nullable<String>,
}

#[derive(Deserialize)]
struct Checkpoint {
    value: String,
    sequence: u64,
    compared: Nullable<String>,
}

impl Checkpoint {
    /// Class, icon and sentence of the comparison.
    fn outcome(&self) -> Option<(&'static str, &'static str, &'static str)> {
        Some(match self.compared.as_deref()? {
            "continues" => ("good", "check", "The log continues that checkpoint."),
            "ends_before" => {
                ("bad", "octagon", "The log ends before that checkpoint: it is an older state.")
            }
            "missing" => ("bad", "octagon", "The entry of that checkpoint is missing in the log."),
            "differs" => ("bad", "octagon", "The log has another entry there: it was replaced."),
            _ => ("off", "off", "Retention has removed that entry, so nothing can be said."),
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Member {
    user_id: String,
    name: String,
}

async fn show(visit: &Visit) -> Result<Reply> {
    visit.require(Method::Get, "/audit-logs")?;
    let filters: Vec<(&str, String)> = FILTERS
        .iter()
        .filter_map(|name| visit.query.some(name).map(|value| (*name, value.to_string())))
        .map(|(name, value)| match name {
            // The form has times of UTC, to the minute.
            "from" | "to" => (name, format!("{value}:00Z")),
            _ => (name, value),
        })
        .collect();
    let mut query: Vec<_> = filters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    query.extend(visit.cursor());
    let (entries, error) = taken(visit, visit.api.get("/audit-logs", &query).await)?;
    let compared: Vec<_> =
        visit.query.some("against").map(|value| ("against", value)).into_iter().collect();
    let (checkpoint, refusal) =
        taken(visit, visit.api.get("/audit-logs/checkpoint", &compared).await)?;
    let checkpoint = match checkpoint {
        Some(checkpoint) => checkpoint,
        None => visit.api.get("/audit-logs/checkpoint", &[]).await?,
    };
    let members: Vec<Member> = visit.api.items("/organizations/members", &[]).await?;
    let page = Audit {
        frame: visit.frame("Audit log").tabs(&tabs(visit)).failed(error.or(refusal).as_ref()),
        entries: entries.unwrap_or_else(List::none),
        actors: members.into_iter().map(|member| (member.user_id, member.name)).collect(),
        checkpoint,
        is_filtered: !filters.is_empty(),
    };
    render(page.frame.status, &page)
}

/// What was asked for, or the error that the page shows.
fn taken<T>(visit: &Visit, outcome: Result<T>) -> Result<(Option<T>, Option<Error>)> {
    match outcome {
        Ok(found) => Ok((Some(found), None)),
        Err(error) => Ok((None, visit.failed(error)?)),
    }
}
