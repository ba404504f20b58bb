//! `…/history` below a prompt, an agent and an environment: who did what to it, newest first. Everyone has
//! what the API lists of it; who reads the audit log has its entries that name the thing beside it, such as
//! changes of settings. Refusals name none; variables, secrets and credentials have names of their own.

use askama::Template;
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::deployments::{Environments, path};
use crate::api::Method;
use crate::api::audit::WAITS_FOR_APPROVAL;
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{People, Place, VersionRow};
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/history")
        .get(|visit| Box::pin(of_artifact(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/history")
        .get(|visit| Box::pin(of_artifact(visit))),
    Page::of_org("/o/{org}/agents/{key}/history").get(|visit| Box::pin(of_agent(visit))),
    Page::of_org("/o/{org}/environments/{id}/history").get(|visit| Box::pin(of_environment(visit))),
];

/// The newest of each kind, and of all together: older ones are in the lists and in the audit log.
const SHOWN: usize = 50;
const LIMIT: (&str, &str) = ("limit", "50");

/// Actions of the audit log that the lists have, too.
const LISTED: [&str; 2] = ["artifact_label.move", "artifact_label.delete"];

#[derive(Template)]
#[template(path = "history.html")]
struct HistoryPage {
    frame: Frame,
    lines: Vec<Line>,
    /// The same of the audit log, for who reads it.
    audit: String,
    is_cut: bool,
    lacks_versions: bool,
}

/// Something that happened.
struct Line {
    at: Time,
    who: String,
    what: String,
    /// What it is about, and its page.
    about: Option<(String, String)>,
    detail: String,
}

impl Line {
    fn new(at: Time, who: &str, what: impl Into<String>) -> Self {
        let (who, what) = (who.to_string(), what.into());
        Line { at, who, what, about: None, detail: String::new() }
    }

    fn about(self, name: impl Into<String>, path: String) -> Self {
        Line { about: Some((name.into(), path)), ..self }
    }

    fn detail(self, detail: impl Into<String>) -> Self {
        Line { detail: detail.into(), ..self }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry {
    created_at: Time,
    actor: Actor,
    action: String,
    resource: Resource,
}

#[derive(Deserialize)]
struct Actor {
    name: String,
}

#[derive(Deserialize)]
struct Resource {
    detail: Nullable<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LabelMove {
    label: String,
    from: Nullable<String>,
    to: Nullable<String>,
    moved_by: String,
    moved_at: Time,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    name: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: u32,
    created_by: String,
    created_at: Time,
    message: Nullable<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deployed {
    job_id: String,
    environment_id: String,
    prompt_name: String,
    version: String,
    deployed_by: String,
    deployed_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Job {
    id: String,
    kind: String,
    state: String,
    prompt_name: Nullable<String>,
    version: Nullable<String>,
    created_by: String,
    created_at: Time,
}

async fn list<T: DeserializeOwned>(
    visit: &Visit,
    path: &str,
    query: &[(&str, &str)],
) -> Result<List<T>> {
    visit.api.get(path, &[query, &[LIMIT]].concat()).await
}

/// What lists say together, the newest of each.
#[derive(Default)]
struct Found {
    lines: Vec<Line>,
    /// Whether one of them has more.
    is_cut: bool,
    /// Whether it has more versions of a prompt: the API lists the highest first, not the newest.
    lacks_versions: bool,
}

impl Found {
    fn add<T: DeserializeOwned>(&mut self, list: List<T>, line: impl FnMut(T) -> Line) {
        self.is_cut |= list.next_cursor.is_some();
        self.lines.extend(list.items.into_iter().map(line));
    }
}

/// Shows what happened, with what the audit log says of a resource.
async fn show(visit: &Visit, frame: Frame, id: &str, mut found: Found) -> Result<Reply> {
    let mut audit = String::new();
    if visit.may(Method::Get, "/audit-logs") {
        let mut entries: List<Entry> = list(visit, "/audit-logs", &[("resourceId", id)]).await?;
        let is_new = |entry: &Entry| {
            let waits = entry
                .resource
                .detail
                .as_deref()
                .is_some_and(|text| text.contains(WAITS_FOR_APPROVAL));
            waits || !LISTED.contains(&entry.action.as_str())
        };
        entries.items.retain(is_new);
        found.add(entries, |entry| {
            let detail = entry.resource.detail.0.unwrap_or_default();
            Line::new(entry.created_at, &entry.actor.name, said(&entry.action)).detail(detail)
        });
        let query: String =
            form_urlencoded::Serializer::new(String::new()).append_pair("resourceId", id).finish();
        audit = visit.in_org(&format!("/operations/audit?{query}"));
    }
    let Found { mut lines, is_cut, lacks_versions } = found;
    lines.sort_by_key(|line| std::cmp::Reverse(line.at));
    let is_cut = is_cut || lines.len() > SHOWN;
    lines.truncate(SHOWN);
    let page = HistoryPage { frame: frame.live(), lines, audit, is_cut, lacks_versions };
    render(page.frame.status, &page)
}

/// An action of the audit log in words: `environment_variable.set` is "environment variable: set".
fn said(action: &str) -> String {
    let (noun, verb) = action.split_once('.').unwrap_or((action, ""));
    format!("{}: {}", noun.replace('_', " "), verb.replace('_', " "))
}

async fn of_artifact(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let people = People::read(&visit.api).await?;
    let versions: List<VersionRow> =
        list(visit, "/registries/artifact-versions", &place.query(&[])).await?;
    let moves: List<LabelMove> =
        list(visit, "/registries/artifacts/labels/history", &place.query(&[])).await?;
    place.get(&visit.api).await?;
    let lacks_versions = versions.next_cursor.is_some();
    let mut found = Found { lacks_versions, ..Found::default() };
    found.add(versions, |row| {
        Line::new(row.published_at, people.name(&row.published_by), "published")
            .about(row.version.clone(), place.version(&row.version))
            .detail(row.message.0.unwrap_or_default())
    });
    found.add(moves, |step| {
        let who = people.name(&step.moved_by);
        match (step.from.0, step.to.0) {
            (_, None) => Line::new(step.moved_at, who, format!("removed {}", step.label)),
            (from, Some(to)) => {
                let from = from.map(|from| format!(" from {from}")).unwrap_or_default();
                Line::new(step.moved_at, who, format!("moved {}{from} to", step.label))
                    .about(to.clone(), place.version(&to))
            }
        }
    });
    let frame = place.crumbs(visit, visit.frame(&format!("History of {}", place.name)));
    let id =
        format!("{}/{}/{}/{}", visit.member().org_slug, place.registry, place.kind, place.name);
    show(visit, frame, &id, found).await
}

async fn of_agent(visit: &Visit) -> Result<Reply> {
    let api_path = format!("/agents/{}", segment(visit.param(1)));
    let agent: Named = visit.api.get(&api_path, &[]).await?;
    let people = People::read(&visit.api).await?;
    let environments = Environments::read(&visit.api).await?;
    let page = visit.in_org(&api_path);
    let versions: List<Version> = list(visit, &format!("{api_path}/versions"), &[]).await?;
    let deployed: List<Deployed> =
        list(visit, &format!("{api_path}/deployment-history"), &[]).await?;
    let mut found = Found::default();
    found.add(versions, |version| {
        let number = version.version;
        Line::new(version.created_at, people.name(&version.created_by), "made")
            .about(format!("version {number}"), format!("{page}/versions/{number}"))
            .detail(version.message.0.unwrap_or_default())
    });
    found.add(deployed, |one| {
        let what = format!("deployed to {}:", environments.name(&one.environment_id));
        let about = format!("{} {}", one.prompt_name, one.version);
        Line::new(one.deployed_at, people.name(&one.deployed_by), what)
            .about(about, path(visit, &one.job_id))
    });
    let frame = visit.frame(&format!("History of {}", agent.name));
    let frame = frame.crumb("Agents", visit.in_org("/agents")).crumb(agent.name, page.clone());
    show(visit, frame, &agent.id, found).await
}

async fn of_environment(visit: &Visit) -> Result<Reply> {
    let api_path = format!("/environments/{}", segment(visit.param(1)));
    let environment: Named = visit.api.get(&api_path, &[]).await?;
    let people = People::read(&visit.api).await?;
    let of_it = [("environment", environment.id.as_str())];
    let jobs: List<Job> = list(visit, "/agents/deployments", &of_it).await?;
    let mut found = Found::default();
    found.add(jobs, |job| {
        let what = match job.kind.as_str() {
            "rollback" => "rolled back:",
            _ => "asked for a deployment:",
        };
        let title = [job.prompt_name.0, job.version.0].into_iter().flatten().collect::<Vec<_>>();
        let title = if title.is_empty() { "see its job".into() } else { title.join(" ") };
        Line::new(job.created_at, people.name(&job.created_by), what)
            .about(title, path(visit, &job.id))
            .detail(job.state.replace('_', " "))
    });
    let frame = visit.frame(&format!("History of {}", environment.name));
    let frame = frame
        .crumb("Environments", visit.in_org("/environments"))
        .crumb(environment.name, visit.above());
    show(visit, frame, &environment.id, found).await
}
