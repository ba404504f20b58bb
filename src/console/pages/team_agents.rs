//! `/o/{org}/teams/{slug}/agents`: the agents of a team and what it spends; adding one.

use askama::Template;
use serde_json::{Value, json};

use crate::base::{Error, Result};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::{TeamAgent, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/agents")
        .get(|visit| Box::pin(list(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/teams/{slug}/agents/add")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(add(visit))),
];

/// The roles in a team.
pub const ROLES: [(&str, &str); 2] = [
    ("member", "Member"),
    ("scrum_master", "Scrum Master: also for tasks that nobody has; one in a team"),
];

/// The word of a role.
pub fn role(name: &str) -> &'static str {
    if name == "scrum_master" { "Scrum Master" } else { "Member" }
}

#[derive(Template)]
#[template(path = "team_agents.html")]
struct Agents {
    frame: Frame,
    place: TeamPlace,
    agents: List<TeamAgent>,
    next: String,
}

#[derive(Template)]
#[template(path = "add_team_agent.html")]
struct AddAgent {
    frame: Frame,
    place: TeamPlace,
    /// Stable keys to choose from.
    keys: Vec<String>,
    roles: [(&'static str, &'static str); 2],
}

async fn list(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Agents {
        frame: place.crumbs(visit, visit.frame("Agents")).failed(error.as_ref()).live(),
        agents: visit.api.get(&place.api("/agents"), &query).await?,
        next: format!("{}?", visit.path),
        place,
    };
    render(page.frame.status, &page)
}

/// Pauses the team, or resumes it.
async fn act(visit: &Visit) -> Result<Reply> {
    let flash = match visit.form.get("action") {
        "pause" => Flash::Paused,
        "resume" => Flash::Resumed,
        _ => return list(visit, None).await,
    };
    let place = TeamPlace::of(visit).await?;
    match paused::act(visit, &place.api("")).await {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => list(visit, visit.failed(error)?).await,
    }
}

#[derive(serde::Deserialize)]
#[serde(rename_all = "camelCase")]
struct Known {
    stable_key: String,
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let known: List<Known> = visit.api.get("/agents", &[("limit", "100")]).await?;
    let frame = place.crumbs(visit, visit.frame("Add an agent"));
    let frame = frame.crumb("Agents", place.at("/agents")).failed(error.as_ref());
    let page = AddAgent {
        frame,
        keys: known.items.into_iter().map(|agent| agent.stable_key).collect(),
        roles: ROLES,
        place,
    };
    render(page.frame.status, &page)
}

async fn add(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let body = json!({
        "stableKey": visit.form.get("stableKey").trim(), "role": visit.form.get("role"),
        "skills": words(visit.form.get("skills")),
    });
    match visit.api.post::<Value>(&place.api("/agents"), body).await {
        Ok(_) => Ok(visit.done(&place.at("/agents"), Flash::AgentHired)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

/// The parts of a text with commas.
pub fn words(text: &str) -> Vec<&str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).collect()
}
