//! Deleting a version, with the texts for all its models. A version that is imported or labelled
//! cannot be deleted. With the last one go the inputs of a prompt.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use super::artifact::{self, Artifact};
use super::id::ArtifactId;
use super::{input, label_history, versions};
use crate::api::{Deleted, Input, OrgSource, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Result, Version};
use crate::outbox::{self, About, EventType};
use crate::resources::registries::{self, ArtifactType};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::RegistryArtifactDeleted], ..Resource::EMPTY };

/// A version to delete.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The exact version.
    version: String,
}

impl Input for VersionQuery {}

pub(super) fn delete(tx: &mut Tx, req: &Req<(), VersionQuery>) -> Result<Deleted> {
    let query = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &query.registry_ref)?;
    let id = ArtifactId::parse(&registry, query.artifact_type, &query.prompt_name)?;
    let rows = versions::find(&tx.view(), &id, &query.version)?;
    let version = rows[0].version.clone();
    require_unlabelled(&tx.view(), &id, &version)?;
    rows.iter().try_for_each(|row| tx.remove(row))?;
    artifact::version_removed(tx, &id, Some(req.caller().user()))?;
    if id.kind == ArtifactType::Prompt && !tx.view().has::<Artifact>(&id)? {
        input::remove_all(tx, &id)?;
    }
    let payload = json!({
        "registryId": registry.id, "registryRef": registry.reference,
        "artifactType": id.kind, "name": id.name, "version": version,
    });
    let about = About::resource("artifact_version", rows[0].id).guarded_by("registry", registry.id);
    outbox::publish(tx, EventType::RegistryArtifactDeleted, about, payload)?;
    let about = label_history::audited_artifact(&registry, &id).with_detail(&version);
    Ok(Deleted::new(version).about(about))
}

/// # Errors
/// 409 if a label points to it.
fn require_unlabelled(view: &View, id: &ArtifactId, version: &Version) -> Result<()> {
    let artifact: Artifact = view.fetch(id)?;
    let is_this = |labelled: &Version| labelled.numbers() == version.numbers();
    if let Some((label, _)) = artifact.labels.iter().find(|(_, labelled)| is_this(labelled)) {
        return Err(Error::conflict(
            "version_labelled",
            format!("the label \"{label}\" points to this version; move or remove the label first"),
        ));
    }
    Ok(())
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::delete(
            "/registries/artifact-versions",
            MEMBER,
            "artifact_version.delete",
            op::write(delete),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactDelete, &registries::NAMED_REGISTRY)
        .about("Delete a version, for all models"),
    ]
}
