//! `/o/{org}/variables/{name}`: the prompts and tools that use a variable or secret of environments.

use askama::Template;
use serde::Deserialize;

use crate::base::Result;
use crate::console::api::segment;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::Place;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/variables/{name}").get(|visit| Box::pin(show(visit)))];

/// So many of each are listed.
const ROWS: usize = 200;

#[derive(Template)]
#[template(path = "variable.html")]
struct Variable {
    frame: Frame,
    /// Name, version, path, and what is said of it.
    prompts: Vec<Row>,
    tools: Vec<Row>,
    /// Those that are left out.
    rest: usize,
    /// Whether only what the visitor may not see uses it.
    is_hidden: bool,
}

struct Row {
    name: String,
    version: String,
    path: String,
    detail: String,
}

#[derive(Deserialize)]
struct Usage {
    used: bool,
    prompts: Vec<Prompt>,
    tools: Vec<Tool>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Prompt {
    registry_ref: String,
    name: String,
    artifact_type: String,
    version: String,
    latest: bool,
}

#[derive(Deserialize)]
struct Tool {
    id: String,
    name: String,
    version: String,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let name = visit.param(1);
    let path = format!("/environments/variables/{}/usage", segment(name));
    let usage: Usage = visit.api.get(&path, &[]).await?;
    let prompt = |one: Prompt| {
        let kind = if one.artifact_type == "promptlet" { "promptlet" } else { "prompt" };
        let registry = one.registry_ref.rsplit('/').next().unwrap_or_default();
        Row {
            path: Place::new(visit, registry, kind, &one.name).version(&one.version),
            detail: if one.latest { "the latest version".into() } else { String::new() },
            name: one.name,
            version: one.version,
        }
    };
    let tool = |one: Tool| Row {
        path: visit.in_org(&format!("/tools/{}", segment(&one.id))),
        name: one.name,
        version: one.version,
        detail: String::new(),
    };
    let left_out = |count: usize| count.saturating_sub(ROWS);
    let frame = visit.frame(&format!("Where {name} is used"));
    let page = Variable {
        frame: frame.crumb("Environments", visit.in_org("/environments")),
        rest: left_out(usage.prompts.len()) + left_out(usage.tools.len()),
        is_hidden: usage.used && usage.prompts.is_empty() && usage.tools.is_empty(),
        prompts: usage.prompts.into_iter().take(ROWS).map(prompt).collect(),
        tools: usage.tools.into_iter().take(ROWS).map(tool).collect(),
    };
    // It says any name that it was asked for.
    Ok(render(page.frame.status, &page)?.showing_input())
}
