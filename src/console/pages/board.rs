//! `/o/{org}/teams/{slug}/board`: a team's tasks by their status. A card is moved with its list and
//! button; a script adds a handle to drag it by.

use std::collections::BTreeSet;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::people::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}").get(|visit| Box::pin(async { go(visit) })),
    Page::of_org("/o/{org}/teams/{slug}/board")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
];

/// Cards of a column: five columns are a page of 60 KB with them.
const CARDS: &str = "12";

/// Class, icon and word of a status.
type Look = (&'static str, &'static str, &'static str);

/// The statuses of tasks, in the order of the columns: how they look, and what is announced of a move there.
const STATUSES: [(&str, Look, Flash); 5] = [
    ("open", ("off", "off", "Open"), Flash::TaskOpen),
    ("in_progress", ("working", "half", "In progress"), Flash::TaskInProgress),
    ("blocked", ("warning", "triangle", "Blocked"), Flash::TaskBlocked),
    ("done", ("good", "check", "Done"), Flash::TaskDone),
    ("cancelled", ("off", "octagon", "Cancelled"), Flash::TaskCancelled),
];

/// How a status looks.
pub fn status(name: &str) -> Look {
    let known = STATUSES.iter().find(|(known, ..)| *known == name);
    known.map_or(("off", "off", "Unknown"), |(_, look, _)| *look)
}

/// The choices of a form's field.
pub fn statuses() -> Vec<(&'static str, &'static str)> {
    STATUSES.iter().map(|(name, (_, _, word), _)| (*name, *word)).collect()
}

#[derive(Template)]
#[template(path = "board.html")]
struct Board {
    frame: Frame,
    place: TeamPlace,
    columns: Vec<Column>,
    crew: Crew,
    people: People,
    statuses: Vec<(&'static str, &'static str)>,
    is_empty: bool,
}

struct Column {
    status: &'static str,
    tasks: List<Task>,
}

/// A task, as lists show it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub id: String,
    pub number: u32,
    pub title: String,
    pub description: Nullable<String>,
    pub assignee_agent_id: Nullable<String>,
    pub assignee_user_id: Nullable<String>,
    pub priority: u32,
    pub status: String,
    pub created_at: Time,
    pub updated_at: Time,
    pub claim: Nullable<Claim>,
    pub parent_task_id: Nullable<String>,
    pub depends_on: Vec<String>,
    pub due_at: Nullable<Time>,
    pub labels: Vec<String>,
    pub children: Children,
}

/// How far the parts of a task are.
#[derive(Deserialize)]
pub struct Children {
    pub total: u32,
    pub done: u32,
}

/// The process of its agent that has a task.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Claim {
    pub worker: String,
    pub since: Time,
    pub lease_secs: Nullable<u32>,
}

fn go(visit: &Visit) -> Result<Reply> {
    Ok(Reply::see_other(visit.in_org(&format!("/teams/{}/board", segment(visit.param(1))))))
}

/// The ids of the people that have these tasks.
pub fn people_of<'a>(tasks: impl Iterator<Item = &'a Task>) -> BTreeSet<String> {
    tasks.filter_map(|task| task.assignee_user_id.0.clone()).collect()
}

/// The task of a team with this number.
///
/// # Errors
/// 404 if there is none, and those of the route.
pub async fn find(visit: &Visit, place: &TeamPlace, number: &str) -> Result<Task> {
    if number.parse::<u32>().is_err() {
        return Err(Error::no_such("task"));
    }
    let found: List<Task> = visit.api.get(&place.api("/tasks"), &[("number", number)]).await?;
    found.items.into_iter().next().ok_or_else(|| Error::no_such("task"))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let mut columns = Vec::new();
    for (status, ..) in STATUSES {
        let query = [("status", status), ("limit", CARDS)];
        let tasks = visit.api.get(&place.api("/tasks"), &query).await?;
        columns.push(Column { status, tasks });
    }
    let title = format!("{} board", place.team.name);
    let frame = visit.frame(&title).crumb("Teams", visit.in_org("/teams")).live().script("board");
    let ids = people_of(columns.iter().flat_map(|column| &column.tasks.items));
    let people = People::of(visit, ids).await?;
    let page = Board {
        frame: frame.failed(error.as_ref()),
        crew: Crew::read(&visit.api, &place).await?,
        people,
        statuses: statuses(),
        is_empty: columns.iter().all(|column| column.tasks.items.is_empty()),
        place,
        columns,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let Some(number) = visit.form.some("task") else { return show(visit, None).await };
    let place = TeamPlace::of(visit).await?;
    let task = find(visit, &place, number).await?;
    let to = visit.form.get(&format!("to-{number}"));
    let path = place.api(&format!("/tasks/{}", segment(&task.id)));
    match visit.api.patch::<Value>(&path, json!({"status": to})).await {
        Ok(_) => Ok(visit.done(&place.at("/board"), moved(to))),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

/// What is announced of a move.
fn moved(status: &str) -> Flash {
    let known = STATUSES.iter().find(|(known, ..)| *known == status);
    known.map_or(Flash::TaskCancelled, |(_, _, flash)| *flash)
}
