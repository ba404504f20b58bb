//! `/o/{org}/agents/{key}`: an agent: what is live where and what it says there, its versions and its
//! history; deleting it.

use askama::Template;
use serde::Deserialize;

use super::agents::{Agent, Fleets, status};
use super::deployments::{Environments, path};
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::paused;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/agents/{key}")
        .get(|visit| Box::pin(show(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/agents/{key}/delete").form(|visit| Box::pin(delete(visit))),
];

/// Rows of its lists.
const ROWS: &str = "10";

#[derive(Template)]
#[template(path = "agent.html")]
struct AgentPage {
    frame: Frame,
    org: String,
    path: String,
    /// The path of the list of agents.
    list: String,
    agent: Agent,
    places: Vec<Place>,
    history: List<Deployment>,
    versions: List<Version>,
    environments: Environments,
    fleets: Fleets,
    people: People,
    may_deploy: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Place {
    environment_id: String,
    live: Nullable<Live>,
    report: Nullable<Report>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Live {
    prompt_name: String,
    version: String,
    hash: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    reported_at: Time,
    hash: Nullable<String>,
    drifted: bool,
    stale: bool,
    error: Nullable<String>,
}

impl Place {
    /// Class, icon and word of the agent's state there.
    fn state(&self) -> (&'static str, &'static str, &'static str) {
        status(match self.report.as_ref() {
            Some(report) if report.error.is_some() => "error",
            Some(report) if report.stale => "stale",
            Some(report) if report.drifted => "drifted",
            _ if self.live.is_some() => "deployed",
            _ => "undeployed",
        })
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deployment {
    id: String,
    job_id: String,
    environment_id: String,
    prompt_name: String,
    version: String,
    live: bool,
    deployed_by: String,
    deployed_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: u32,
    hash: String,
    created_by: String,
    created_at: Time,
    message: Nullable<String>,
}

/// The path of an agent in the API.
pub fn api_path(visit: &Visit, below: &str) -> String {
    format!("/agents/{}{below}", segment(visit.param(1)))
}

/// The path of an agent's page.
pub fn page_path(visit: &Visit) -> String {
    visit.in_org(&api_path(visit, ""))
}

async fn show(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let api = &visit.api;
    let agent: Agent = api.get(&api_path(visit, ""), &[]).await?;
    let places: List<Place> = api.get(&api_path(visit, "/environments"), &[]).await?;
    let mut few = vec![("limit", ROWS)];
    let versions = api.get(&api_path(visit, "/versions"), &few).await?;
    few.extend(visit.cursor());
    let frame = visit.frame(&agent.name).crumb("Agents", visit.in_org("/agents"));
    let page = AgentPage {
        frame: frame.failed(error.as_ref()).live(),
        org: visit.in_org(""),
        path: page_path(visit),
        list: visit.in_org("/agents"),
        places: places.items,
        history: api.get(&api_path(visit, "/deployment-history"), &few).await?,
        versions,
        environments: Environments::read(api).await?,
        fleets: Fleets::read(api).await?,
        people: People::read(api).await?,
        may_deploy: visit.may(Method::Post, "/agents/deployments"),
        agent,
    };
    render(page.frame.status, &page)
}

#[derive(Deserialize)]
struct Job {
    id: String,
}

async fn act(visit: &Visit) -> Result<Reply> {
    let flash = match visit.form.get("action") {
        "pause" => Flash::Paused,
        "resume" => Flash::Resumed,
        _ => return redeploy(visit).await,
    };
    match paused::act(visit, &api_path(visit, "")).await {
        Ok(()) => Ok(visit.done(&page_path(visit), flash)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn redeploy(visit: &Visit) -> Result<Reply> {
    let Some(deployment) = visit.form.some("deployment") else { return show(visit, None).await };
    let below = format!("/deployment-history/{}/redeploy", segment(deployment));
    match visit.api.post::<Job>(&api_path(visit, &below), serde_json::json!({})).await {
        Ok(job) => Ok(visit.done(&path(visit, &job.id), Flash::Deployed)),
        Err(error) => show(visit, visit.failed(error)?).await,
    }
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit, "")).await?;
    let name = form.known("name");
    let button = format!("Delete {}", form.known("stableKey"));
    let frame = visit.frame(&format!("Delete {name}?")).crumb("Agents", visit.in_org("/agents"));
    let form = form.button(button).done(visit.in_org("/agents"), Flash::AgentDeleted);
    Ok(form.page(frame.crumb(name, page_path(visit))).lead(
        "The agent goes with its draft and its versions, and nothing of it is live any more: its \
         program gets an error when it asks what to run. It cannot be brought back. An agent that is \
         in a team, or that a deployment waits for, is not deleted. Records of its deployments stay.",
    ))
}
