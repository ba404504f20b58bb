//! `/o/{org}/settings/providers`: connections to language models, and the systems from which prompts
//! are imported.

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::Result;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::roster::tabs;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] =
    &[Page::of_org("/o/{org}/settings/providers").get(|visit| Box::pin(show(visit)))];

#[derive(Template)]
#[template(path = "providers.html")]
struct Providers {
    frame: Frame,
    base: String,
    models: Vec<LlmProvider>,
    prompts: Vec<PromptProvider>,
    may_write: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LlmProvider {
    id: String,
    name: String,
    provider: String,
    base_url: Nullable<String>,
    is_default: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptProvider {
    id: String,
    name: String,
    kind: String,
    base_url: String,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let page = Providers {
        frame: visit.frame("Providers").tabs(&tabs(visit)),
        base: visit.in_org("/settings"),
        models: visit.api.items("/llm-providers", &[]).await?,
        prompts: visit.api.items("/prompt-providers", &[]).await?,
        may_write: visit.may(Method::Post, "/llm-providers"),
    };
    render(page.frame.status, &page)
}
