//! `/o/{org}/tools`: tools that agents may call; one tool with its versions; creating and changing
//! one.

use askama::Template;
use serde::Deserialize;
use serde_json::Value;

use crate::api::Method;
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::field::{self, Field};
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::place::People;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::tags::{self, TagFilter};
use crate::console::visit::Visit;

/// The route that deploys tools.
pub const DEPLOY: &str = "/agents/tool-deployments";

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/tools").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/tools/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/tools/{tool}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/tools/{tool}/edit").form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/tools/{tool}/delete").form(|visit| Box::pin(delete(visit))),
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
    tools: Listed<Tool>,
    tags: TagFilter,
}

#[derive(Template)]
#[template(path = "tool.html")]
struct ToolPage {
    frame: Frame,
    tool: Tool,
    versions: Vec<Version>,
    people: People,
    /// The path of the list of tools.
    list: String,
    may_deploy: bool,
}

/// A tool.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Tool {
    id: String,
    pub name: String,
    description: Nullable<String>,
    prompt: Nullable<String>,
    r#type: String,
    provider_config: Value,
    version: String,
    created_by: String,
    updated_by: Nullable<String>,
    updated_at: Time,
    tags: Vec<String>,
}

impl Tool {
    fn kind(&self) -> &str {
        &self.r#type
    }

    fn config(&self) -> String {
        field::text_of(&self.provider_config)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Version {
    version: String,
    provider_config: Value,
    description: Nullable<String>,
    prompt: Nullable<String>,
    created_by: String,
    created_at: Time,
    updated_by: Nullable<String>,
    updated_at: Nullable<Time>,
    message: Nullable<String>,
}

impl Version {
    /// Who changed it after it was set, if anybody did.
    fn changed_by(&self) -> Option<&str> {
        let is_changed = self.updated_at.0.is_some_and(|at| at != self.created_at);
        self.updated_by.as_deref().filter(|_| is_changed)
    }

    fn config(&self) -> String {
        field::text_of(&self.provider_config)
    }
}

#[derive(Deserialize)]
struct Kind {
    r#type: String,
    description: String,
}

fn api_path(visit: &Visit) -> String {
    format!("/tools/{}", segment(visit.param(1)))
}

fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Tools", visit.in_org("/tools"))
}

async fn list(visit: &Visit) -> Result<Reply> {
    let tags = TagFilter::of(visit);
    let page = Tools {
        frame: visit.frame("Tools").live(),
        base: visit.in_org("/tools"),
        tools: tags.listed(visit, &[("kind", "tool")], "/tools", &[]).await?,
        tags,
    };
    render(page.frame.status, &page)
}

async fn show(visit: &Visit) -> Result<Reply> {
    let tool: Tool = visit.api.get(&api_path(visit), &[]).await?;
    let page = ToolPage {
        frame: crumbs(visit, visit.frame(&tool.name)).live(),
        versions: visit.api.items(&format!("{}/versions", api_path(visit)), &[]).await?,
        people: People::read(&visit.api).await?,
        list: visit.in_org("/tools"),
        may_deploy: visit.may(Method::Post, DEPLOY),
        tool,
    };
    render(page.frame.status, &page)
}

async fn types(visit: &Visit) -> Result<Vec<(String, String)>> {
    let kinds: Vec<Kind> = visit.api.items("/tools/types", &[]).await?;
    Ok(kinds.into_iter().map(|Kind { r#type, description }| (r#type, description)).collect())
}

async fn fields(visit: &Visit) -> Result<Vec<Field>> {
    Ok(vec![
        Field::text("name", "Name"),
        Field::suggest("type", "Type", types(visit).await?),
        Field::text("description", "Description").optional(),
        tags::field(),
        Field::area("prompt", "Prompt", 3).optional(),
        Field::area("providerConfig", "Configuration by provider", 8)
            .object()
            .optional()
            .hint("A JSON object. ${NAME} stands for a variable or secret of the environment."),
    ])
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields(visit).await?;
    fields.push(Field::text("version", "Version").preset("1.0.0"));
    Ok(Form::create("/tools", fields, "Create tool")
        .done(visit.in_org("/tools/{id}"), Flash::ToolCreated)
        .page(crumbs(visit, visit.frame("New tool"))))
}

async fn edit(visit: &Visit) -> Result<FormPage> {
    let mut fields = fields(visit).await?;
    fields.push(Field::select("bumpVersion", "Version", BUMPS).unstored());
    let message = Field::text("message", "What changes in a new version, and why");
    fields.push(message.optional().unstored());
    let form = Form::change(visit, &api_path(visit), fields).await?;
    let name = form.known("name");
    let frame = crumbs(visit, visit.frame(&format!("Change {name}"))).crumb(name, visit.above());
    Ok(form.done(visit.above(), Flash::ToolSaved).page(frame))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(visit.in_org("/tools"), Flash::ToolDeleted);
    let lead = "Its versions go with it, and environments do not refer to it any more.";
    Ok(form.page(crumbs(visit, frame)).lead(lead))
}
