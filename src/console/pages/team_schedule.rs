//! `/o/{org}/teams/{slug}/schedules/{schedule}`: a schedule: its next times and what it caused; changing,
//! pausing and deleting it.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::confirm::Confirm;
use super::team_schedules::{CRON, NOBODY, ON_MISSED, OVERLAP, Schedule};
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::Form;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/schedules/{schedule}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/teams/{slug}/schedules/{schedule}/delete")
        .get(|visit| Box::pin(ask(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

/// Rows of its history.
const ROWS: &str = "20";

#[derive(Template)]
#[template(path = "team_schedule.html")]
struct SchedulePage {
    frame: Frame,
    place: TeamPlace,
    schedule: Schedule,
    runs: List<Run>,
    /// Numbers of the tasks that it created, by id.
    tasks: BTreeMap<String, u32>,
    crew: Crew,
    people: People,
    form: Form,
    /// Whether the form was sent.
    is_open: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    due_at: Time,
    outcome: String,
    missed: u32,
    task_id: Nullable<String>,
    error: Nullable<String>,
}

impl Run {
    /// Class, icon and word of what became of it.
    fn state(&self) -> (&'static str, &'static str, &'static str) {
        match self.outcome.as_str() {
            "task_created" => ("good", "check", "Task created"),
            "agent_woken" => ("good", "check", "Agent woken"),
            "overlapped" => ("off", "off", "The last task was open"),
            "missed" => ("warning", "triangle", "Missed"),
            _ => ("bad", "octagon", "Failed"),
        }
    }
}

impl SchedulePage {
    /// The number of the task of a time.
    fn task(&self, run: &Run) -> Option<&u32> {
        self.tasks.get(run.task_id.as_deref()?)
    }
}

fn api_path(visit: &Visit, place: &TeamPlace, below: &str) -> String {
    place.api(&format!("/schedules/{}{below}", segment(visit.param(2))))
}

/// What a task or a wake has.
fn work(schedule: &Schedule, crew: &Crew) -> Vec<Field> {
    if schedule.wake.is_some() {
        return vec![
            Field::area("text", "What the agent is told", 4).at("wake.text"),
            crew.field("agentId", None).at("wake.agentId"),
        ];
    }
    vec![
        Field::text("title", "Title of the task").at("task.title"),
        Field::area("description", "Description of the task", 6).at("task.description").optional(),
        crew.field("agentId", Some(NOBODY)).at("task.assigneeAgentId"),
        Field::text("projectId", "Project").at("task.projectId").optional(),
        Field::text("priority", "Priority").at("task.priority").number().hint("From 0 to 4."),
    ]
}

/// The form that changes it. What it does is replaced as a whole.
async fn settings(visit: &Visit, place: &TeamPlace, crew: &Crew) -> Result<Form> {
    let path = api_path(visit, place, "");
    let schedule: Schedule = visit.api.get(&path, &[]).await?;
    let mut fields = vec![
        Field::text("name", "Name"),
        Field::text("cron", "When").optional().hint(CRON),
        Field::text("everySecs", "Or every so many seconds").number().optional(),
        Field::text("timeZone", "Time zone"),
    ];
    fields.extend(work(&schedule, crew));
    let missed = "Times that pass while nothing can be begun";
    fields.extend([
        Field::select("onMissed", missed, ON_MISSED),
        Field::select("overlap", "While the last task is open", OVERLAP),
    ]);
    let form = Form::change(visit, &path, fields).await?.refined(|visit, _, body| {
        if visit.form.some("cron").is_none() && visit.form.some("everySecs").is_none() {
            // Null would leave what there is.
            body["cron"] = json!("");
        }
    });
    Ok(form.action("save").done(visit.path.as_str(), Flash::ScheduleSaved))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let api = &visit.api;
    let crew = Crew::read(api, &place).await?;
    let mut form = settings(visit, &place, &crew).await?;
    let schedule: Schedule = form.stored()?;
    let mut query = vec![("limit", ROWS)];
    query.extend(visit.cursor());
    let runs: List<Run> = api.get(&api_path(visit, &place, "/runs"), &query).await?;
    let tasks = runs.items.iter().filter_map(|run| run.task_id.as_deref());
    let tasks = place.numbers_of(api, tasks).await?;
    let error = error.as_ref();
    let frame = place.crumbs(visit, visit.frame(&schedule.name));
    let frame = frame.crumb("Schedules", place.at("/schedules")).failed(error).live();
    let frame = form.ready(frame, visit, error);
    let page = SchedulePage {
        frame: form.offer(frame, visit).await?,
        runs,
        tasks,
        crew,
        people: People::read(api).await?,
        form,
        is_open: error.is_some() && visit.form.get("action") == "save",
        schedule,
        place,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let of = |name| visit.form.get(name);
    let path = api_path(visit, &place, "");
    let (done, flash) = match of("action") {
        "pause" => (paused::act(visit, &path).await, Flash::Paused),
        "resume" => (paused::act(visit, &path).await, Flash::Resumed),
        "save" => {
            let crew = Crew::read(&visit.api, &place).await?;
            return match settings(visit, &place, &crew).await?.send(visit).await {
                Err(error) => show(visit, visit.failed(error)?).await,
                done => done,
            };
        }
        _ => return show(visit, None).await,
    };
    match done {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn ask(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    visit.require(Method::Delete, &api_path(visit, &place, ""))?;
    let schedule: Schedule = visit.api.get(&api_path(visit, &place, ""), &[]).await?;
    let frame = place.crumbs(visit, visit.frame(&format!("Delete {}?", schedule.name)));
    let back = place.at(&format!("/schedules/{}", segment(visit.param(2))));
    Confirm {
        frame: frame.crumb("Schedules", place.at("/schedules")),
        consequences:
            "It goes with its history and nothing is begun any more. The tasks that it has created \
                       stay."
                .into(),
        label: "Delete the schedule".into(),
        back,
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    match visit.api.delete(&api_path(visit, &place, ""), &[]).await {
        Ok(()) => Ok(visit.done(&place.at("/schedules"), Flash::ScheduleDeleted)),
        Err(error) => ask(visit, visit.failed(error)?).await,
    }
}
