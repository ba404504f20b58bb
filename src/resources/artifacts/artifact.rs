//! Artifacts as a whole: the latest version and the labels of each.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::ArtifactId;
use super::version;
use crate::api::{Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER_OR_PUBLIC, Restricted, ScopeName};
use crate::base::{ArtifactName, Id, Label, Result, Time, Version};
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Page, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Artifact>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

/// An artifact with at least one version.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Artifact {
    /// Its registry, type and name.
    pub id: ArtifactId,
    /// Its highest version.
    pub latest_version: Version,
    /// Its labels, each with the version that it points to.
    pub labels: Labels,
    /// A new id for each change: lists are ordered by it, the last change first.
    pub change_id: Id<ArtifactChange>,
    /// When it was last changed.
    pub updated_at: Time,
}
crate::base::portable!(Artifact { id, latest_version, labels, change_id, updated_at });

/// The labels of an artifact, each with the version that it points to.
pub type Labels = BTreeMap<Label, Version>;

/// Marks the ids of changes to artifacts.
pub enum ArtifactChange {}

static BY_CHANGE: Index<Artifact, (Id<Registry>, Id<ArtifactChange>)> =
    Index::non_unique("artifacts.by_change", |artifact| {
        Some((artifact.id.registry, artifact.change_id))
    });

static BY_TYPE: Index<Artifact, (Id<Registry>, ArtifactType, Id<ArtifactChange>)> =
    Index::non_unique("artifacts.by_type", |artifact| {
        Some((artifact.id.registry, artifact.id.kind, artifact.change_id))
    });

static REGISTRY: Reference<Artifact, Restricted<Registry>> = Reference::cascade(
    &["id.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |artifact: &Artifact, _| vec![artifact.id.registry.to_bytes()],
)
.deferred();

impl Record for Artifact {
    const TABLE: &'static str = "artifacts";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_CHANGE, &BY_TYPE];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("change_id", "orders changes; it is the id of no record")];
    type Key = ArtifactId;
    fn key(&self) -> Self::Key {
        self.id.clone()
    }
}

/// Records that `id` has one more version, and notifies those who wait for it.
pub fn version_added(tx: &mut Tx, id: &ArtifactId, version: &Version) -> Result<()> {
    let new = |tx: &Tx, latest_version, labels| Artifact {
        id: id.clone(),
        latest_version,
        labels,
        change_id: tx.new_id(),
        updated_at: tx.now(),
    };
    tx.signal(id.topic());
    let Some(old) = tx.get::<Artifact>(id)? else {
        return tx.insert(&new(tx, version.clone(), BTreeMap::new()));
    };
    let is_higher = version.numbers() > old.latest_version.numbers();
    let latest = if is_higher { version } else { &old.latest_version };
    tx.replace(&old, &new(tx, latest.clone(), old.labels.clone()))
}

/// Records that `id` has lost a version, and notifies those who wait for it. The artifact is
/// removed with its last version.
pub fn version_removed(tx: &mut Tx, id: &ArtifactId) -> Result<()> {
    let old: Artifact = tx.fetch(id)?;
    tx.signal(id.topic());
    let Some(latest_version) = version::highest(&tx.view(), id)? else {
        return tx.remove(&old);
    };
    let new = Artifact { latest_version, ..with_change(tx, &old) };
    tx.replace(&old, &new)
}

/// Replaces the labels of `old`, and notifies those who wait for one of them.
pub fn set_labels(tx: &mut Tx, old: &Artifact, labels: Labels) -> Result<Artifact> {
    let new = Artifact { labels, ..with_change(tx, old) };
    tx.signal(old.id.topic());
    tx.replace(old, &new)?;
    Ok(new)
}

fn with_change(tx: &Tx, old: &Artifact) -> Artifact {
    Artifact { change_id: tx.new_id(), updated_at: tx.now(), ..old.clone() }
}

// ── What callers send and see ────────────────────────────────────────────────

/// Selects the artifacts of a registry.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// Only artifacts of this type.
    artifact_type: Option<ArtifactType>,
    /// Only those of this name: one, or one of each type.
    prompt_name: Option<String>,
}

impl Input for ArtifactFilter {}

/// An artifact, as callers see it: all versions published under one name.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Artifact")]
pub struct ArtifactInfo {
    /// The type of the artifact.
    artifact_type: ArtifactType,
    name: ArtifactName,
    /// The highest version.
    latest_version: Version,
    /// The labels, each with the version that it points to.
    labels: BTreeMap<Label, Version>,
    updated_at: Time,
    /// What was changed, for the audit log.
    #[serde(skip)]
    about: Option<ResourceRef>,
}

impl Output for ArtifactInfo {
    fn resource(&self) -> Option<ResourceRef> {
        self.about.clone()
    }
}

impl ArtifactInfo {
    /// The same artifact, whose change the audit log describes so.
    pub(super) fn about(self, resource: ResourceRef) -> Self {
        ArtifactInfo { about: Some(resource), ..self }
    }
}

impl From<Artifact> for ArtifactInfo {
    fn from(artifact: Artifact) -> Self {
        ArtifactInfo {
            artifact_type: artifact.id.kind,
            name: artifact.id.name,
            latest_version: artifact.latest_version,
            labels: artifact.labels,
            updated_at: artifact.updated_at,
            about: None,
        }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), ArtifactFilter>) -> Result<Page<ArtifactInfo>> {
    let registry =
        registries::require_readable(view, req.caller_if_any(), &req.input.registry_ref)?;
    if let Some(name) = &req.input.prompt_name {
        return named(view, &registry, req.input.artifact_type, name);
    }
    let registry = registry.id;
    let page = match req.input.artifact_type {
        None => view.page(&BY_CHANGE, &registry, Order::Descending, &req.page, |_| true),
        Some(kind) => {
            view.page(&BY_TYPE, &(registry, kind), Order::Descending, &req.page, |_| true)
        }
    };
    Ok(page?.map(ArtifactInfo::from))
}

/// The artifacts of a name, of one type or all.
fn named(
    view: &View,
    registry: &Registry,
    kind: Option<ArtifactType>,
    name: &str,
) -> Result<Page<ArtifactInfo>> {
    let Ok(name) = ArtifactName::parse(name) else { return Ok(Page::single(vec![])) };
    let mut found = Vec::new();
    for one in [ArtifactType::Prompt, ArtifactType::Promptlet] {
        if kind.is_none_or(|kind| kind == one) {
            let id = ArtifactId { registry: registry.id, kind: one, name: name.clone() };
            found.extend(view.get::<Artifact>(&id)?);
        }
    }
    Ok(Page::single(found.into_iter().map(ArtifactInfo::from).collect()))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/registries/artifacts", MEMBER_OR_PUBLIC, "artifact.list", op::list(list))
            .org_source(OrgSource::Named(&registries::BY_REFERENCE))
            .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
            .about("List artifacts, last changed first"),
    ]
}
