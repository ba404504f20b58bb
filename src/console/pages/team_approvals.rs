//! `/o/{org}/teams/{slug}/approvals`: what a team's agents ask people to decide.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result, Time};
use crate::console::api::segment;
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
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/teams/{slug}/approvals")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(decide(visit)))];

/// The texts of approvals may be long.
const ROWS: &str = "20";

#[derive(Template)]
#[template(path = "team_approvals.html")]
struct Approvals {
    frame: Frame,
    place: TeamPlace,
    approvals: List<Approval>,
    /// Numbers of the tasks that they refer to, by id.
    tasks: BTreeMap<String, u32>,
    crew: Crew,
    people: People,
    shows_all: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Approval {
    id: String,
    agent_id: String,
    title: String,
    body: Nullable<String>,
    task_id: Nullable<String>,
    decision: String,
    comment: Nullable<String>,
    decided_by: Nullable<String>,
    decided_at: Nullable<Time>,
    created_at: Time,
}

impl Approvals {
    /// The number of the task that an approval refers to.
    fn task(&self, approval: &Approval) -> Option<&u32> {
        self.tasks.get(approval.task_id.as_deref()?)
    }
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let shows_all = visit.query.get("show") == "all";
    let mut query = vec![("limit", ROWS)];
    query.extend((!shows_all).then_some(("decision", "pending")));
    query.extend(visit.walk());
    let approvals: List<Approval> = visit.api.get(&place.api("/approvals"), &query).await?;
    let about = approvals.items.iter().filter_map(|one| one.task_id.as_deref());
    let tasks = place.numbers_of(&visit.api, about).await?;
    let frame = place.crumbs(visit, visit.frame("Approvals")).failed(error.as_ref()).live();
    let page = Approvals {
        frame,
        approvals,
        tasks,
        crew: Crew::read(&visit.api, &place).await?,
        people: People::read(&visit.api).await?,
        shows_all,
        place,
    };
    render(page.frame.status, &page)
}

async fn decide(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let flash = match visit.form.get("decision") {
        "approved" => Flash::TeamApproved,
        "denied" => Flash::TeamDenied,
        _ => return show(visit, None).await,
    };
    let mut body = json!({"decision": visit.form.get("decision")});
    if let Some(comment) = visit.form.some("comment") {
        body["comment"] = json!(comment);
    }
    let path = place.api(&format!("/approvals/{}/decide", segment(visit.form.get("approval"))));
    match visit.api.post::<Value>(&path, body).await {
        Ok(_) => Ok(visit.done(&place.at("/approvals"), flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}
