//! The dependents of a promptlet: the versions that import it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::Artifact;
use super::id::ArtifactId;
use super::version::{BY_RESOLVED, ImportReference, numbers};
use super::versions;
use crate::api::{Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER_OR_PUBLIC, ScopeName};
use crate::base::{ArtifactName, Range, Result, Selector, Version};
use crate::resources::registries::{self, ArtifactType};
use crate::store::{ListSource, Order, Page, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send and see ────────────────────────────────────────────────

/// Selects a promptlet, and optionally some of its versions.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DependentFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent, although only promptlets have dependents.
    artifact_type: Option<ArtifactType>,
    /// Only dependents of this version, of the versions in this range, or of the version that this
    /// label points to.
    version: Option<String>,
}

impl Input for DependentFilter {}

/// A version that imports a promptlet.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ArtifactDependent")]
pub struct Dependent {
    /// The registry: `<orgSlug>/<registrySlug>`.
    registry_ref: String,
    /// The type of the importing artifact.
    artifact_type: ArtifactType,
    /// The name of the importing artifact.
    name: ArtifactName,
    /// The importing version.
    version: Version,
    /// The range of the import; `*` if it has none.
    range: String,
    /// The version of the promptlet that the range resolved to when it was published.
    resolved: Version,
}

impl Output for Dependent {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), DependentFilter>) -> Result<Page<Dependent>> {
    let query = &req.input;
    let registry = registries::require_readable(view, req.caller_if_any(), &query.registry_ref)?;
    let id = ArtifactId::parse(&registry, query.artifact_type, &query.prompt_name)?;
    let artifact: Artifact = view.fetch(&id)?;
    let page = match versions::selector(query.version.as_deref()) {
        Selector::Nothing => return Err(versions::no_such("version")),
        Selector::Newest => view.page(
            ListSource::<ImportReference>::TABLE,
            &id,
            Order::Descending,
            &req.page,
            |_| true,
        ),
        Selector::Label(label) => {
            let version =
                artifact.labels.get(&label).ok_or_else(|| versions::no_such("version"))?;
            versions_at(view, req, &id, version)
        }
        Selector::Range(range) => match query.version.as_deref().map(Version::parse) {
            Some(Ok(version)) => {
                versions::find(view, &id, &version)?;
                versions_at(view, req, &id, &version)
            }
            _ => versions_in(view, req, &id, range),
        },
    };
    let registry_ref = registry.reference.clone();
    Ok(page?.map(|reference| Dependent {
        registry_ref: registry_ref.clone(),
        artifact_type: reference.kind,
        name: reference.name,
        version: reference.version,
        range: reference.range,
        resolved: reference.resolved,
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

fn versions_in(
    view: &View,
    req: &Req<(), DependentFilter>,
    id: &ArtifactId,
    range: Range,
) -> Result<Page<ImportReference>> {
    let is_in = |reference: &ImportReference| range.contains(reference.resolved.numbers());
    view.page(ListSource::TABLE, id, Order::Descending, &req.page, is_in)
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
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .about("List dependents of a promptlet, newest first"),
    ]
}
