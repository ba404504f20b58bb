//! Publishes a version once more: under another name, as another version or in another registry.

use serde::Deserialize;
use serde_json::{Value, json};

use crate::base::{Error, Result};
use crate::console::choice::{Chooser, Kind};
use crate::console::chooser::pick;
use crate::console::field::Field;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::page::Page;
use crate::console::place::Place;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/versions/{version}/clone")
        .form(|visit| Box::pin(clone(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/versions/{version}/clone")
        .form(|visit| Box::pin(clone(visit))),
];

/// The field for where it goes.
const REGISTRY: Chooser = Chooser::one("registry", Kind::Registry);

/// What was published.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Published {
    registry_ref: String,
    name: String,
    version: String,
}

async fn clone(visit: &Visit) -> Result<FormPage> {
    let place = Place::of(visit);
    place.get(&visit.api).await?;
    let version = visit.param(3).to_string();
    let own = format!("{}/{}", visit.param(0), place.registry);
    let fields = vec![
        pick(visit, "Registry", REGISTRY, None).await?.at("to.registryRef").preset(own),
        Field::text("name", "Name").at("to.promptName").also("to").preset(place.name.as_str()),
        Field::text("version", "Version")
            .at("to.version")
            .preset(version.as_str())
            .hint("1.0.0 and the like; of the same name there must be no such version yet."),
        Field::text("message", "What changed, and why").optional(),
    ];
    let form = Form::create("/registries/artifact-versions/clone", fields, "Clone")
        .refined(|visit, _, body| {
            let place = Place::of(visit);
            body["registryRef"] = json!(place.registry);
            body["promptName"] = json!(place.name);
            body["artifactType"] = json!(place.kind);
            body["version"] = json!(visit.param(3));
        })
        .back(place.version(&version))
        .answered(published);
    let frame = visit.frame(&format!("Clone {} {version}", place.name));
    let frame = place.crumbs(visit, frame).crumb(version.clone(), place.version(&version));
    let page = form.page(frame);
    Ok(page
        .lead("Its texts for all models are published once more, checked by the policies there."))
}

fn published(visit: &Visit, answer: &Value) -> Result<Reply> {
    let Published { registry_ref, name, version } =
        Published::deserialize(answer).map_err(|error| Error::internal(error.to_string()))?;
    let registry = registry_ref.rsplit('/').next().unwrap_or_default();
    let place = Place::new(visit, registry, Place::of(visit).kind, &name);
    Ok(visit.done(&place.version(&version), Flash::Published))
}
