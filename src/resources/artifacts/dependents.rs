//! What imports a promptlet. Written down when something is published and taken away when it is
//! deleted, so that nobody has to look for it.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::Artifact;
use super::versions::{Numbers, numbers};
use super::{ArtifactId, ArtifactType, ArtifactVersion, VersionRecord, require_readable, versions};
use crate::api::{Input, Req, Resource, Route, Scope, op};
use crate::auth::{MEMBER_OR_PUBLIC, Restricted};
use crate::base::{ArtifactName, Error, Id, Range, Result, Selector, Version};
use crate::resources::registries::{self, Registry};
use crate::store::{
    AnyIndex, AnyReference, Index, Key, Order, Page, Record, Reference, Source, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<ImportReference>()], ..Resource::EMPTY };

/// That a published text imports a version of a promptlet.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ImportReference {
    /// The promptlet.
    promptlet: ArtifactId,
    /// The version that was found.
    resolved: Version,
    /// The range that was asked for.
    range: String,
    /// What imports it, in the same registry.
    kind: ArtifactType,
    name: ArtifactName,
    version: Version,
    /// The id of that version, which says when it was published.
    by: Id<ArtifactVersion>,
}

static BY_RESOLVED: Index<ImportReference, (ArtifactId, Numbers)> =
    Index::many("artifact_imports.by_version", |edge| {
        Some((edge.promptlet.clone(), numbers(&edge.resolved)))
    });

/// What imports a version must go before it, unless both go with their registry.
static IMPORTED: Reference<ImportReference, VersionRecord> = Reference::restrict(
    &["promptlet.registry"],
    "version_imported",
    "this version is imported by another artifact; see its dependents",
    |row: &VersionRecord| (row.of.clone(), numbers(&row.version)).to_bytes(),
    |edge: &ImportReference, _| vec![(edge.promptlet.clone(), numbers(&edge.resolved)).to_bytes()],
)
.by(&BY_RESOLVED);

static REGISTRY: Reference<ImportReference, Restricted<Registry>> = Reference::cascade(
    &["promptlet.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |edge: &ImportReference, _| vec![edge.promptlet.registry.to_bytes()],
)
.deferred();

impl Record for ImportReference {
    const TABLE: &'static str = "artifact_imports";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_RESOLVED];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&IMPORTED, &REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("by", "derived from the importing version: written and removed with it")];
    type Key = (ArtifactId, Id<ArtifactVersion>, Numbers);
    fn key(&self) -> Self::Key {
        (self.promptlet.clone(), self.by, numbers(&self.resolved))
    }
}

#[cfg(test)]
impl ImportReference {
    /// What has what in it.
    pub fn to_text(&self) -> String {
        let (kind, name) = (self.kind, self.name.clone());
        let of = ArtifactId { registry: self.promptlet.registry, kind, name };
        format!("{of:?} {} has {} {}", self.version, self.promptlet.name, self.resolved)
    }
}

/// The edges from `row`, each promptlet's version once: of two ranges that lead to it the first
/// counts.
fn edges(row: &VersionRecord) -> BTreeMap<(ArtifactName, Numbers), ImportReference> {
    let mut edges = BTreeMap::new();
    for import in &row.imports {
        let (kind, name) = (ArtifactType::Promptlet, import.name.clone());
        edges.entry((name.clone(), numbers(&import.version))).or_insert_with(|| ImportReference {
            promptlet: ArtifactId { registry: row.of.registry, kind, name },
            resolved: import.version.clone(),
            range: import.range.clone(),
            kind: row.of.kind,
            name: row.of.name.clone(),
            version: row.version.clone(),
            by: row.id,
        });
    }
    edges
}

/// Notes what `row`, which is being published, imports; what another model's text of the same
/// version imports is noted already.
pub fn add(tx: &mut Tx, row: &VersionRecord) -> Result<()> {
    let mut new = edges(row);
    for other in versions::versions_at(&tx.view(), &row.of, &row.version)? {
        if other.id != row.id {
            for known in edges(&other).keys() {
                new.remove(known);
            }
        }
    }
    new.values().try_for_each(|edge| tx.insert(edge))
}

/// Takes away what is noted of `row`, which is being deleted with all of its version.
pub fn forget(tx: &mut Tx, row: &VersionRecord) -> Result<()> {
    for edge in edges(row).values() {
        if let Some(edge) = tx.get::<ImportReference>(&edge.key())? {
            tx.remove(&edge)?;
        }
    }
    Ok(())
}

// ── What callers send and see ────────────────────────────────────────────────

/// Whose dependents are wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependentFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt`, which nothing imports, where it is absent.
    artifact_type: Option<ArtifactType>,
    /// Those of a version, of the versions in a range, or of the one that a label stands on.
    version: Option<String>,
}

impl Input for DependentFilter {}

/// Something that imports a promptlet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Dependent {
    /// Its registry: `<orgSlug>/<registrySlug>`.
    registry_ref: String,
    /// Its type.
    artifact_type: ArtifactType,
    /// Its name.
    name: ArtifactName,
    /// Its version.
    version: Version,
    /// The range that it asks for; `*` where it asks for none.
    range: String,
    /// The version of the promptlet that was found for it.
    resolved: Version,
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), DependentFilter>) -> Result<Page<Dependent>> {
    let query = &req.input;
    let registry = require_readable(view, req, &query.registry_ref)?;
    let id = ArtifactId::named(&registry, query.artifact_type, &query.prompt_name)?;
    let artifact: Artifact = view.fetch(&id)?;
    let page = match versions::selector(query.version.as_deref()) {
        Selector::Nothing => return Err(Error::not_found()),
        Selector::Newest => {
            view.page(Source::<ImportReference>::TABLE, &id, Order::Descending, &req.page, |_| true)
        }
        Selector::Label(label) => {
            let version = artifact.labels.get(&label).ok_or_else(Error::not_found)?;
            versions_at(view, req, &id, version)
        }
        Selector::Range(range) => match query.version.as_deref().map(Version::parse) {
            Some(Ok(version)) => {
                versions::named(view, &id, &version)?;
                versions_at(view, req, &id, &version)
            }
            _ => within(view, req, &id, range),
        },
    };
    let reference = registry.reference.clone();
    Ok(page?.map(|edge| Dependent {
        registry_ref: reference.clone(),
        artifact_type: edge.kind,
        name: edge.name,
        version: edge.version,
        range: edge.range,
        resolved: edge.resolved,
    }))
}

fn versions_at(
    view: &View,
    req: &Req<(), DependentFilter>,
    id: &ArtifactId,
    version: &Version,
) -> Result<Page<ImportReference>> {
    let prefix = (id.clone(), numbers(version));
    view.page(&BY_RESOLVED, &prefix, Order::Descending, &req.page, |_| true)
}

fn within(
    view: &View,
    req: &Req<(), DependentFilter>,
    id: &ArtifactId,
    range: Range,
) -> Result<Page<ImportReference>> {
    let is_in = |edge: &ImportReference| range.contains(edge.resolved.numbers());
    view.page(Source::TABLE, id, Order::Descending, &req.page, is_in)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/registries/artifact-versions/dependents",
            MEMBER_OR_PUBLIC,
            "artifact_version.dependents",
            op::list(list),
        )
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("List what imports a promptlet, what was published last first"),
    ]
}
