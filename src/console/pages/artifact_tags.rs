//! The tags of a prompt or promptlet. The form says which there were when it was shown, so that two
//! people do not undo each other's work unseen.

use askama::Template;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::field::words;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::Place;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/tags")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/tags")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(save(visit))),
];

#[derive(Template)]
#[template(path = "artifact_tags.html")]
struct Tags {
    frame: Frame,
    place: Place,
    /// The tags, as they are now.
    tags: String,
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/registries/artifacts")?;
    let place = Place::of(visit);
    let tags = place.get(&visit.api).await?.tags.join(", ");
    let frame = visit.frame(&format!("Tags of {}", place.name));
    let frame = place.crumbs(visit, frame).failed(error.as_ref());
    let page = Tags { frame, place, tags };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let body = json!({
        "registryRef": place.registry, "promptName": place.name, "artifactType": place.kind,
        "tags": words(visit.form.get("tags")), "from": words(visit.form.get("from")),
    });
    match visit.api.patch::<Value>("/registries/artifacts", body).await {
        Ok(_) => Ok(visit.done(&place.path, Flash::TagsSaved)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}
