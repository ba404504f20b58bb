//! `/o/{org}/agents`: the agents, by status and fleet.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::{Result, Time};
use crate::console::api::Api;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::paused::Pause;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::tags::TagFilter;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/agents").get(|visit| Box::pin(show(visit)))];

/// Fleets are read in pages of this size, and not more pages than this.
const FLEETS: &str = "100";
const MAX_PAGES: usize = 10;

/// The filters: the value in the query, and its label.
const FILTERS: [(&str, &str); 6] = [
    ("", "All"),
    ("error", "Failing"),
    ("stale", "Silent"),
    ("drifted", "Drifted"),
    ("deployed", "Deployed"),
    ("undeployed", "Not deployed"),
];

#[derive(Template)]
#[template(path = "agents.html")]
struct Agents {
    frame: Frame,
    base: String,
    agents: Listed<Agent>,
    fleets: Fleets,
    only: &'static str,
    /// The fleet that is shown alone; empty for all.
    fleet: String,
    filters: [(&'static str, &'static str); 6],
    tags: TagFilter,
    may_create: bool,
}

impl Agents {
    /// The filters besides tags, as they are in the query.
    fn others(&self) -> [(&str, &str); 2] {
        [("only", self.only), ("fleet", &self.fleet)]
    }
}

/// An agent.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Agent {
    pub stable_key: String,
    pub name: String,
    pub description: Nullable<String>,
    pub fleet_id: Nullable<String>,
    pub draft: Draft,
    pub draft_revision: u32,
    pub latest_version: Nullable<u32>,
    pub status: String,
    pub paused: Nullable<Pause>,
    pub tags: Vec<String>,
    pub updated_at: Time,
}

/// The draft of an agent.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Draft {
    pub registry_ref: Nullable<String>,
    pub prompt_name: Nullable<String>,
    pub prompt_version: Nullable<String>,
    pub model: Nullable<String>,
    pub provider: Nullable<String>,
    pub tool_refs: Vec<ToolRef>,
}

/// A tool of a draft.
#[derive(Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolRef {
    pub tool_id: String,
    pub version: Nullable<String>,
}

impl Draft {
    /// The prompt, as people name it; empty without one.
    pub fn prompt(&self) -> String {
        let version = self.prompt_version.as_deref().unwrap_or_default();
        let name = self.prompt_name.as_deref().unwrap_or_default();
        format!("{name} {version}").trim().to_string()
    }
}

/// The fleets that the visitor may use: names by id.
pub struct Fleets(BTreeMap<String, String>);

#[derive(Deserialize)]
struct Fleet {
    id: String,
    name: String,
}

impl Fleets {
    /// Reads them.
    pub async fn read(api: &Api) -> Result<Self> {
        let mut all = BTreeMap::new();
        let mut cursor = None;
        for _ in 0..MAX_PAGES {
            let mut query = vec![("limit", FLEETS)];
            query.extend(cursor.as_deref().map(|cursor| ("cursor", cursor)));
            let page: List<Fleet> = api.get("/fleets", &query).await?;
            all.extend(page.items.into_iter().map(|fleet| (fleet.id, fleet.name)));
            cursor = page.next_cursor.0;
            if cursor.is_none() {
                break;
            }
        }
        Ok(Fleets(all))
    }

    /// The name of a fleet.
    pub fn name<'a>(&'a self, id: &str) -> &'a str {
        self.0.get(id).map_or("a fleet", String::as_str)
    }
}

/// Class, icon and word of a status.
pub fn status(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "error" => ("bad", "octagon", "Failing"),
        "stale" => ("warning", "clock", "Silent"),
        "drifted" => ("warning", "triangle", "Drifted"),
        "deployed" => ("good", "check", "Deployed"),
        _ => ("off", "off", "Not deployed"),
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let wanted = visit.query.get("only");
    let only = FILTERS.iter().find(|(value, _)| *value == wanted).map_or("", |(value, _)| value);
    let fleet = visit.query.get("fleet");
    let mut query: Vec<_> = (!only.is_empty()).then_some(("status", only)).into_iter().collect();
    query.extend((!fleet.is_empty()).then_some(("fleetId", fleet)));
    let tags = TagFilter::of(visit);
    let page = Agents {
        frame: visit.frame("Agents").live(),
        base: visit.in_org(""),
        agents: tags.listed(visit, &[("kind", "agent")], "/agents", &query).await?,
        fleets: Fleets::read(&visit.api).await?,
        only,
        fleet: fleet.into(),
        filters: FILTERS,
        tags,
        may_create: visit.may(Method::Post, "/agents"),
    };
    render(page.frame.status, &page)
}
