//! `/o/{org}/teams/{slug}/tasks`: all tasks of a team, newest first, and creating one.

use askama::Template;
use serde_json::json;

use super::board::{Task, status};
use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;
use crate::console::{filters, pages::board};

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/tasks").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/teams/{slug}/tasks/new")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
];

/// The filter of tasks that nobody has.
const FREE: &str = "free";

/// The priorities: the API does not interpret them, so neither does the console.
pub const PRIORITIES: [(&str, &str); 5] =
    [("0", "0"), ("1", "1"), ("2", "2, the usual one"), ("3", "3"), ("4", "4")];

#[derive(Template)]
#[template(path = "tasks.html")]
struct Tasks {
    frame: Frame,
    place: TeamPlace,
    tasks: List<Task>,
    crew: Crew,
    only: String,
    filters: Vec<(&'static str, &'static str)>,
    next: String,
}

#[derive(Template)]
#[template(path = "new_task.html")]
struct NewTask {
    frame: Frame,
    place: TeamPlace,
    agents: Vec<(String, String)>,
    priorities: [(&'static str, &'static str); 5],
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let wanted = visit.query.get("only");
    let only = board::STATUSES.into_iter().chain([FREE]).find(|one| *one == wanted).unwrap_or("");
    let mut query: Vec<(&str, &str)> = match only {
        "" => Vec::new(),
        FREE => vec![("unassigned", "true")],
        status => vec![("status", status)],
    };
    query.extend(visit.query.some("cursor").map(|cursor| ("cursor", cursor)));
    let statuses = board::STATUSES.iter().map(|name| (*name, status(name).2));
    let page = Tasks {
        frame: place.crumbs(visit, visit.frame("Tasks")).live(),
        tasks: visit.api.get(&place.api("/tasks"), &query).await?,
        crew: Crew::read(&visit.api, &place).await?,
        only: only.into(),
        filters: [("", "All")].into_iter().chain(statuses).chain([(FREE, "Free")]).collect(),
        next: format!("{}?only={only}&", visit.path),
        place,
    };
    render(page.frame.status, &page)
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let frame = place.crumbs(visit, visit.frame("New task")).failed(error.as_ref());
    let page = NewTask {
        frame,
        agents: Crew::read(&visit.api, &place).await?.choices("Nobody: any agent may take it"),
        priorities: PRIORITIES,
        place,
    };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let mut body = json!({"title": visit.form.get("title")});
    for name in ["description", "assigneeAgentId"] {
        if let Some(text) = visit.form.some(name) {
            body[name] = json!(text);
        }
    }
    if let Some(priority) = visit.form.some("priority") {
        body["priority"] = super::teams::whole(priority);
    }
    match visit.api.post::<Task>(&place.api("/tasks"), body).await {
        Ok(task) => Ok(visit.done(&place.task(&task.number), Flash::TaskCreated)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}
