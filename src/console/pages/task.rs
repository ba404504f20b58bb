//! `/o/{org}/teams/{slug}/tasks/{number}`: a task with its notes; changing it, and writing a note.

use std::collections::BTreeSet;

use askama::Template;
use serde_json::{Value, json};

use super::activity::Activity;
use super::board::{self, Task};
use super::inbox::Message;
use super::tasks::{self, agent, person, priority};
use crate::base::{Error, Issue, Kind, Result};
use crate::console::api::segment;
use crate::console::field::{Field, words};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::Form;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::people::People;
use crate::console::reply::Reply;
use crate::console::strict::List;
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/teams/{slug}/tasks/{number}")
    .get(|visit| Box::pin(show(visit, None)))
    .post(|visit| Box::pin(act(visit)))];

/// So many numbers of other tasks are looked up for a form: more are too many for the API.
const MAX_NAMED: usize = 51;

/// So much of what happened is shown.
const HAPPENED: &str = "10";

/// So many parts are shown.
const PARTS: &str = "50";

#[derive(Template)]
#[template(path = "task.html")]
struct TaskPage {
    frame: Frame,
    place: TeamPlace,
    task: Task,
    related: Related,
    notes: List<Message>,
    activity: Activity,
    crew: Crew,
    people: People,
    /// The forms of the text, of the work and of the plan.
    texts: Form,
    work: Form,
    plan: Form,
    /// Whether the form that failed is that of the text.
    is_editing: bool,
}

/// Other tasks that have to do with a task.
struct Related {
    /// What it depends on.
    before: Vec<Task>,
    /// What it is a part of.
    parent: Option<Task>,
    /// Its first parts.
    parts: Vec<Task>,
}

impl Related {
    async fn read(visit: &Visit, place: &TeamPlace, task: &Task) -> Result<Self> {
        let mut before = Vec::new();
        for id in &task.depends_on {
            before.extend(read(visit, place, id).await?);
        }
        let parent = match &task.parent_task_id.0 {
            Some(id) => read(visit, place, id).await?,
            None => None,
        };
        let mut parts = Vec::new();
        if task.children.total > 0 {
            let query = [("parentTaskId", task.id.as_str()), ("limit", PARTS)];
            let found: List<Task> = visit.api.get(&place.api("/tasks"), &query).await?;
            parts = found.items;
        }
        Ok(Related { before, parent, parts })
    }
}

/// A task, unless it did not come with the others from where they were exported.
async fn read(visit: &Visit, place: &TeamPlace, id: &str) -> Result<Option<Task>> {
    match visit.api.get(&place.api(&format!("/tasks/{}", segment(id))), &[]).await {
        Err(error) if error.kind() == Kind::NotFound => Ok(None),
        found => found.map(Some),
    }
}

async fn text_form(visit: &Visit, path: &str) -> Result<Form> {
    let form = Form::change(visit, path, tasks::texts()).await?;
    Ok(form.action("edit").done(visit.path.as_str(), Flash::TaskSaved))
}

async fn work_form(visit: &Visit, path: &str, crew: &Crew, people: &People) -> Result<Form> {
    let status = Field::select("status", "Status", board::statuses());
    let fields = vec![status, agent(crew, "Nobody"), person(people), priority()];
    let form = Form::change(visit, path, fields).await?;
    Ok(form.action("save").done(visit.path.as_str(), Flash::TaskSaved))
}

/// The form of when and after what a task is done, and which numbers in it are of no tasks: other tasks are
/// named by their numbers.
async fn plan_form(
    visit: &Visit,
    place: &TeamPlace,
    path: &str,
    related: &Related,
) -> Result<(Form, Vec<Issue>)> {
    let known = related.before.iter().chain(&related.parent);
    let mut names: Vec<_> = known.map(|task| (task.id.clone(), task.number.to_string())).collect();
    let sent = ["dependsOn", "parentTaskId"].map(|field| (field, words(visit.form.get(field))));
    let is_named =
        |names: &[(String, String)], number: &str| names.iter().any(|(_, known)| known == number);
    let mut unknown: BTreeSet<&str> = sent.iter().flat_map(|(_, words)| words.clone()).collect();
    unknown.retain(|number| !is_named(&names, number));
    for number in unknown.into_iter().take(MAX_NAMED) {
        match board::find(visit, place, number).await {
            // 0 is no number, either.
            Err(error) if matches!(error.kind(), Kind::NotFound | Kind::Invalid) => {}
            found => names.push((found?.id, number.into())),
        }
    }
    let of_none = |(field, words): (&'static str, Vec<&str>)| {
        let number = words.into_iter().find(|word| !is_named(&names, word))?;
        Some(Issue::new(field, format!("there is no task {number} in this team")))
    };
    let issues = sent.into_iter().filter_map(of_none).collect();
    let before = Field::text("dependsOn", "Depends on").words().optional();
    let parent = Field::text("parentTaskId", "Part of").optional();
    let due = Field::text("dueAt", "Due (UTC)").moment().optional();
    let labels = Field::text("labels", "Labels").words().optional();
    let fields = vec![
        before.hint("Numbers of tasks, with commas.").named(names.clone()),
        parent.hint("The number of a task.").named(names),
        due,
        labels.hint("Words, with commas."),
    ];
    let form = Form::change(visit, path, fields).await?;
    Ok((form.action("plan").done(visit.path.as_str(), Flash::TaskSaved), issues))
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
    let people = tasks::chosen(visit, board::people_of([&task].into_iter())).await?;
    let mut work = work_form(visit, &path, &crew, &people).await?;
    let frame = place.crumbs(visit, visit.frame(&title)).failed(error).live().script("draft");
    let frame = texts.ready(frame, visit, error);
    let frame = work.ready(frame, visit, error);
    let frame = work.offer(frame, visit).await?;
    let related = Related::read(visit, &place, &task).await?;
    let (mut plan, _) = plan_form(visit, &place, &path, &related).await?;
    let happened = [("taskId", task.id.as_str()), ("limit", HAPPENED)];
    let page = TaskPage {
        frame: plan.ready(frame, visit, error),
        is_editing: error.is_some() && visit.form.get("action") == "edit",
        texts,
        work,
        plan,
        notes: visit.api.get(&place.api("/messages"), &query).await?,
        activity: Activity::read(&visit.api, &place, &happened).await?,
        crew,
        people,
        related,
        place,
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
            let people = tasks::chosen(visit, board::people_of([&task].into_iter())).await?;
            work_form(visit, &path, &crew, &people).await?.send(visit).await
        }
        "plan" => {
            let related = Related::read(visit, &place, &task).await?;
            let (form, issues) = plan_form(visit, &place, &path, &related).await?;
            if issues.is_empty() { form.send(visit).await } else { Err(Error::invalid(issues)) }
        }
        _ => return show(visit, None).await,
    };
    match done {
        Err(error) => show(visit, visit.failed(error)?).await,
        done => done,
    }
}
