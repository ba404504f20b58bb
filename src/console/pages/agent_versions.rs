//! `/o/{org}/agents/{key}/versions`: the versions of an agent, making one of its draft, putting one
//! back into the draft; and what differs between two of them.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::agent::{api_path, page_path};
use super::agents::Agent;
use super::change_lines::{Change, Line, Lines, tool_names};
use crate::base::{Error, Kind, Result, Time};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/agents/{key}/versions")
        .get(|visit| Box::pin(list(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/agents/{key}/versions/{version}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/agents/{key}/compare").get(|visit| Box::pin(compare(visit))),
];

#[derive(Template)]
#[template(path = "agent_versions.html")]
struct Versions {
    frame: Frame,
    path: String,
    agent: Agent,
    versions: List<Version>,
    people: People,
}

#[derive(Template)]
#[template(path = "agent_version.html")]
struct VersionPage {
    frame: Frame,
    path: String,
    agent: Agent,
    version: Version,
    config: String,
    people: People,
}

#[derive(Template)]
#[template(path = "agent_compare.html")]
struct Compare {
    frame: Frame,
    path: String,
    from: String,
    to: String,
    /// None as long as they cannot be compared.
    difference: Option<Difference>,
    refusal: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: u32,
    config: Map<String, Value>,
    hash: String,
    created_by: String,
    created_at: Time,
    message: Nullable<String>,
}

impl Version {
    /// The version before it, to compare it with.
    fn before(&self) -> Option<u32> {
        self.version.checked_sub(1).filter(|before| *before > 0)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Diff {
    from_message: Nullable<String>,
    to_message: Nullable<String>,
    changes: Vec<Change>,
}

/// What the page shows of it.
struct Difference {
    from_message: Nullable<String>,
    to_message: Nullable<String>,
    lines: Vec<Line>,
    is_cut: bool,
}

impl Diff {
    async fn shown(self, visit: &Visit) -> Difference {
        let names =
            tool_names(visit, &self.changes.iter().collect::<Vec<_>>(), BTreeMap::new()).await;
        let (lines, is_cut) = Lines::new(&names).of(self.changes);
        let Diff { from_message, to_message, .. } = self;
        Difference { from_message, to_message, lines, is_cut }
    }
}

fn frame(visit: &Visit, agent: &Agent, title: &str) -> Frame {
    let frame = visit.frame(title).crumb("Agents", visit.in_org("/agents"));
    frame.crumb(agent.name.clone(), page_path(visit))
}

async fn list(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let agent: Agent = visit.api.get(&api_path(visit, ""), &[]).await?;
    let page = Versions {
        frame: frame(visit, &agent, "Versions").failed(error.as_ref()).live(),
        path: page_path(visit),
        versions: visit.api.get(&api_path(visit, "/versions"), &visit.walk()).await?,
        people: People::read(&visit.api).await?,
        agent,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let version = visit.form.get("version");
    let mut body = json!({});
    let (below, to, flash) = match visit.form.get("action") {
        "make" => {
            body["message"] = json!(visit.form.some("message"));
            ("/versions".to_string(), "/versions", Flash::AgentVersioned)
        }
        "restore" if version.parse::<u32>().is_ok() => {
            (format!("/versions/{version}/restore"), "", Flash::AgentRestored)
        }
        _ => return list(visit, None).await,
    };
    match visit.api.post::<Value>(&api_path(visit, &below), body).await {
        Ok(_) => Ok(visit.done(&format!("{}{to}", page_path(visit)), flash)),
        Err(error) => list(visit, visit.failed(error)?).await,
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let agent: Agent = visit.api.get(&api_path(visit, ""), &[]).await?;
    let number = visit.param(2).parse::<u32>().map_err(|_| Error::no_such("version"))?;
    let path = api_path(visit, &format!("/versions/{number}"));
    let version: Version = visit.api.get(&path, &[]).await?;
    let title = format!("{} version {number}", agent.name);
    let page = VersionPage {
        frame: frame(visit, &agent, &title)
            .crumb("Versions", format!("{}/versions", page_path(visit))),
        path: page_path(visit),
        config: serde_json::to_string_pretty(&version.config).unwrap_or_default(),
        people: People::read(&visit.api).await?,
        agent,
        version,
    };
    render(page.frame.status, &page)
}

async fn compare(visit: &Visit) -> Result<Reply> {
    let agent: Agent = visit.api.get(&api_path(visit, ""), &[]).await?;
    let newest = agent.latest_version.0.unwrap_or(0);
    let of = |name: &str, usual: u32| {
        visit.query.some(name).map_or_else(|| usual.to_string(), String::from)
    };
    let (from, to) = (of("from", newest.saturating_sub(1)), of("to", newest));
    let query = [("from", from.as_str()), ("to", to.as_str())];
    let found = visit.api.get::<Diff>(&api_path(visit, "/versions/diff"), &query).await;
    let (difference, refusal) = match found {
        Ok(difference) => (Some(difference.shown(visit).await), String::new()),
        Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid) => {
            (None, sentence(error.message()))
        }
        Err(error) => return Err(error),
    };
    let frame = frame(visit, &agent, "Compare versions")
        .crumb("Versions", format!("{}/versions", page_path(visit)));
    let page = Compare { frame, path: page_path(visit), from, to, difference, refusal };
    render(page.frame.status, &page)
}
