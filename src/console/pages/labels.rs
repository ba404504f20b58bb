//! Moving a label to a version: promoting and rolling back. The form says from where the label is
//! moved, so that two people do not undo each other's work unseen.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::label_change::{self, LabelChange};
use super::protected_label::{self, ProtectedLabel};
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::choice::{Chooser, Kind};
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{Artifact, Place};
use crate::console::reply::Reply;
use crate::console::roster::{self, Member};
use crate::console::strict::Nullable;
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

/// A label points to a version, and neither to a range nor to another label.
const VERSION: Chooser = Chooser::one("version", Kind::ExactVersion);

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
    /// The field for it.
    chosen: Field,
    /// Where the label is now; empty if it does not exist.
    from: String,
    protection: Option<ProtectedLabel>,
    members: Vec<Member>,
}

impl Labels {
    /// Whether the visitor may move the label, or ask for that.
    fn may_move(&self) -> bool {
        self.protection.as_ref().is_none_or(|protection| protection.may_move)
    }
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
    let chosen = Field::choose("Version", VERSION).preset(version.as_str());
    let frame = place.crumbs(visit, visit.frame(&title)).failed(error.as_ref());
    let frame = frame.picking(visit, &[&chosen]).await?;
    let protected = protected_label::of_registry(&visit.api, &place.registry).await?;
    let protection = protected.into_iter().find(|one| one.label == label);
    let members = roster::members(&visit.api).await?;
    let page = Labels { frame, place, artifact, label, version, chosen, from, protection, members };
    render(page.frame.status, &page)
}

async fn act(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let is_removal = visit.form.get("action") == "remove";
    let version = (!is_removal).then(|| visit.form.get("version").trim());
    let mut body = json!({
        "registryRef": place.registry, "promptName": place.name, "artifactType": place.kind,
        "label": visit.form.get("label").trim(), "version": version,
    });
    // Where the label was when the form was shown; of another label than was shown, nothing is known.
    if visit.form.get("label").trim() == visit.form.get("shown") {
        body["from"] = json!(visit.form.some("from"));
    }
    let moved: Result<Moved> = visit.api.patch("/registries/artifacts/labels", body).await;
    match moved.map(|moved| moved.pending_change.0) {
        Ok(Some(change)) => {
            Ok(visit.done(&label_change::path(visit, &change.id), Flash::LabelWaits))
        }
        Ok(None) if is_removal => Ok(visit.done(&place.path, Flash::LabelRemoved)),
        Ok(None) => Ok(visit.done(&place.path, Flash::LabelMoved)),
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

/// What came of a move.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Moved {
    pending_change: Nullable<LabelChange>,
}
