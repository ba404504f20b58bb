//! Moving a label to a version: promoting and rolling back. The form says from where the label is
//! moved, so that two people do not undo each other's work unseen.

use askama::Template;
use serde_json::{Value, json};

use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{Artifact, Place};
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/labels")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(act(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/labels")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(act(visit))),
];

/// The label that is suggested for a first one.
const USUAL: &str = "production";

#[derive(Template)]
#[template(path = "labels.html")]
struct Labels {
    frame: Frame,
    place: Place,
    artifact: Artifact,
    label: String,
    version: String,
    /// Where the label is now; empty if it does not exist.
    from: String,
}

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Patch, "/registries/artifacts/labels")?;
    let place = Place::of(visit);
    let artifact = place.get(&visit.api).await?;
    let sent = |name: &str| visit.form.some(name).or(visit.query.some(name)).map(String::from);
    let label = sent("label").unwrap_or_else(|| USUAL.into());
    let version = sent("version").unwrap_or_else(|| artifact.latest_version.clone());
    let from = artifact.labels.get(&label).cloned().unwrap_or_default();
    let title = format!("Promote {} {version}", place.name);
    let frame = place.crumbs(visit, visit.frame(&title)).failed(error.as_ref());
    let page = Labels { frame, place, artifact, label, version, from };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    if visit.form.get("action") == "remove" {
        let query = place.query(&[("label", visit.form.get("label"))]);
        return match visit.api.delete("/registries/artifacts/labels", &query).await {
            Ok(()) => Ok(visit.done(&place.path, Flash::LabelRemoved)),
            Err(error) => form(visit, visit.failed(error)?).await,
        };
    }
    let mut body = json!({
        "registryRef": place.registry, "promptName": place.name, "artifactType": place.kind,
        "label": visit.form.get("label").trim(), "version": visit.form.get("version").trim(),
    });
    // Where the label was when the form was shown; of another label than was shown, nothing is known.
    if visit.form.get("label").trim() == visit.form.get("shown") {
        body["from"] = json!(visit.form.some("from"));
    }
    match visit.api.patch::<Value>("/registries/artifacts/labels", body).await {
        Ok(_) => Ok(visit.done(&place.path, Flash::LabelMoved)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}
