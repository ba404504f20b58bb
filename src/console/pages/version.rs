//! One version: its text, what it imports, its variables, and how it reads with values for them.

use std::collections::BTreeMap;

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use serde_json::json;

use super::confirm::Confirm;
use crate::api::Method;
use crate::base::{Error, Result};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{self, Artifact, GENERIC, People, Place, VersionRow};
use crate::console::problems::sentence;
use crate::console::reading::Reading;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}/versions/{version}")
        .get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/versions/{version}")
        .get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/prompts/{registry}/{name}/versions/{version}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/versions/{version}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

/// Models that are listed, of up to 500.
const MAX_MODELS: usize = 100;

#[derive(Template)]
#[template(path = "version.html")]
struct VersionPage {
    frame: Frame,
    place: Place,
    artifact: Artifact,
    content: Content,
    /// The version for the model that is shown.
    row: VersionRow,
    /// The models that it has texts for.
    models: Vec<String>,
    people: People,
    environment: Field,
    values: BTreeMap<String, String>,
    preview: Option<Preview>,
    metadata: String,
    /// How programs read it.
    reading: Reading,
    /// Where it is deployed, with this version filled in.
    deploy: String,
}

#[derive(Deserialize)]
struct Content {
    version: String,
    model: String,
    source: String,
    compiled: String,
}

/// A text with values for its variables, or why it cannot be shown.
enum Preview {
    Text { text: String, missing: Vec<String> },
    Failed(String),
}

#[derive(Deserialize)]
struct Rendered {
    text: String,
    missing: Vec<String>,
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let api = &visit.api;
    let artifact = place.get(api).await?;
    let mut query = vec![("version", visit.param(3))];
    query.extend(visit.query.some("model").map(|model| ("model", model)));
    let path = "/registries/artifact-versions/content";
    let content: Content = api.get(path, &place.query(&query)).await?;
    let rows = place.rows(api, &content.version).await?;
    let models: Vec<_> = rows.iter().take(MAX_MODELS).map(|row| row.model.clone()).collect();
    let row = rows.into_iter().find(|row| row.model == content.model);
    let row = row.ok_or_else(|| Error::no_such("version"))?;
    let title = format!("{} {}", place.name, content.version);
    let (preview, error) = preview(visit, &place, &content).await?;
    let environment = place::environment(visit, "Values from").await?;
    let environment = environment.preset(visit.query.get("environment"));
    let frame = place.crumbs(visit, visit.frame(&title)).failed(error.as_ref());
    let frame = frame.picking(visit, &[&environment]).await?;
    let page = VersionPage {
        // The version is there, whatever it is filled with.
        frame: Frame { status: StatusCode::OK, ..frame },
        preview,
        people: People::read(api).await?,
        environment,
        values: values(visit, &row.variables),
        metadata: if row.metadata.is_empty() {
            String::new()
        } else {
            serde_json::to_string_pretty(&row.metadata).unwrap_or_default()
        },
        reading: Reading::of(visit, &place, Some(&content.version), own_model(&content.model)),
        deploy: deploy_path(visit, &place, &content.version),
        artifact,
        content,
        row,
        models,
        place,
    };
    render(page.frame.status, &page)
}

/// The model that a text is for, unless that is every one.
fn own_model(model: &str) -> Option<&str> {
    Some(model).filter(|model| *model != GENERIC)
}

fn deploy_path(visit: &Visit, place: &Place, version: &str) -> String {
    let registry = format!("{}/{}", visit.param(0), place.registry);
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("registry", &registry).append_pair("prompt", &place.name);
    visit.in_org(&format!("/deployments/new?{}", query.append_pair("version", version).finish()))
}

/// The values that were entered for variables.
fn values(visit: &Visit, variables: &[String]) -> BTreeMap<String, String> {
    let entered = visit.query.variables();
    variables.iter().map(|name| (name.clone(), entered.get(name).to_string())).collect()
}

async fn preview(
    visit: &Visit,
    place: &Place,
    content: &Content,
) -> Result<(Option<Preview>, Option<Error>)> {
    if visit.query.sent("environment").is_none() {
        return Ok((None, None));
    }
    let mut body = json!({
        "registryRef": place.registry, "artifactType": place.kind, "version": content.version,
        "model": content.model, "variables": visit.query.filled_variables(),
    });
    if let Some(environment) = visit.query.some("environment") {
        body["environment"] = json!(environment);
    }
    let path = format!("/prompts/{}/render", segment(&place.name));
    match visit.api.post::<Rendered>(&path, body).await {
        Ok(Rendered { text, missing }) => Ok((Some(Preview::Text { text, missing }), None)),
        Err(error) => {
            let error = visit.failed(error)?;
            let failed = error.as_ref().map(|error| Preview::Failed(sentence(error.message())));
            Ok((failed, error))
        }
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, "/registries/artifact-versions")?;
    let place = Place::of(visit);
    place.get(&visit.api).await?;
    let version = visit.param(3).to_string();
    let title = format!("Delete {} {version}?", place.name);
    Confirm {
        frame: place.crumbs(visit, visit.frame(&title)),
        consequences: "The version goes with its texts for all models, and cannot be brought back. Programs \
                       that ask for it by its number get an error from then on. A version that a label \
                       points to, that something imports, or that is live, is not deleted."
            .into(),
        label: format!("Delete version {version}"),
        back: place.version(&version),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let query = place.query(&[("version", visit.param(3))]);
    match visit.api.delete("/registries/artifact-versions", &query).await {
        Ok(()) => {
            let is_left = place.find(&visit.api).await?.is_some();
            let registry = visit.in_org(&format!("/prompts/{}", segment(&place.registry)));
            let to = if is_left { &place.path } else { &registry };
            Ok(visit.done(to, Flash::VersionDeleted))
        }
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
