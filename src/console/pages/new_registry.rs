//! `/o/{org}/registries/new`: creates a registry.

use askama::Template;
use serde_json::json;

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::Registry;
use crate::console::reply::Reply;
use crate::console::texts::ACCESSES;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/registries/new")
    .get(|visit| Box::pin(async { form(visit, None) }))
    .post(|visit| Box::pin(create(visit)))];

const VISIBILITIES: [(&str, &str); 2] =
    [("private", "Private: members read it"), ("public", "Public: anyone reads it")];
#[derive(Template)]
#[template(path = "new_registry.html")]
struct NewRegistry {
    frame: Frame,
    here: String,
    visibilities: [(&'static str, &'static str); 2],
    accesses: [(&'static str, &'static str); 2],
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/registries")?;
    let frame = visit.frame("New registry").crumb("Prompts", visit.in_org("/prompts"));
    let page = NewRegistry {
        here: visit.in_org("/registries/new"),
        frame: frame.failed(error),
        visibilities: VISIBILITIES,
        accesses: ACCESSES,
    };
    render(page.frame.status, &page)
}

async fn create(visit: &Visit) -> Result<Reply> {
    let of = |name| visit.form.get(name);
    let mut body = json!({
        "slug": of("slug"), "name": of("name"), "visibility": of("visibility"),
        "access": of("access"),
    });
    if let Some(description) = visit.form.some("description") {
        body["description"] = json!(description);
    }
    match visit.api.post::<Registry>("/registries", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/prompts/{}", made.slug));
            Ok(visit.done(&path, Flash::RegistryCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}
