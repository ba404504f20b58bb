//! `/o/{org}/teams/{slug}/tasks/{number}`: a task with its notes; changing it, and writing a note.

use askama::Template;
use serde_json::{Value, json};

use super::board::{self, Task};
use super::inbox::Message;
use super::tasks::PRIORITIES;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::conflict::{self, Edited};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::{Crew, TeamPlace, or_null};
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
    description: String,
    assignee: String,
    priority: String,
    notes: List<Message>,
    crew: Crew,
    agents: Vec<(String, String)>,
    statuses: Vec<(&'static str, &'static str)>,
    priorities: [(&'static str, &'static str); 5],
    /// Whether the form that failed is that of the text.
    is_editing: bool,
    /// The digests of what the form of the text, and that of the work, edits.
    text_was: String,
    work_was: String,
    next: String,
}

/// What the form of the text edits.
fn edited_text(visit: &Visit, task: &Task) -> Vec<Edited> {
    let description = task.description.as_deref().unwrap_or_default();
    vec![
        Edited::text(visit, "title", "Title", &task.title),
        Edited::text(visit, "description", "What to do", description),
    ]
}

/// What the form of the work edits.
fn edited_work(visit: &Visit, crew: &Crew, task: &Task) -> Vec<Edited> {
    let assignee = task.assignee_agent_id.as_deref().unwrap_or_default();
    let agents = crew.choices("Nobody");
    vec![
        Edited::choice(visit, "status", "Status", &task.status, &board::statuses()),
        Edited::choice(visit, "assigneeAgentId", "Agent", assignee, &agents),
        Edited::text(visit, "priority", "Priority", &task.priority.to_string()),
    ]
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let task = board::find(visit, &place, visit.param(2)).await?;
    let crew = Crew::read(&visit.api, &place).await?;
    let mut query = vec![("taskId", task.id.as_str())];
    query.extend(visit.query.some("cursor").map(|cursor| ("cursor", cursor)));
    let title = format!("{} #{}", task.title, task.number);
    let frame = place.crumbs(visit, visit.frame(&title)).failed(error.as_ref()).live();
    // A closed task keeps an assignee that has left.
    let assignee = task.assignee_agent_id.0.clone().filter(|id| crew.find(id).is_some());
    let is_editing = error.is_some() && visit.form.get("action") == "edit";
    let text = edited_text(visit, &task);
    let work = edited_work(visit, &crew, &task);
    let (failed, action) = if is_editing { (&text, "edit") } else { (&work, "save") };
    let page = TaskPage {
        frame: frame.against(error.as_ref(), failed, action, action),
        text_was: conflict::was(visit, error.as_ref(), &text, is_editing),
        work_was: conflict::was(visit, error.as_ref(), &work, !is_editing),
        notes: visit.api.get(&place.api("/messages"), &query).await?,
        description: task.description.0.clone().unwrap_or_default(),
        assignee: assignee.unwrap_or_default(),
        priority: task.priority.to_string(),
        agents: crew.choices("Nobody"),
        crew,
        statuses: board::statuses(),
        priorities: PRIORITIES,
        is_editing,
        next: format!("{}?", visit.path),
        task,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let task = board::find(visit, &place, visit.param(2)).await?;
    let path = place.api(&format!("/tasks/{}", segment(&task.id)));
    let of = |name| visit.form.get(name);
    let (done, flash) = match of("action") {
        "note" => {
            let body = json!({"taskId": task.id, "body": of("body")});
            (visit.api.post::<Value>(&place.api("/messages"), body).await, Flash::NoteAdded)
        }
        "edit" => {
            let body = json!({"title": of("title"), "description": or_null(visit, "description")});
            let edited = |task: &Task| edited_text(visit, task);
            (visit.save(&path, body, edited).await, Flash::TaskSaved)
        }
        "save" => {
            let body = json!({
                "status": of("status"), "priority": super::teams::whole(of("priority")),
                "assigneeAgentId": or_null(visit, "assigneeAgentId"),
            });
            let crew = Crew::read(&visit.api, &place).await?;
            let edited = |task: &Task| edited_work(visit, &crew, task);
            (visit.save(&path, body, edited).await, Flash::TaskSaved)
        }
        _ => return show(visit, None).await,
    };
    match done {
        Ok(_) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}
