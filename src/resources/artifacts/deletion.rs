//! Deleting a version, with the texts of all its models. What is used, or labelled, stays.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::artifact::{self, Artifact};
use super::{ArtifactId, ArtifactType, Published, VersionText, dependents, variables, versions};
use crate::api::{Input, Removed, Req, Resource, Route, Scope};
use crate::auth::Rule;
use crate::base::{Error, Result, Version};
use crate::outbox::{self, About, EventType};
use crate::resources::registries;
use crate::store::{Record, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::RegistryArtifactDeleted], ..Resource::EMPTY };

/// A version to delete.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// Exactly a version.
    version: String,
}

impl Input for VersionQuery {}

pub(super) fn remove(tx: &mut Tx, req: &Req<(), VersionQuery>) -> Result<Removed> {
    let query = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), &query.registry_ref)?;
    let id = ArtifactId::named(&registry, query.artifact_type, &query.prompt_name)?;
    let rows = versions::named(&tx.view(), &id, &query.version)?;
    let version = rows[0].version.clone();
    must_be_unused(&tx.view(), &id, &version)?;
    for row in &rows {
        remove_row(tx, row)?;
    }
    artifact::unpublished(tx, &id)?;
    let payload = json!({
        "registryId": registry.id, "registryRef": registry.reference,
        "artifactType": id.kind, "name": id.name, "version": version,
    });
    let about = About::resource("artifact_version", rows[0].id).guarded_by("registry", registry.id);
    outbox::publish(tx, EventType::RegistryArtifactDeleted, about, payload)?;
    Ok(Removed::new(version))
}

/// # Errors
/// 409 if a label stands on it or something imports it.
fn must_be_unused(view: &View, id: &ArtifactId, version: &Version) -> Result<()> {
    let artifact: Artifact = view.fetch(id)?;
    let stands_here = |labelled: &Version| labelled.numbers() == version.numbers();
    if let Some((label, _)) = artifact.labels.iter().find(|(_, labelled)| stands_here(labelled)) {
        return Err(Error::conflict(
            "version_labelled",
            format!("the label \"{label}\" stands on this version; move it or take it off first"),
        ));
    }
    if dependents::any(view, id, version)? {
        return Err(Error::conflict(
            "version_imported",
            "this version is imported by another artifact; see its dependents",
        ));
    }
    Ok(())
}

fn remove_row(tx: &mut Tx, row: &Published) -> Result<()> {
    dependents::forget(tx, row)?;
    variables::forget(tx, row)?;
    let texts: VersionText = tx.fetch(&row.key())?;
    tx.remove(&texts)?;
    tx.remove(row)
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::delete(
            "/registries/artifact-versions",
            Rule::Member,
            "artifact_version.delete",
            remove,
        )
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("Delete a version, for all models"),
    ]
}
