//! `/o/{org}/operations/channels`: where events are delivered; creating a channel by its workflow.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/operations/channels").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/operations/new-channel")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
];

/// The pages of operations beside each other: label, path, and the route that a visitor must be
/// allowed to call.
const TABS: [(&str, &str, &str); 4] = [
    ("Log", "/operations/log", "/notifications/logs"),
    ("Channels", "/operations/channels", "/notifications/channels"),
    ("Audit", "/operations/audit", "/audit-logs"),
    ("System", "/operations/system", "/system"),
];

/// The tabs that a visitor may open.
pub fn tabs(visit: &Visit) -> Vec<(&'static str, &'static str)> {
    let open = TABS.iter().filter(|(_, _, route)| visit.may(Method::Get, route));
    open.map(|(label, path, _)| (*label, *path)).collect()
}

#[derive(Template)]
#[template(path = "channels.html")]
struct Channels {
    frame: Frame,
    base: String,
    channels: Vec<Channel>,
    may_create: bool,
}

#[derive(Template)]
#[template(path = "new_channel.html")]
struct NewChannel {
    frame: Frame,
    workflows: Vec<Workflow>,
    /// The workflow that was chosen; empty before.
    workflow: String,
    teams: Vec<(String, String)>,
    /// The team that was chosen; empty before.
    team: String,
    agents: Vec<(String, String)>,
    /// The configuration that the fields are filled with.
    url: String,
    to: String,
    agent: String,
}

/// A channel.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Channel {
    pub id: String,
    pub name: String,
    pub workflow: String,
    pub config: Map<String, Value>,
    pub enabled: bool,
    /// The recipients of mail who have not agreed.
    pub unconfirmed: Vec<String>,
    pub built_in: bool,
}

/// A kind of channels.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Workflow {
    pub key: String,
    pub label_key: String,
    pub description_key: String,
    pub event_types: Vec<String>,
}

impl Workflow {
    fn label(&self) -> &str {
        crate::console::texts::text(&self.label_key)
    }

    fn description(&self) -> &str {
        crate::console::texts::text(&self.description_key)
    }
}

/// A channel that was created.
#[derive(Deserialize)]
pub struct Created {
    pub id: String,
    pub name: String,
    /// The signing secret, if it has one.
    pub secret: Nullable<String>,
}

#[derive(Deserialize)]
struct Named {
    id: String,
    name: String,
}

/// All types of events that channels deliver, sorted.
///
/// # Errors
/// Those of the route.
pub async fn event_types(visit: &Visit) -> Result<Vec<String>> {
    let workflows: Vec<Workflow> = visit.api.items("/notifications/action-workflows", &[]).await?;
    let mut types: Vec<_> = workflows.into_iter().flat_map(|one| one.event_types).collect();
    types.sort();
    types.dedup();
    Ok(types)
}

async fn show(visit: &Visit) -> Result<Reply> {
    let page = Channels {
        frame: visit.frame("Channels").tabs(&tabs(visit)).live(),
        base: visit.in_org("/operations"),
        channels: visit.api.items("/notifications/channels", &[]).await?,
        may_create: visit.may(Method::Post, "/notifications/channels"),
    };
    render(page.frame.status, &page)
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/notifications/channels")?;
    let of =
        |name| visit.form.some(name).or(visit.query.some(name)).unwrap_or_default().to_string();
    let (workflow, team) = (of("workflow"), of("team"));
    let mut workflows: Vec<Workflow> =
        visit.api.items("/notifications/action-workflows", &[]).await?;
    workflows.retain(|one| one.key != "in_app");
    let needs_team = matches!(workflow.as_str(), "team_task" | "agent_wake");
    let teams = if needs_team { choices(visit, "/teams").await? } else { vec![] };
    let agents = if needs_team { agents(visit, &team).await? } else { vec![] };
    let frame = visit.frame("New channel").crumb("Channels", visit.in_org("/operations/channels"));
    let (url, to, agent) = Default::default();
    let frame = at_fields(frame.failed(error.as_ref()));
    let page = NewChannel { frame, workflows, workflow, teams, team, agents, url, to, agent };
    render(page.frame.status, &page)
}

/// The agents of a team, to choose from; none of no team.
///
/// # Errors
/// Those of the route.
pub async fn agents(visit: &Visit, team: &str) -> Result<Vec<(String, String)>> {
    if team.is_empty() {
        return Ok(Vec::new());
    }
    choices(visit, &format!("/teams/{}/agents", segment(team))).await
}

/// The items of a list, to choose from.
///
/// # Errors
/// Those of the route.
pub async fn choices(visit: &Visit, path: &str) -> Result<Vec<(String, String)>> {
    let all: Vec<Named> = visit.api.items(path, &[]).await?;
    Ok(all.into_iter().map(|one| (one.id, one.name)).collect())
}

/// Shows problems with a configuration at its fields.
pub fn at_fields(frame: Frame) -> Frame {
    frame
        .rename("config.url", "url")
        .rename("config.to", "to")
        .rename("config.teamId", "team")
        .rename("config.agentId", "agent")
        .rename("config.assigneeAgentId", "agent")
}

/// The configuration that the form has for a channel of this workflow.
pub fn entered(visit: &Visit, workflow: &str) -> Value {
    let of = |name| visit.form.get(name).trim();
    match workflow {
        "webhook" | "slack" => json!({"url": of("url")}),
        "email" => json!({"to": of("to").split_whitespace().collect::<Vec<_>>()}),
        "agent_wake" => json!({"teamId": of("team"), "agentId": of("agent")}),
        "team_task" if of("agent").is_empty() => json!({"teamId": of("team")}),
        "team_task" => json!({"teamId": of("team"), "assigneeAgentId": of("agent")}),
        _ => json!({}),
    }
}

async fn create(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.form.get(name).trim();
    let config = entered(visit, of("workflow"));
    let body = json!({"name": of("name"), "workflow": of("workflow"), "config": config});
    match visit.api.post::<Created>("/notifications/channels", body).await {
        Ok(Created { id, name, secret }) => {
            let path = visit.in_org(&format!("/operations/channels/{}", segment(&id)));
            match secret.0 {
                Some(secret) => signing_secret(visit, &name, secret, path),
                None => Ok(visit.done(&path, Flash::ChannelCreated)),
            }
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

/// Shows the secret with which a webhook is signed.
///
/// # Errors
/// If the template fails.
pub fn signing_secret(visit: &Visit, name: &str, secret: String, path: String) -> Result<Reply> {
    ShownOnce {
        frame: visit.frame(&format!("The secret of {name}")),
        lead: "Messages are signed with it. Give it to the receiver, which verifies them by it."
            .into(),
        secret,
        command: String::new(),
        next: (path, "Go to the channel"),
    }
    .show()
}
