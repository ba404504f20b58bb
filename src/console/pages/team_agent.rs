//! `/o/{org}/teams/{slug}/agents/{agent}`: an agent of a team: what it is to do next, what it did,
//! what it remembers.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::inbox::beginning;
use super::shown_once::ShownOnce;
use super::team_agents::fields;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::budget::{self, usd};
use crate::console::conflict::{self, Edited};
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::team::{TeamAgent, TeamPlace, or_null};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/teams/{slug}/agents/{agent}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/teams/{slug}/agents/{agent}/remove")
        .form(|visit| Box::pin(remove(visit))),
];

/// Rows of each of its lists.
const ROWS: &str = "20";

#[derive(Template)]
#[template(path = "team_agent.html")]
struct AgentPage {
    frame: Frame,
    place: TeamPlace,
    org: String,
    agent: TeamAgent,
    people: People,
    /// The form of the role and the budget.
    form: Form,
    /// Whether the visitor may use it; if not, the page has nothing that is the agent's own.
    is_usable: bool,
    /// Whether the visitor may look at what it is woken for.
    sees_wakes: bool,
    wakes: List<Wake>,
    /// Those that it never acknowledged.
    failed_wakes: List<FailedWake>,
    /// Numbers of the tasks that they are about, by id.
    tasks: BTreeMap<String, u32>,
    runs: List<Run>,
    memories: List<Memory>,
    /// The words that memories are searched for.
    search: String,
    /// Which form failed; empty if none did.
    failed: String,
    /// The digest of what the form of the address edits.
    wake_was: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wake {
    id: String,
    reason: String,
    task_id: Nullable<String>,
    text: Nullable<String>,
    attempts: u32,
    created_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct FailedWake {
    failed_at: Time,
    wake: Wake,
}

/// An agent whose address was set, with the secret if this made it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Woken {
    name: String,
    wake_secret: Nullable<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Run {
    status: String,
    cost_usd: Nullable<f64>,
    error: Nullable<String>,
    created_at: Time,
}

impl Run {
    /// Class, icon and word of how it ended.
    fn state(&self) -> (&'static str, &'static str, &'static str) {
        match self.status.as_str() {
            "succeeded" => ("good", "check", "Succeeded"),
            "failed" => ("bad", "octagon", "Failed"),
            _ => ("off", "off", "Cancelled"),
        }
    }

    /// What it cost.
    fn cost(&self) -> String {
        self.cost_usd.map_or(String::new(), usd)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Memory {
    id: String,
    content: String,
    tags: Vec<String>,
    created_at: Time,
}

impl Memory {
    /// What a button says it forgets.
    fn beginning(&self) -> String {
        beginning(&self.content)
    }
}

impl AgentPage {
    /// The number of the task that a wake is about.
    fn task(&self, wake: &Wake) -> Option<&u32> {
        self.tasks.get(wake.task_id.as_deref()?)
    }
}

fn api_path(visit: &Visit, place: &TeamPlace, below: &str) -> String {
    place.api(&format!("/agents/{}{below}", segment(visit.param(2))))
}

/// The form of its role and its budget.
async fn role(visit: &Visit, place: &TeamPlace) -> Result<Form> {
    let mut fields = fields();
    fields.push(
        Field::text("maxAttempts", "Times that it is handed a wake")
            .kind("number")
            .number()
            .hint("From 1 to 100. One that it has not acknowledged then fails."),
    );
    let hint = "What its runs in this team may cost, within the budget of the team. Without an amount it \
                has none of its own.";
    fields.extend(budget::fields("Its budget for a month, in US dollars", hint));
    let form = Form::change(visit, &api_path(visit, place, ""), fields).await?;
    Ok(form.refined(budget::refine).action("save").done(visit.path.as_str(), Flash::TeamAgentSaved))
}

/// What the form of the address edits.
fn edited_wake(visit: &Visit, agent: &TeamAgent) -> Vec<Edited> {
    let stored = agent.wake_url.as_deref().unwrap_or_default();
    vec![Edited::text(visit, "wakeUrl", "Address", stored)]
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let api = &visit.api;
    let at = |below: &str| api_path(visit, &place, below);
    let mut form = role(visit, &place).await?;
    let agent: TeamAgent = form.stored()?;
    let few = [("limit", ROWS)];
    let peek = [("limit", ROWS), ("peek", "true")];
    let runs = api.get::<List<Run>>(&at("/runs"), &few).await;
    let is_usable = !matches!(&runs, Err(error) if error.code() == "grant_required");
    let runs = if is_usable { runs? } else { List::none() };
    // Who takes wakes leases them, even to look: that is not for viewers.
    let sees_wakes = is_usable && visit.may(Method::Get, &at("/wakes"));
    let wakes: List<Wake> =
        if sees_wakes { api.get(&at("/wakes"), &peek).await? } else { List::none() };
    let failed_wakes: List<FailedWake> = match agent.failed_wakes {
        0 => List::none(),
        _ => api.get(&at("/wakes/failed"), &few).await?,
    };
    let failed = failed_wakes.items.iter().map(|failed| &failed.wake);
    let about = wakes.items.iter().chain(failed).filter_map(|wake| wake.task_id.as_deref());
    let tasks = place.numbers_of(api, about).await?;
    let search = visit.query.get("q").trim();
    let mut query = vec![("limit", ROWS)];
    query.extend((!search.is_empty()).then_some(("q", search)));
    query.extend(visit.cursor());
    let memories = match is_usable {
        true => api.get(&at("/memories"), &query).await?,
        false => List::none(),
    };
    let frame = place.crumbs(visit, visit.frame(&agent.name)).crumb("Agents", place.at("/agents"));
    let error = error.as_ref();
    let failed = if error.is_some() { visit.form.get("action") } else { "" };
    let is_of_wakes = matches!(failed, "wake" | "quiet");
    let wake = edited_wake(visit, &agent);
    let frame = form.ready(frame.failed(error).live(), visit, error);
    let frame = if is_of_wakes { frame.against(error, &wake, "wake", failed) } else { frame };
    let page = AgentPage {
        frame,
        failed: failed.into(),
        wake_was: conflict::was(visit, error, &wake, is_of_wakes),
        org: visit.in_org(""),
        is_usable,
        sees_wakes,
        wakes,
        failed_wakes,
        tasks,
        runs,
        memories,
        form,
        search: search.into(),
        people: paused::people(api, &agent.paused).await?,
        agent,
        place,
    };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = TeamPlace::of(visit).await?;
    let of = |name| visit.form.get(name);
    let (done, flash) = match of("action") {
        "save" => match role(visit, &place).await?.send(visit).await {
            Err(error) => return show(visit, visit.failed(error)?).await,
            saved => return saved,
        },
        "wake" | "quiet" => return set_wake_url(visit, &place).await,
        "pause" | "resume" => {
            let flash = if of("action") == "pause" { Flash::Paused } else { Flash::Resumed };
            (paused::act(visit, &api_path(visit, &place, "")).await, flash)
        }
        action @ ("retry" | "drop") => {
            let below = if action == "retry" { "/wakes/retry" } else { "/wakes/ack" };
            let body = json!({"wakeIds": visit.form.all("wake").collect::<Vec<_>>()});
            let sent = visit.api.post::<Value>(&api_path(visit, &place, below), body).await;
            let flash = if action == "retry" { Flash::WakesRetried } else { Flash::WakesDropped };
            (sent.map(drop), flash)
        }
        "forget" => {
            let below = format!("/memories/{}", segment(of("memory")));
            let gone = visit.api.delete(&api_path(visit, &place, &below), &[]).await;
            (gone, Flash::MemoryForgotten)
        }
        _ => return show(visit, None).await,
    };
    match done {
        Ok(()) => Ok(visit.done(&visit.path, flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

/// Sets or clears the address to which wakes are posted. The first one makes a secret, shown here.
async fn set_wake_url(visit: &Visit, place: &TeamPlace) -> Result<Reply> {
    let is_set = visit.form.get("action") == "wake";
    if is_set && visit.form.some("wakeUrl").is_none() {
        let error = Error::invalid_at("wakeUrl", "must not be empty");
        return show(visit, Some(error)).await;
    }
    let url = if is_set { or_null(visit, "wakeUrl") } else { Value::Null };
    let path = api_path(visit, place, "");
    let edited = |agent: &TeamAgent| edited_wake(visit, agent);
    let saved = match visit.save(&path, json!({"wakeUrl": url}), edited).await {
        Ok(saved) => saved,
        Err(error) => return show(visit, visit.failed(error)?).await,
    };
    let Woken { name, wake_secret } = Woken::deserialize(saved).map_err(Error::internal)?;
    let flash = if is_set { Flash::WakeUrlSet } else { Flash::WakeUrlCleared };
    let Some(secret) = wake_secret.0 else { return Ok(visit.done(&visit.path, flash)) };
    ShownOnce {
        frame: visit.frame(&format!("The secret of {name}'s wakes")),
        lead: "Posted wakes are signed with it. Give it to the agent, which verifies them by it."
            .into(),
        secret,
        command: String::new(),
        next: (visit.path.clone(), "Go to the agent"),
    }
    .show()
}

async fn remove(visit: &Visit) -> Result<FormPage> {
    let place = TeamPlace::of(visit).await?;
    let form = Form::delete(visit, &api_path(visit, &place, "")).await?;
    let title = format!("Remove {} from {}?", form.known("name"), place.team.name);
    let frame = place.crumbs(visit, visit.frame(&title)).crumb("Agents", place.at("/agents"));
    let button = format!("Remove {}", form.known("stableKey"));
    let form = form.button(button).done(place.at("/agents"), Flash::AgentRemoved);
    Ok(form.page(frame).lead(
        "Its open tasks become free for others, and its wakes and memories in this team are deleted. \
         They cannot be brought back. The agent itself stays, and may be added again without them.",
    ))
}
