//! `/o/{org}/operations/channels/{channel}/edit`: the name of a channel, and its configuration by its
//! workflow.

use askama::Template;
use serde_json::{Map, Value, json};

use super::channel::{api_path, crumbs};
use super::channels::{Channel, at_fields, entered, receivers, signing_secret};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::conflict::Edited;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/operations/channels/{channel}/edit")
    .get(|visit| Box::pin(form(visit, None)))
    .post(|visit| Box::pin(save(visit)))];

#[derive(Template)]
#[template(path = "edit_channel.html")]
struct EditChannel {
    frame: Frame,
    back: String,
    name: String,
    workflow: String,
    teams: Option<Field>,
    team: String,
    agents: Option<Field>,
    url: String,
    to: String,
}

/// A text of a configuration; of several, one a line.
fn text(config: &Map<String, Value>, name: &str) -> String {
    match config.get(name) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(all)) => {
            all.iter().filter_map(Value::as_str).collect::<Vec<_>>().join("\n")
        }
        _ => String::new(),
    }
}

/// The agent of a configuration.
fn agent(config: &Map<String, Value>) -> String {
    let assignee = text(config, "assigneeAgentId");
    if assignee.is_empty() { text(config, "agentId") } else { assignee }
}

/// What the form edits.
fn edited(visit: &Visit, channel: &Channel) -> Vec<Edited> {
    let stored = |name: &str| text(&channel.config, name);
    let field = |name, label, theirs: String| Edited::text(visit, name, label, &theirs);
    let mut all = vec![field("name", "Name", channel.name.clone())];
    match channel.workflow.as_str() {
        "webhook" => all.push(field("url", "Address", stored("url"))),
        "email" => {
            let sent: Vec<_> = visit.form.get("to").split_whitespace().collect();
            all.push(Edited::new("Addresses", stored("to"), sent.join("\n")));
        }
        "team_task" | "agent_wake" => {
            all.push(field("team", "Team", stored("teamId")));
            all.push(field("agent", "Agent", agent(&channel.config)));
        }
        // Of what is secret there is nothing to compare.
        _ => {}
    }
    all
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/notifications/channels/id")?;
    let channel: Channel = visit.api.get(&api_path(visit), &[]).await?;
    let config = &channel.config;
    let needs_team = matches!(channel.workflow.as_str(), "team_task" | "agent_wake");
    let chosen = visit.form.some("team").or(visit.query.some("team"));
    let team = chosen.map_or_else(|| text(config, "teamId"), String::from);
    let back = visit.path.trim_end_matches("/edit").to_string();
    let frame = crumbs(visit, visit.frame(&format!("Change {}", channel.name)));
    let frame = frame.crumb(channel.name.clone(), back.clone()).failed(error.as_ref());
    let frame = at_fields(frame.edits(visit, error.as_ref(), &edited(visit, &channel)));
    let agent = agent(config);
    let (frame, teams, team, agents) = match needs_team {
        true => receivers(visit, frame, &channel.workflow, team, &agent).await?,
        false => (frame, None, team, None),
    };
    let page = EditChannel {
        frame,
        back,
        teams,
        agents,
        team,
        url: text(config, "url"),
        to: text(config, "to"),
        name: channel.name,
        workflow: channel.workflow,
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let channel: Channel = visit.api.get(&api_path(visit), &[]).await?;
    let mut body = json!({"name": visit.form.get("name")});
    let keeps = channel.workflow == "slack" && visit.form.some("url").is_none();
    if !keeps {
        body["config"] = entered(visit, &channel.workflow).await?;
    }
    match visit.save(&api_path(visit), body, |channel| edited(visit, channel)).await {
        Ok(saved) => {
            let path = visit.path.trim_end_matches("/edit");
            // A webhook at another host has another secret.
            match (saved["secret"].as_str(), saved["name"].as_str()) {
                (Some(secret), Some(name)) => {
                    signing_secret(visit, name, secret.into(), path.into())
                }
                _ => Ok(visit.done(path, Flash::ChannelSaved)),
            }
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}
