//! `/o/{org}/teams/{slug}/schedules`: what a team does at certain times, and adding to it.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::field::{Field, number};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused::Pause;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{Crew, TeamPlace};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/schedules").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/teams/{slug}/schedules/new")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
];

/// What the fields of `cron` are.
pub const CRON: &str = "Five fields: minute, hour, day of the month, month, day of the week. 0 9 * * mon \
                        is Mondays at nine.";

/// What a task has without an agent.
pub const NOBODY: &str = "Nobody: any agent may claim it";

/// What a schedule may do.
const KINDS: [(&str, &str); 2] = [("task", "Create a task"), ("wake", "Wake an agent")];

/// What happens with missed times.
pub const ON_MISSED: [(&str, &str); 2] =
    [("skip", "They are skipped"), ("once", "It is done once, as soon as possible")];

/// What happens while the last task is open.
pub const OVERLAP: [(&str, &str); 2] =
    [("skip", "No further task is created"), ("queue", "A further task is created")];

#[derive(Template)]
#[template(path = "team_schedules.html")]
struct Schedules {
    frame: Frame,
    place: TeamPlace,
    schedules: List<Schedule>,
}

#[derive(Template)]
#[template(path = "new_schedule.html")]
struct NewSchedule {
    frame: Frame,
    place: TeamPlace,
    kinds: [(&'static str, &'static str); 2],
    on_missed: [(&'static str, &'static str); 2],
    overlap: [(&'static str, &'static str); 2],
    agent: Field,
}

/// A schedule.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Schedule {
    pub id: String,
    pub name: String,
    pub cron: Nullable<String>,
    pub every_secs: Nullable<u32>,
    pub time_zone: String,
    pub task: Nullable<Task>,
    pub wake: Nullable<Wake>,
    pub paused: Nullable<Pause>,
    /// Why it begins nothing any more.
    pub stopped: Nullable<String>,
    pub next_times: Vec<Time>,
    pub set_by: String,
}

/// The task that a schedule creates.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Task {
    pub title: String,
    pub description: Nullable<String>,
    pub assignee_agent_id: Nullable<String>,
}

/// The wake that a schedule causes.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Wake {
    pub agent_id: String,
    pub text: String,
}

impl Schedule {
    /// When it is due, in words.
    pub fn when(&self) -> String {
        match (&self.cron.0, self.every_secs.0) {
            (Some(cron), _) => format!("{cron} ({})", self.time_zone),
            (None, Some(secs)) if secs % 3600 == 0 => format!("every {} h", secs / 3600),
            (None, Some(secs)) if secs % 60 == 0 => format!("every {} min", secs / 60),
            (None, secs) => format!("every {} s", secs.unwrap_or_default()),
        }
    }

    /// Why it begins nothing any more, as a sentence; empty if that is not so.
    pub fn why_stopped(&self) -> String {
        self.stopped.as_deref().map_or(String::new(), sentence)
    }

    /// Whether it begins again when it is resumed: why it has stopped says so then.
    pub fn is_resumable(&self) -> bool {
        self.stopped.as_deref().is_some_and(|why| why.contains("resume the schedule"))
    }

    /// What it does, in words.
    pub fn what(&self) -> &'static str {
        if self.task.is_some() { "Creates a task" } else { "Wakes an agent" }
    }

    /// The text of its task or wake.
    pub fn text(&self) -> &str {
        let title = self.task.as_ref().map(|task| task.title.as_str());
        let text = self.wake.as_ref().map(|wake| wake.text.as_str());
        title.or(text).unwrap_or_default()
    }

    /// The agent that it names; empty if there is none.
    pub fn agent(&self) -> &str {
        let assignee = self.task.as_ref().and_then(|task| task.assignee_agent_id.as_deref());
        self.wake.as_ref().map(|wake| wake.agent_id.as_str()).or(assignee).unwrap_or_default()
    }
}

async fn list(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let page = Schedules {
        frame: place.crumbs(visit, visit.frame("Schedules")).live(),
        schedules: visit.api.get(&place.api("/schedules"), &visit.walk()).await?,
        place,
    };
    render(page.frame.status, &page)
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    visit.require(Method::Post, &place.api("/schedules"))?;
    let frame = place.crumbs(visit, visit.frame("New schedule"));
    let frame = frame.crumb("Schedules", place.at("/schedules")).failed(error.as_ref());
    let frame = frame.rename("task.title", "text").rename("wake.text", "text");
    let frame = frame.rename("task.description", "description");
    let frame = frame.rename("task.assigneeAgentId", "agentId").rename("wake.agentId", "agentId");
    let agent = Crew::read(&visit.api, &place).await?.field("agentId", Some(NOBODY));
    let page = NewSchedule {
        frame: frame.picking(visit, &[&agent]).await?,
        kinds: KINDS,
        on_missed: ON_MISSED,
        overlap: OVERLAP,
        agent,
        place,
    };
    render(page.frame.status, &page)
}

#[derive(Deserialize)]
struct Made {
    id: String,
}

async fn create(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let of = |name| visit.form.get(name);
    let mut body = json!({
        "name": of("name"), "onMissed": of("onMissed"), "overlap": of("overlap"),
    });
    timing(visit, &mut body);
    let crew = Crew::read(&visit.api, &place).await?;
    let agent = visit.form.some("agentId").map(|word| crew.meant(word));
    if of("kind") == "wake" {
        body["wake"] = json!({"agentId": agent.unwrap_or_default(), "text": of("text")});
    } else {
        body["task"] = json!({"title": of("text"), "description": visit.form.some("description"),
            "assigneeAgentId": agent});
    }
    match visit.api.post::<Made>(&place.api("/schedules"), body).await {
        Ok(made) => {
            let path = place.at(&format!("/schedules/{}", made.id));
            Ok(visit.done(&path, Flash::ScheduleCreated))
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

/// Adds when it is due to what is sent.
fn timing(visit: &Visit, body: &mut Value) {
    for name in ["cron", "timeZone"] {
        if let Some(text) = visit.form.some(name) {
            body[name] = json!(text.trim());
        }
    }
    if let Some(secs) = visit.form.some("everySecs") {
        body["everySecs"] = number(secs);
    }
}
