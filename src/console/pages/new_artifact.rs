//! `/o/{org}/registries/{registry}/new`: the kind and the name of a new artifact, before its editor.

use askama::Template;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{Place, Registry};
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its path, and what answers it.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/registries/{registry}/new")
    .get(|visit| Box::pin(name(visit, None)))
    .post(|visit| Box::pin(begin(visit)))];

#[derive(Template)]
#[template(path = "new_artifact.html")]
struct NewArtifact {
    frame: Frame,
    here: String,
    kinds: [(&'static str, &'static str); 2],
}

async fn name(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/registries/artifacts")?;
    let registry = format!("/registries/{}", segment(visit.param(1)));
    let registry: Registry = visit.api.get(&registry, &[]).await?;
    let path = visit.in_org(&format!("/prompts/{}", segment(&registry.slug)));
    let frame = visit.frame("New prompt").crumb("Prompts", visit.in_org("/prompts"));
    let page = NewArtifact {
        frame: frame.crumb(registry.slug, path).failed(error),
        here: visit.path.clone(),
        kinds: [
            ("prompt", "Prompt: what a model is given"),
            ("promptlet", "Promptlet: a piece that prompts import"),
        ],
    };
    render(page.frame.status, &page)
}

/// Leads to the editor of an artifact that does not exist yet; nothing is kept before it is saved.
async fn begin(visit: &Visit) -> Result<Reply> {
    let kind = if visit.form.get("kind") == "promptlet" { "promptlet" } else { "prompt" };
    let name_of = visit.form.get("name").trim();
    // The API's own rule for names: compiling nothing in this name.
    let path = format!("/prompts/{}/compile", segment(name_of));
    let body = json!({"registryRef": visit.param(1), "artifactType": kind, "source": ""});
    let is_named = !name_of.is_empty();
    let tried =
        if is_named { visit.api.post::<Value>(&path, body).await.map(drop) } else { Ok(()) };
    match tried {
        Ok(()) if is_named => {
            let place = Place::new(visit, visit.param(1), kind, name_of);
            Ok(Reply::see_other(format!("{}/edit", place.path)))
        }
        Ok(()) => name(visit, Some(&Error::invalid_at("name", "must not be empty"))).await,
        Err(error) => {
            let error = visit.failed(error)?;
            let message = error.as_ref().map(|error| match error.issues() {
                // It is about the name, whatever that is called in the API.
                [issue] => issue.message.clone(),
                _ => error.message().to_string(),
            });
            let about = Error::invalid_at("name", message.unwrap_or_default());
            name(visit, Some(&about)).await
        }
    }
}
