//! `/o/{org}/prompts`: the registries.

use askama::Template;

use crate::api::Method;
use crate::base::Result;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::place::Registry;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/prompts").get(|visit| Box::pin(show(visit)))];

#[derive(Template)]
#[template(path = "registries.html")]
struct Registries {
    frame: Frame,
    base: String,
    registries: Listed<Registry>,
    may_create: bool,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let page = Registries {
        frame: visit.frame("Prompts"),
        base: visit.in_org(""),
        registries: Listed::read(visit, &[("kind", "registry")], "/registries", &[]).await?,
        may_create: visit.may(Method::Post, "/registries"),
    };
    render(page.frame.status, &page)
}
