//! `/o/{org}/tools`: tools that agents may call; one tool with its versions; creating and changing
//! one.

use askama::Template;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::confirm::Confirm;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/tools").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/tools/new")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/tools/{tool}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/tools/{tool}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/tools/{tool}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

/// How the version of a changed tool is raised.
const BUMPS: [(&str, &str); 4] = [
    ("patch", "Raise the last number"),
    ("minor", "Raise the second number"),
    ("major", "Raise the first number"),
    ("", "Keep it"),
];

#[derive(Template)]
#[template(path = "tools.html")]
struct Tools {
    frame: Frame,
    base: String,
    tools: List<Tool>,
    next: String,
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolPage {
    frame: Frame,
    tool: Tool,
    versions: Vec<Version>,
    people: People,
}

#[derive(Template)]
#[template(path = "edit_tool.html")]
struct EditTool {
    frame: Frame,
    /// The tool; none for a new one.
    tool: Option<Tool>,
    config: String,
    types: Vec<(String, String)>,
    bumps: &'static [(&'static str, &'static str)],
    back: String,
}

impl EditTool {
    fn name(&self) -> &str {
        self.tool.as_ref().map_or("", |tool| &tool.name)
    }

    fn kind(&self) -> &str {
        self.tool.as_ref().map_or("", |tool| &tool.r#type)
    }

    fn description(&self) -> &str {
        self.tool.as_ref().and_then(|tool| tool.description.as_deref()).unwrap_or_default()
    }

    fn prompt(&self) -> &str {
        self.tool.as_ref().and_then(|tool| tool.prompt.as_deref()).unwrap_or_default()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Tool {
    id: String,
    name: String,
    description: Nullable<String>,
    prompt: Nullable<String>,
    r#type: String,
    provider_config: Map<String, Value>,
    version: String,
    created_by: String,
    updated_by: Nullable<String>,
    updated_at: Time,
}

impl Tool {
    fn kind(&self) -> &str {
        &self.r#type
    }

    fn config(&self) -> String {
        config(&self.provider_config)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: String,
    provider_config: Map<String, Value>,
    description: Nullable<String>,
    prompt: Nullable<String>,
    created_by: String,
    created_at: Time,
    updated_by: Nullable<String>,
    updated_at: Nullable<Time>,
}

impl Version {
    /// Who changed it after it was set, if anybody did.
    fn changed_by(&self) -> Option<&str> {
        let is_changed = self.updated_at.0.is_some_and(|at| at != self.created_at);
        self.updated_by.as_deref().filter(|_| is_changed)
    }

    fn config(&self) -> String {
        config(&self.provider_config)
    }
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
    description: String,
}

/// A configuration, for people; empty if there is none.
fn config(config: &Map<String, Value>) -> String {
    if config.is_empty() {
        return String::new();
    }
    serde_json::to_string_pretty(config).unwrap_or_default()
}

fn api_path(visit: &Visit) -> String {
    format!("/tools/{}", segment(visit.param(1)))
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Tools", visit.in_org("/tools"))
}

async fn list(visit: &Visit) -> Result<Reply> {
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Tools {
        frame: visit.frame("Tools").live(),
        base: visit.in_org("/tools"),
        tools: visit.api.get("/tools", &query).await?,
        next: format!("{}?", visit.path),
    };
    render(page.frame.status, &page)
}

async fn show(visit: &Visit) -> Result<Reply> {
    let tool: Tool = visit.api.get(&api_path(visit), &[]).await?;
    let page = ToolPage {
        frame: crumbs(visit, visit.frame(&tool.name)).live(),
        versions: visit.api.items(&format!("{}/versions", api_path(visit)), &[]).await?,
        people: People::read(&visit.api).await?,
        tool,
    };
    render(page.frame.status, &page)
}

async fn types(visit: &Visit) -> Result<Vec<(String, String)>> {
    let kinds: Vec<Kind> = visit.api.items("/tools/types", &[]).await?;
    Ok(kinds.into_iter().map(|Kind { r#type, description }| (r#type, description)).collect())
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let page = EditTool {
        frame: crumbs(visit, visit.frame("New tool")).failed(error.as_ref()),
        tool: None,
        config: String::new(),
        types: types(visit).await?,
        bumps: &BUMPS,
        back: visit.in_org("/tools"),
    };
    render(page.frame.status, &page)
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let tool: Tool = visit.api.get(&api_path(visit), &[]).await?;
    let back = visit.path.trim_end_matches("/edit").to_string();
    let frame = crumbs(visit, visit.frame(&format!("Change {}", tool.name)));
    let page = EditTool {
        frame: frame.crumb(tool.name.clone(), back.clone()).failed(error.as_ref()).edits(
            visit,
            error.as_ref(),
            &edited(visit, &tool),
        ),
        config: tool.config(),
        tool: Some(tool),
        types: types(visit).await?,
        bumps: &BUMPS,
        back,
    };
    render(page.frame.status, &page)
}

/// What the form edits.
fn edited(visit: &Visit, tool: &Tool) -> Vec<Edited> {
    let text = |name, label, theirs: &str| Edited::text(visit, name, label, theirs);
    vec![
        text("name", "Name", &tool.name),
        text("type", "Type", &tool.r#type),
        text("description", "Description", tool.description.as_deref().unwrap_or_default()),
        text("prompt", "Prompt", tool.prompt.as_deref().unwrap_or_default()),
        text("providerConfig", "Configuration by provider", &tool.config()),
    ]
}

/// The fields that new and changed tools have.
fn body(visit: &Visit) -> Value {
    let of = |name| visit.form.get(name);
    let mut body = json!({"name": of("name"), "type": of("type").trim()});
    // What is no JSON is for the API to refuse.
    let config = visit.form.some("providerConfig").unwrap_or("{}");
    body["providerConfig"] = serde_json::from_str(config).unwrap_or_else(|_| json!(config));
    body
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body = body(visit);
    for name in ["description", "prompt", "version"] {
        if let Some(text) = visit.form.some(name) {
            body[name] = json!(text);
        }
    }
    match visit.api.post::<Tool>("/tools", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/tools/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::ToolCreated))
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

async fn save(visit: &Visit) -> Result<Reply> {
    let mut body = body(visit);
    for name in ["description", "prompt"] {
        body[name] = json!(visit.form.some(name));
    }
    if let Some(bump) = visit.form.some("bumpVersion") {
        body["bumpVersion"] = json!(bump);
    }
    match visit.save(&api_path(visit), body, |tool| edited(visit, tool)).await {
        Ok(_) => Ok(visit.done(visit.path.trim_end_matches("/edit"), Flash::ToolSaved)),
        Err(error) => edit(visit, visit.failed(error)?).await,
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let tool: Tool = visit.api.get(&api_path(visit), &[]).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Delete {}?", tool.name))),
        consequences: "Its versions go with it, and environments do not refer to it any more."
            .into(),
        label: format!("Delete {}", tool.name),
        back: visit.path.trim_end_matches("/delete").into(),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&api_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/tools"), Flash::ToolDeleted)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
