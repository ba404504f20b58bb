//! What a version says: the texts that runtimes fetch.
//!
//! The answer's `ETag` changes when another version is meant, by its label, as the newest or by a
//! range; whoever has one may wait for the next.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    ArtifactId, ArtifactType, Model, VersionRecord, meant, require_readable, text, versions,
};
use crate::api::{ContentVersion, Input, Output, Req, Resource, Route, Scope, op};
use crate::auth::MEMBER_OR_PUBLIC;
use crate::base::{ArtifactName, Error, JsonMap, Prompt, Result, Version};
use crate::resources::registries::{self, Registry};
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Which content is wanted.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContentQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// A version, a range or a label; the newest where it is absent.
    version: Option<String>,
    /// The model that it is for; the generic text is taken where there is none for it.
    model: Option<String>,
}

impl Input for ContentQuery {}

/// What a version says to a model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Content {
    /// Its registry: `<orgSlug>/<registrySlug>`.
    registry_ref: String,
    /// Its artifact's type.
    artifact_type: ArtifactType,
    /// Its artifact's name.
    name: ArtifactName,
    /// The version.
    version: Version,
    /// The model that the text is for.
    model: Model,
    /// The text as it was published.
    source: Prompt,
    /// The text with its imports put in; the variables are left in place.
    compiled: String,
    /// What its author says of it.
    metadata: JsonMap,
    /// The same as in the version's other answers.
    hash: String,
}

impl Output for Content {}

/// The version that is meant, and its registry.
fn find(view: &View, req: &Req<(), ContentQuery>) -> Result<(Registry, VersionRecord)> {
    let query = &req.input;
    let registry = require_readable(view, req, &query.registry_ref)?;
    let id = ArtifactId::named(&registry, query.artifact_type, &query.prompt_name)?;
    let selector = versions::selector(query.version.as_deref());
    let row = meant(view, &id, &selector, query.model.as_deref())?.ok_or_else(Error::not_found)?;
    Ok((registry, row))
}

pub(super) fn get(view: &View, req: &Req<(), ContentQuery>) -> Result<Content> {
    let (registry, row) = find(view, req)?;
    let texts = text(view, &row)?;
    Ok(Content {
        registry_ref: registry.reference.clone(),
        artifact_type: row.of.kind,
        name: row.of.name,
        version: row.version,
        model: row.model,
        compiled: texts.compiled().to_string(),
        source: texts.source,
        metadata: row.metadata,
        hash: row.hash,
    })
}

/// A version never changes, and neither do the slugs of its registry and organization: the answer
/// is the same as long as the same version is meant.
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
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("Read what a version says, perhaps once it is another than the caller has"),
    ]
}
