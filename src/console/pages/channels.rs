//! `/o/{org}/operations/channels`: where events are delivered; creating a channel by its workflow.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::shown_once::ShownOnce;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::pick;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::team::Crew;
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
    /// The choice between teams, if there is one.
    teams: Option<Field>,
    /// The team that was chosen; empty before.
    team: String,
    agents: Option<Field>,
    /// The configuration that the fields are filled with.
    url: String,
    to: String,
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

/// All types of events that channels deliver, sorted.
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
    let frame = visit.frame("New channel").crumb("Channels", visit.in_org("/operations/channels"));
    let frame = at_fields(frame.failed(error.as_ref()));
    let (frame, teams, team, agents) = match needs_team {
        true => receivers(visit, frame, &workflow, team, "").await?,
        false => (frame, None, team, None),
    };
    let (url, to) = Default::default();
    let page = NewChannel { frame, workflows, workflow, teams, team, agents, url, to };
    render(page.frame.status, &page)
}

/// The field for the team of a channel.
const TEAM: Chooser = Chooser::one("team", Kind::Team);

/// What is shown of who receives what is delivered to a team: the frame, the choice between teams, the one
/// that is chosen, and the choice between its agents.
pub type Receivers = (Frame, Option<Field>, String, Option<Field>);

/// Reads them of a team, which is empty before one was chosen, and of the agent that is stored.
///
/// # Errors
/// Those of the routes that are not about what was typed.
pub async fn receivers(
    visit: &Visit,
    frame: Frame,
    workflow: &str,
    team: String,
    agent: &str,
) -> Result<Receivers> {
    let teams = pick(visit, "Team", TEAM, None).await?.preset(team.as_str());
    let crew = if team.is_empty() { None } else { Some(Crew::of_team(&visit.api, &team).await) };
    let (frame, team, agents) = match crew {
        None => (frame, team, None),
        Some(Ok(crew)) => {
            let agents = match workflow {
                "team_task" => crew.field("agent", Some("Nobody in particular")).optional(),
                _ => crew.field("agent", None),
            };
            (frame, team, Some(agents.holding(agent)))
        }
        // A text that is no team is looked for.
        Some(Err(error)) => {
            let frame = frame.failed(visit.failed(error)?.as_ref()).rename("teamId", "team");
            (frame, String::new(), None)
        }
    };
    let fields: Vec<_> = agents.iter().chain([&teams]).collect();
    let frame = frame.picking(visit, &fields).await?;
    Ok((frame, Some(teams), team, agents))
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
///
/// # Errors
/// Those of the route that lists agents which are not about what was typed.
pub async fn entered(visit: &Visit, workflow: &str) -> Result<Value> {
    let of = |name| visit.form.get(name).trim();
    let crew = match workflow {
        // Without a team there is no such path: the API says what is missing.
        "agent_wake" | "team_task" if !of("team").is_empty() => {
            Crew::of_team(&visit.api, of("team")).await
        }
        _ => Ok(Crew(Vec::new())),
    };
    let crew = match crew {
        Ok(crew) => crew,
        // For the API to refuse.
        Err(error) => visit.failed(error).map(|_| Crew(Vec::new()))?,
    };
    let agent = crew.meant(of("agent"));
    Ok(match workflow {
        "webhook" | "slack" => json!({"url": of("url")}),
        "email" => json!({"to": of("to").split_whitespace().collect::<Vec<_>>()}),
        "agent_wake" => json!({"teamId": of("team"), "agentId": agent}),
        "team_task" if agent.is_empty() => json!({"teamId": of("team")}),
        "team_task" => json!({"teamId": of("team"), "assigneeAgentId": agent}),
        _ => json!({}),
    })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.form.get(name).trim();
    let config = entered(visit, of("workflow")).await?;
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
