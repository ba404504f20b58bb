//! `/o/{org}/prompts/{registry}/{name}`, and the same of promptlets: its text, labels, versions, drafts,
//! what imports it, where it is deployed, and who moved which label when.

use askama::Template;
use serde::Deserialize;

use super::deployments::Environments;
use super::label_change::{self, LabelChange};
use super::protected_label::{self, ProtectedLabel};
use crate::api::Method;
use crate::base::{Kind, Result, Time};
use crate::console::api::segment;
use crate::console::current::Current;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::place::{Artifact, People, Place, VersionRow};
use crate::console::reading::Reading;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/prompts/{registry}/{name}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/prompts/{registry}/{name}/drafts/delete")
        .post(|visit| Box::pin(delete_draft(visit))),
    Page::of_org("/o/{org}/promptlets/{registry}/{name}/drafts/delete")
        .post(|visit| Box::pin(delete_draft(visit))),
];

/// So many moves of labels and dependents are shown.
const SHOWN: &str = "10";

#[derive(Template)]
#[template(path = "artifact.html")]
struct ArtifactPage {
    frame: Frame,
    place: Place,
    /// None before the first version is published.
    artifact: Option<Artifact>,
    /// The text that programs read.
    current: Option<Current>,
    /// How programs read that.
    reading: Option<Reading>,
    versions: List<VersionRow>,
    drafts: Vec<Draft>,
    moves: Vec<LabelMove>,
    dependents: Vec<Dependent>,
    live: List<Live>,
    environments: Environments,
    people: People,
    base: String,
    /// The path of its registry's page.
    registry: String,
    may_tag: bool,
    protected: Vec<ProtectedLabel>,
    /// Changes of labels that wait for approvals.
    waiting: Vec<LabelChange>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Draft {
    id: String,
    draft_version: String,
    created_by: String,
    updated_by: Nullable<String>,
    updated_at: Time,
}

impl Draft {
    /// Whose text it is.
    fn author(&self) -> &str {
        self.updated_by.as_deref().unwrap_or(&self.created_by)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LabelMove {
    label: String,
    from: Nullable<String>,
    to: Nullable<String>,
    moved_by: String,
    via: Nullable<String>,
    moved_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Dependent {
    artifact_type: String,
    name: String,
    version: String,
    range: String,
    resolved: String,
}

/// Where a version is live.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Live {
    stable_key: String,
    environment_id: String,
    version: String,
}

impl ArtifactPage {
    /// The protection of a label, if it has one.
    fn protection(&self, label: &str) -> Option<&ProtectedLabel> {
        self.protected.iter().find(|one| one.label == label)
    }

    /// Whether the visitor may move a label, or ask for that.
    fn may_move(&self, label: &str) -> bool {
        self.protection(label).is_none_or(|protection| protection.may_move)
    }

    /// Where a move of a label came from, if that is where it can go back to.
    fn can_roll_back<'a>(&self, step: &'a LabelMove) -> Option<&'a str> {
        let current = self.artifact.as_ref()?.labels.get(&step.label)?;
        let is_current = step.to.as_ref() == Some(current);
        step.from.as_deref().filter(|_| is_current && self.may_move(&step.label))
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let api = &visit.api;
    let artifact = place.find(api).await?;
    let drafts_path = format!("/prompts/{}/drafts", segment(&place.name));
    let of = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
    let drafts: List<Draft> = api.get(&drafts_path, &of).await?;
    if artifact.is_none() && drafts.items.is_empty() {
        return Err(crate::base::Error::no_such("artifact"));
    }
    let mut versions = List::none();
    let mut moves = Vec::new();
    let mut dependents = Vec::new();
    let mut live = List::none();
    let mut current = None;
    if let Some(artifact) = &artifact {
        current = Current::read(visit, &place, artifact).await?;
        versions = api.get("/registries/artifact-versions", &place.query(&visit.walk())).await?;
        let few = place.query(&[("limit", SHOWN)]);
        moves = api.get::<List<_>>("/registries/artifacts/labels/history", &few).await?.items;
        if place.kind == "promptlet" {
            let path = "/registries/artifact-versions/dependents";
            dependents = api.get::<List<_>>(path, &few).await?.items;
        } else {
            let of = [("registryRef", place.registry.as_str()), ("promptName", &place.name)];
            live = api.get("/deployments/live", &[&of[..], &[("limit", SHOWN)]].concat()).await?;
        }
    }
    let page = ArtifactPage {
        frame: place.above(visit, visit.frame(&place.name)).live(),
        reading: current
            .as_ref()
            .map(|current| Reading::of(visit, &place, current.selector(), None)),
        current,
        artifact,
        versions,
        drafts: drafts.items,
        moves,
        dependents,
        live,
        environments: Environments::read(api).await?,
        people: People::read(api).await?,
        base: visit.in_org(""),
        registry: visit.in_org(&format!("/prompts/{}", segment(&place.registry))),
        may_tag: visit.may(Method::Patch, "/registries/artifacts"),
        protected: protected_label::of_registry(api, &place.registry).await?,
        waiting: label_change::waiting(api, &place).await?,
        place,
    };
    render(page.frame.status, &page)
}

async fn delete_draft(visit: &Visit) -> Result<Reply> {
    let place = Place::of(visit);
    let draft = visit.form.get("draft");
    let path = format!("/prompts/{}/drafts/{}", segment(&place.name), segment(draft));
    let of = [("registryRef", place.registry.as_str()), ("artifactType", place.kind)];
    visit.api.delete(&path, &of).await?;
    let is_left = match place.find(&visit.api).await {
        Ok(found) => found.is_some(),
        Err(error) if error.kind() == Kind::NotFound => false,
        Err(error) => return Err(error),
    };
    let registry = visit.in_org(&format!("/prompts/{}", segment(&place.registry)));
    let to = if is_left { &place.path } else { &registry };
    Ok(visit.done(to, Flash::DraftDeleted))
}
