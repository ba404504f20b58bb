//! `/o/{org}/teams`: the teams, and creating one.

use askama::Template;
use serde_json::json;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused::{self, Pause};
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::Team;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/new/team")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
];

#[derive(Template)]
#[template(path = "teams.html")]
struct Teams {
    frame: Frame,
    base: String,
    teams: List<Team>,
    may_create: bool,
    /// The pause of all agents.
    paused: Nullable<Pause>,
    may_pause: bool,
    next: String,
}

#[derive(Template)]
#[template(path = "new_team.html")]
struct NewTeam {
    frame: Frame,
    here: String,
}

#[derive(serde::Deserialize)]
struct All {
    paused: Nullable<Pause>,
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Teams {
        frame: visit.frame("Teams").failed(error.as_ref()),
        paused: visit.api.get::<All>("/teams/pause", &[]).await?.paused,
        may_pause: visit.may(Method::Post, "/teams/pause"),
        base: visit.in_org(""),
        next: format!("{}?", visit.path),
        teams: visit.api.get("/teams", &query).await?,
        may_create: visit.may(Method::Post, "/teams"),
    };
    render(page.frame.status, &page)
}

/// Pauses all agents, or resumes them.
async fn act(visit: &Visit) -> Result<Reply> {
    let flash = match visit.form.get("action") {
        "pause" => Flash::Paused,
        "resume" => Flash::Resumed,
        _ => return show(visit, None).await,
    };
    match paused::act(visit, "/teams").await {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/teams")?;
    let frame = visit.frame("New team").crumb("Teams", visit.in_org("/teams"));
    let frame = frame.failed(error).rename("budget.monthlyUsd", "monthlyUsd");
    let page = NewTeam { here: visit.in_org("/new/team"), frame };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body = json!({"slug": visit.form.get("slug"), "name": visit.form.get("name")});
    if let Some(description) = visit.form.some("description") {
        body["description"] = json!(description);
    }
    if let Some(budget) = visit.form.some("monthlyUsd") {
        body["budget"] = json!({"monthlyUsd": number(budget)});
    }
    match visit.api.post::<Team>("/teams", body).await {
        Ok(team) => {
            let path = visit.in_org(&format!("/teams/{}/agents", team.slug));
            Ok(visit.done(&path, Flash::TeamCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

/// A number as JSON; a text that is none stays one, so that the API says what is wrong with it.
pub fn number(text: &str) -> serde_json::Value {
    text.parse::<f64>().map_or_else(|_| json!(text), |number| json!(number))
}

/// A whole number as JSON, in the same way.
pub fn whole(text: &str) -> serde_json::Value {
    text.parse::<i64>().map_or_else(|_| json!(text), |number| json!(number))
}
