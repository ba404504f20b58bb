//! `/o/{org}/teams/{slug}/tasks/{number}`: a task with its notes; changing it, and writing a note.

use askama::Template;
use serde_json::{Value, json};

use super::board::{self, Task};
use super::inbox::Message;
use super::tasks::{self, agent, priority};
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::Form;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/teams/{slug}/tasks/{number}")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

#[derive(Template)]
#[template(path = "task.html")]
struct TaskPage {
    frame: Frame,
    task: Task,
    notes: List<Message>,
    crew: Crew,
    /// The forms of the text and of the work.
    texts: Form,
    work: Form,
    /// Whether the form that failed is that of the text.
    is_editing: bool,
}

async fn text_form(visit: &Visit, path: &str) -> Result<Form> {
    let form = Form::change(visit, path, tasks::texts()).await?;
    Ok(form.action("edit").done(visit.path.as_str(), Flash::TaskSaved))
}

async fn work_form(visit: &Visit, path: &str, crew: &Crew) -> Result<Form> {
    let status = Field::select("status", "Status", board::statuses());
    let fields = vec![status, agent(crew, "Nobody"), priority()];
    let form = Form::change(visit, path, fields).await?;
    Ok(form.action("save").done(visit.path.as_str(), Flash::TaskSaved))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let task = board::find(visit, &place, visit.param(2)).await?;
    let crew = Crew::read(&visit.api, &place).await?;
    let mut query = vec![("taskId", task.id.as_str())];
    query.extend(visit.cursor());
    let title = format!("{} #{}", task.title, task.number);
    let error = error.as_ref();
    let path = place.api(&format!("/tasks/{}", segment(&task.id)));
    let mut texts = text_form(visit, &path).await?;
    let mut work = work_form(visit, &path, &crew).await?;
    let frame = place.crumbs(visit, visit.frame(&title)).failed(error).live();
    let frame = texts.ready(frame, visit, error);
    let page = TaskPage {
        frame: work.ready(frame, visit, error),
        is_editing: error.is_some() && visit.form.get("action") == "edit",
        texts,
        work,
        notes: visit.api.get(&place.api("/messages"), &query).await?,
        crew,
        task,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let task = board::find(visit, &place, visit.param(2)).await?;
    let path = place.api(&format!("/tasks/{}", segment(&task.id)));
    let done = match visit.form.get("action") {
        "note" => {
            let body = json!({"taskId": task.id, "body": visit.form.get("body")});
            let added = visit.api.post::<Value>(&place.api("/messages"), body).await;
            added.map(|_| visit.done(&visit.path, Flash::NoteAdded))
        }
        "edit" => text_form(visit, &path).await?.send(visit).await,
        "save" => {
            let crew = Crew::read(&visit.api, &place).await?;
            work_form(visit, &path, &crew).await?.send(visit).await
        }
        _ => return show(visit, None).await,
    };
    match done {
        Err(error) => show(visit, visit.failed(error)?).await,
        done => done,
    }
}
