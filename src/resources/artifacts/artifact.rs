//! Artifacts as a whole: the latest version and the labels of each.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::ArtifactId;
use super::version;
use crate::api::{Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER_OR_PUBLIC, Restricted, ScopeName, User};
use crate::base::{ArtifactName, Id, Label, Result, Tag, Time, Version};
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::resources::tags::{self, Tags, Wanted};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, Order, Page, Record, Reference, TableInfo, Tx,
    View, upgrade_shorter,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Artifact>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

crate::base::portable! {
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
    pub tags: Vec<Tag>,
    /// Who last changed it; none if an earlier release or the server itself did.
    pub updated_by: Option<Id<User>>,
}
}

/// The labels of an artifact, each with the version that it points to.
pub type Labels = BTreeMap<Label, Version>;

/// Marks the ids of changes to artifacts.
pub enum ArtifactChange {}

/// Artifacts of each registry by their last change.
pub static BY_CHANGE: Index<Artifact, (Id<Registry>, Id<ArtifactChange>)> =
    Index::non_unique("artifacts.by_change", |artifact| {
        Some((artifact.id.registry, artifact.change_id))
    });

static BY_TYPE: Index<Artifact, (Id<Registry>, ArtifactType, Id<ArtifactChange>)> =
    Index::non_unique("artifacts.by_type", |artifact| {
        Some((artifact.id.registry, artifact.id.kind, artifact.change_id))
    });

/// By each of their tags, folded.
static BY_TAG: Index<Artifact, (Id<Registry>, String, Id<ArtifactChange>)> =
    Index::of_several("artifacts.by_tag", |artifact| {
        let keys = tags::keys(&artifact.tags).into_iter();
        keys.map(|tag| (artifact.id.registry, tag, artifact.change_id)).collect()
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
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_CHANGE, &BY_TYPE, &BY_TAG];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("change_id", "orders changes; it is the id of no record")];
    const VERSION: u8 = 2;
    type Key = ArtifactId;
    fn key(&self) -> Self::Key {
        self.id.clone()
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        upgrade_shorter(version, 1, body)
    }
}

/// Who changes an artifact; none if the server itself does.
pub type By = Option<Id<User>>;

/// Records that `id` has one more version, and notifies those who wait for it.
pub fn version_added(tx: &mut Tx, id: &ArtifactId, version: &Version, by: By) -> Result<()> {
    tx.signal(id.topic());
    let Some(old) = tx.get::<Artifact>(id)? else {
        return tx.insert(&Artifact {
            id: id.clone(),
            latest_version: version.clone(),
            labels: BTreeMap::new(),
            change_id: tx.new_id(),
            updated_at: tx.now(),
            tags: Vec::new(),
            updated_by: by,
        });
    };
    let is_higher = version.numbers() > old.latest_version.numbers();
    let latest = if is_higher { version } else { &old.latest_version };
    let new = Artifact { latest_version: latest.clone(), ..with_change(tx, &old, by) };
    tx.replace(&old, &new)
}

/// Records that `id` has lost a version, and notifies those who wait for it. The artifact is
/// removed with its last version.
pub fn version_removed(tx: &mut Tx, id: &ArtifactId, by: By) -> Result<()> {
    let old: Artifact = tx.fetch(id)?;
    tx.signal(id.topic());
    let Some(latest_version) = version::highest(&tx.view(), id)? else {
        return tx.remove(&old);
    };
    let new = Artifact { latest_version, ..with_change(tx, &old, by) };
    tx.replace(&old, &new)
}

/// Replaces the labels of `old`, and notifies those who wait for one of them.
pub fn set_labels(tx: &mut Tx, old: &Artifact, labels: Labels, by: By) -> Result<Artifact> {
    let new = Artifact { labels, ..with_change(tx, old, by) };
    tx.signal(old.id.topic());
    tx.replace(old, &new)?;
    Ok(new)
}

/// Replaces the tags of an artifact, if they differ.
///
/// # Errors
/// 404 if there is no such artifact.
pub fn set_tags(tx: &mut Tx, id: &ArtifactId, tags: Vec<Tag>, by: By) -> Result<Artifact> {
    let old: Artifact = tx.fetch(id)?;
    if old.tags == tags {
        return Ok(old);
    }
    let new = Artifact { tags, ..with_change(tx, &old, by) };
    tx.replace(&old, &new)?;
    Ok(new)
}

fn with_change(tx: &Tx, old: &Artifact, by: By) -> Artifact {
    Artifact { change_id: tx.new_id(), updated_at: tx.now(), updated_by: by, ..old.clone() }
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
    /// Only those with all of these tags.
    tag: Option<Tags>,
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
    tags: Vec<Tag>,
    updated_at: Time,
    updated_by: Option<Id<User>>,
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
            tags: artifact.tags,
            updated_at: artifact.updated_at,
            updated_by: artifact.updated_by,
            about: None,
        }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), ArtifactFilter>) -> Result<Page<ArtifactInfo>> {
    // Who it was is for members; a public registry is read by anyone.
    let is_member = req.caller_if_any().is_some();
    let shown = |info: ArtifactInfo| {
        let updated_by = info.updated_by.filter(|_| is_member);
        ArtifactInfo { updated_by, ..info }
    };
    Ok(listed(view, req)?.map(shown))
}

fn listed(view: &View, req: &Req<(), ArtifactFilter>) -> Result<Page<ArtifactInfo>> {
    let registry =
        registries::require_readable(view, req.caller_if_any(), &req.input.registry_ref)?;
    let ArtifactFilter { artifact_type: kind, prompt_name, tag, .. } = &req.input;
    let tags = Wanted::of(tag.as_ref());
    if let Some(name) = prompt_name {
        return named(view, &registry, (*kind, &tags), name);
    }
    let registry = registry.id;
    if let Some(tag) = tags.first() {
        let is_wanted = |artifact: &Artifact| {
            kind.is_none_or(|kind| artifact.id.kind == kind) && tags.are_in(&artifact.tags)
        };
        let prefix = (registry, tag.clone());
        let page = view.page(&BY_TAG, &prefix, Order::Descending, &req.page, is_wanted)?;
        return Ok(page.map(ArtifactInfo::from));
    }
    let page = match *kind {
        None => view.page(&BY_CHANGE, &registry, Order::Descending, &req.page, |_| true),
        Some(kind) => {
            view.page(&BY_TYPE, &(registry, kind), Order::Descending, &req.page, |_| true)
        }
    };
    Ok(page?.map(ArtifactInfo::from))
}

/// The artifacts of a name, of one type or all, that have these tags.
fn named(
    view: &View,
    registry: &Registry,
    (kind, tags): (Option<ArtifactType>, &Wanted),
    name: &str,
) -> Result<Page<ArtifactInfo>> {
    let Ok(name) = ArtifactName::parse(name) else { return Ok(Page::single(vec![])) };
    let mut found = Vec::new();
    for one in [ArtifactType::Prompt, ArtifactType::Promptlet] {
        if kind.is_none_or(|kind| kind == one) {
            let id = ArtifactId { registry: registry.id, kind: one, name: name.clone() };
            found.extend(view.get::<Artifact>(&id)?.filter(|found| tags.are_in(&found.tags)));
        }
    }
    Ok(Page::single(found.into_iter().map(ArtifactInfo::from).collect()))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get("/registries/artifacts", MEMBER_OR_PUBLIC, "artifact.list", op::walk(list))
            .org_source(OrgSource::Named(&registries::BY_REFERENCE))
            .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
            .about("List artifacts, last changed first"),
    ]
}
