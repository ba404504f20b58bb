//! What is known of an artifact as a whole: its newest version and its labels.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ArtifactId, ArtifactType, require_readable, versions};
use crate::api::{Input, Output, Req, Resource, Route, Scope, op};
use crate::auth::{MEMBER_OR_PUBLIC, Restricted};
use crate::base::{ArtifactName, Id, Label, Result, Time, Version};
use crate::resources::registries::{self, Registry};
use crate::store::{
    AnyIndex, AnyReference, Index, Key, Order, Page, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Artifact>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

/// An artifact that has a version.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Artifact {
    /// What it is.
    pub id: ArtifactId,
    /// Its highest version.
    pub latest_version: Version,
    /// Its labels, each with the version that it stands on.
    pub labels: BTreeMap<Label, Version>,
    /// New at each change, so that lists have what changed last first.
    pub changed: Id<Change>,
    /// When it was last changed.
    pub updated_at: Time,
}

/// That an artifact was changed.
pub enum Change {}

static BY_CHANGE: Index<Artifact, (Id<Registry>, Id<Change>)> =
    Index::many("artifacts.by_change", |artifact| Some((artifact.id.registry, artifact.changed)));

static BY_TYPE: Index<Artifact, (Id<Registry>, ArtifactType, Id<Change>)> =
    Index::many("artifacts.by_type", |artifact| {
        Some((artifact.id.registry, artifact.id.kind, artifact.changed))
    });

static REGISTRY: Reference<Artifact, Restricted<Registry>> = Reference::cascade(
    &["id.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |artifact: &Artifact, _| vec![artifact.id.registry.to_bytes()],
)
.deferred();

impl Record for Artifact {
    const TABLE: &'static str = "artifacts";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_CHANGE, &BY_TYPE];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("changed", "orders changes; it is the id of no record")];
    type Key = ArtifactId;
    fn key(&self) -> Self::Key {
        self.id.clone()
    }
}

/// Notes that `id` has one more version, and tells whoever waits for it.
pub fn published(tx: &mut Tx, id: &ArtifactId, version: &Version) -> Result<()> {
    let new = |tx: &Tx, latest_version, labels| Artifact {
        id: id.clone(),
        latest_version,
        labels,
        changed: tx.new_id(),
        updated_at: tx.now(),
    };
    tx.signal(id.topic());
    let Some(old) = tx.get::<Artifact>(id)? else {
        return tx.insert(&new(tx, version.clone(), BTreeMap::new()));
    };
    let rises = version.numbers() > old.latest_version.numbers();
    let latest = if rises { version } else { &old.latest_version };
    tx.replace(&old, &new(tx, latest.clone(), old.labels.clone()))
}

/// Notes that `id` has lost a version: it goes with its last one.
pub fn version_removed(tx: &mut Tx, id: &ArtifactId) -> Result<()> {
    let old: Artifact = tx.fetch(id)?;
    tx.signal(id.topic());
    let Some(latest_version) = versions::highest(&tx.view(), id)? else {
        return tx.remove(&old);
    };
    let new = Artifact { latest_version, ..changed(tx, &old) };
    tx.replace(&old, &new)
}

/// Puts other labels on `old`, and tells whoever waits for what they stand on.
pub fn set_labels(
    tx: &mut Tx,
    old: &Artifact,
    labels: BTreeMap<Label, Version>,
) -> Result<Artifact> {
    let new = Artifact { labels, ..changed(tx, old) };
    tx.signal(old.id.topic());
    tx.replace(old, &new)?;
    Ok(new)
}

fn changed(tx: &Tx, old: &Artifact) -> Artifact {
    Artifact { changed: tx.new_id(), updated_at: tx.now(), ..old.clone() }
}

// ── What callers send and see ────────────────────────────────────────────────

/// Which artifacts to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// Those of this type.
    artifact_type: Option<ArtifactType>,
}

impl Input for ArtifactFilter {}

/// An artifact, as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Artifact")]
pub struct ArtifactInfo {
    artifact_type: ArtifactType,
    name: ArtifactName,
    latest_version: Version,
    /// Its labels, each with the version that it stands on.
    labels: BTreeMap<Label, Version>,
    updated_at: Time,
}

impl Output for ArtifactInfo {}

impl From<Artifact> for ArtifactInfo {
    fn from(artifact: Artifact) -> Self {
        ArtifactInfo {
            artifact_type: artifact.id.kind,
            name: artifact.id.name,
            latest_version: artifact.latest_version,
            labels: artifact.labels,
            updated_at: artifact.updated_at,
        }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), ArtifactFilter>) -> Result<Page<ArtifactInfo>> {
    let registry = require_readable(view, req, &req.input.registry_ref)?.id;
    let page = match req.input.artifact_type {
        None => view.page(&BY_CHANGE, &registry, Order::Descending, &req.page, |_| true),
        Some(kind) => {
            view.page(&BY_TYPE, &(registry, kind), Order::Descending, &req.page, |_| true)
        }
    };
    Ok(page?.map(ArtifactInfo::from))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/registries/artifacts", MEMBER_OR_PUBLIC, "artifact.list", op::list(list))
            .scope(Scope::Named(&registries::BY_REFERENCE))
            .about("List what is published in a registry, what changed last first"),
    ]
}
