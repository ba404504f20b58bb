//! The content of a version: the texts that runtimes fetch.
//!
//! The answer's `ETag` changes when the selector (a label, a range or the newest) resolves to
//! another version; a client that sends it can wait for that.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::{ArtifactId, Model};
use super::version::VersionRecord;
use super::{metadata, versions};
use crate::api::{ContentVersion, Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER_OR_PUBLIC, ScopeName};
use crate::base::{ArtifactName, JsonMap, Prompt, Result, Version, VersionMessage};
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Selects a version, and the model that its text is for.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// A version, a range or a label; the newest version if absent.
    version: Option<String>,
    /// The model that the text is for; the generic text is used if there is none for it.
    model: Option<String>,
}

impl Input for ContentQuery {}

/// The content of a version for a model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactContent {
    /// The registry: `<orgSlug>/<registrySlug>`.
    registry_ref: String,
    /// The type of the artifact.
    artifact_type: ArtifactType,
    /// The name of the artifact.
    name: ArtifactName,
    /// The version that the selector resolved to.
    version: Version,
    /// The model that the text is for: the requested one, or `generic`.
    model: Model,
    /// The text as it was published.
    source: Prompt,
    /// The text with its imports inserted; variables are left in place.
    compiled: String,
    /// The metadata given by its author.
    metadata: JsonMap,
    /// The hash of the version, as in its other representations.
    hash: String,
    /// What changed in the version and why, as who published it says.
    message: Option<VersionMessage>,
}

impl Output for ArtifactContent {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// Returns the version that a request selects, and its registry.
fn find(view: &View, req: &Req<(), ContentQuery>) -> Result<(Registry, VersionRecord)> {
    let query = &req.input;
    let registry = registries::require_readable(view, req.caller_if_any(), &query.registry_ref)?;
    let id = ArtifactId::parse(&registry, query.artifact_type, &query.prompt_name)?;
    let selector = versions::selector(query.version.as_deref());
    let row = versions::resolve(view, &id, &selector, query.model.as_deref())?
        .ok_or_else(|| versions::none_selected(view, &id, "version"))?;
    Ok((registry, row))
}

pub(super) fn get(view: &View, req: &Req<(), ContentQuery>) -> Result<ArtifactContent> {
    let (registry, row) = find(view, req)?;
    let texts = versions::text(view, &row)?;
    let metadata = metadata::get(view, &row)?;
    Ok(ArtifactContent {
        registry_ref: registry.reference.clone(),
        artifact_type: row.of.kind,
        name: row.of.name,
        version: row.version,
        model: row.model,
        compiled: texts.compiled().to_string(),
        source: texts.source,
        metadata,
        hash: row.hash,
        message: row.message,
    })
}

/// A version never changes, and neither do the slugs of its registry and organization: the answer
/// is the same as long as the selector resolves to the same version.
pub(super) fn look(view: &View, req: &Req<(), ContentQuery>) -> Result<ContentVersion> {
    let (_, row) = find(view, req)?;
    Ok(ContentVersion { topic: row.of.topic(), version: row.id.uuid() })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/registries/artifact-versions/content",
            MEMBER_OR_PUBLIC,
            "artifact_version.content",
            op::watch(get, look),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .about("Get a version's content, optionally awaiting a change"),
    ]
}
