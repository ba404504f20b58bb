//! `/o/{org}/deployments`: the jobs, newest first.

use std::collections::BTreeMap;

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::{Result, Time};
use crate::console::api::{Api, segment};
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::heatmap::Heatmap;
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/deployments").get(|visit| Box::pin(show(visit)))];

/// A parameter of a route.
type Parameter = (&'static str, &'static str);

/// The filters: the value in the query, its label, and the parameter of the route that it is.
const FILTERS: [(&str, &str, Option<Parameter>); 6] = [
    ("", "All", None),
    ("mine", "Waiting for you", Some(("approver", "me"))),
    ("pending_approval", "Waiting", Some(("state", "pending_approval"))),
    ("running", "Running", Some(("state", "running"))),
    ("partial", "Partly failed", Some(("state", "partial"))),
    ("error", "Failed", Some(("state", "error"))),
];

#[derive(Template)]
#[template(path = "deployments.html")]
struct Deployments {
    frame: Frame,
    base: String,
    jobs: List<Job>,
    environments: Environments,
    only: String,
    filters: Vec<(&'static str, &'static str)>,
    heatmap: Heatmap,
    may_deploy: bool,
    /// Whether those that wait for the visitor are shown, beside which there are label changes.
    is_mine: bool,
    label_changes: String,
}

/// A job, as lists show it.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Job {
    pub id: String,
    pub kind: String,
    pub state: String,
    pub environment_id: String,
    pub prompt_name: Nullable<String>,
    pub version: Nullable<String>,
    pub targets: Vec<Target>,
    pub created_at: Time,
}

/// What a job is about.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Target {
    pub stable_key: Nullable<String>,
    pub state: String,
    pub error: Nullable<String>,
}

impl Job {
    /// What is deployed.
    pub fn title(&self) -> String {
        match (self.prompt_name.as_deref(), self.version.as_deref()) {
            (Some(name), Some(version)) => format!("{name} {version}"),
            _ if self.kind == "tools" => "Tools".into(),
            _ => "Configuration".into(),
        }
    }

    /// To what it is deployed.
    pub fn to(&self) -> String {
        let keys: Vec<_> =
            self.targets.iter().filter_map(|one| one.stable_key.as_deref()).collect();
        match keys.as_slice() {
            [] => format!("{} tools", self.targets.len()),
            [one, two, three, .., _] => {
                format!("{one}, {two}, {three} and {} more", keys.len() - 3)
            }
            few => few.join(", "),
        }
    }
}

/// The names of environments by id.
pub struct Environments(BTreeMap<String, String>);

#[derive(Deserialize)]
struct Environment {
    id: String,
    name: String,
}

impl Environments {
    /// Reads those that the visitor may use.
    pub async fn read(api: &Api) -> Result<Self> {
        let all: List<Environment> = api.get("/environments", &[("limit", "100")]).await?;
        Ok(Environments(all.items.into_iter().map(|one| (one.id, one.name)).collect()))
    }

    /// The name of an environment.
    pub fn name<'a>(&'a self, id: &'a str) -> &'a str {
        self.0.get(id).map_or("a deleted environment", String::as_str)
    }
}

/// The path of a job's page.
pub fn path(visit: &Visit, id: &str) -> String {
    visit.in_org(&format!("/deployments/jobs/{}", segment(id)))
}

/// Class, icon and word of a state of jobs or targets.
pub fn state(name: &str) -> (&'static str, &'static str, &'static str) {
    match name {
        "pending_approval" => ("warning", "clock", "Waits for approval"),
        "approved" => ("off", "clock", "Approved"),
        "running" => ("off", "half", "Running"),
        "complete" => ("good", "check", "Complete"),
        "applied" => ("good", "check", "Applied"),
        "partial" => ("warning", "triangle", "Partly failed"),
        "error" | "failed" => ("bad", "octagon", "Failed"),
        "timeout" => ("bad", "clock", "Timed out"),
        "denied" => ("bad", "octagon", "Denied"),
        "cancelled" => ("off", "off", "Cancelled"),
        "waiting" => ("off", "clock", "Waits"),
        "skipped" => ("off", "off", "Skipped"),
        _ => ("off", "off", "Unknown"),
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let only = visit.query.get("only");
    let filter = FILTERS.iter().find(|(value, ..)| *value == only);
    let (only, _, parameter) = filter.copied().unwrap_or(FILTERS[0]);
    let mut query: Vec<_> = parameter.into_iter().collect();
    query.extend(visit.walk());
    let page = Deployments {
        frame: visit.frame("Deployments").live(),
        base: visit.in_org("/deployments"),
        jobs: visit.api.get("/agents/deployments", &query).await?,
        environments: Environments::read(&visit.api).await?,
        is_mine: only == "mine",
        label_changes: visit.in_org("/label-changes?only=mine"),
        only: only.into(),
        heatmap: Heatmap::read(visit).await?,
        may_deploy: visit.may(Method::Post, "/agents/deployments"),
        filters: FILTERS.iter().map(|(value, label, _)| (*value, *label)).collect(),
    };
    render(page.frame.status, &page)
}
