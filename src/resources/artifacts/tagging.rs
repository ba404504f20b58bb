//! Tags of an artifact as a whole: lists of artifacts are filtered by them. Whoever may read it sees
//! them.

use schemars::JsonSchema;
use serde::Deserialize;

use super::artifact::{Artifact, ArtifactInfo, set_tags};
use super::id::ArtifactId;
use super::label_history::audited_artifact;
use crate::api::{Input, OrgSource, Req, Resource, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{Error, Issue, Result};
use crate::resources::registries::{self, ArtifactType};
use crate::resources::tags::{self, Tags};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Changes to an artifact as a whole.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "promptName": "release-notes",
        "tags": ["docs", "weekly"]}],
))]
pub struct ArtifactPatch {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// All of its tags from now on.
    tags: Tags,
    /// The tags that it is to have until then: if it has others by now, nothing changes.
    from: Option<Tags>,
}

impl Input for ArtifactPatch {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        tags::check(Some(&self.tags), issues);
    }
}

fn update(tx: &mut Tx, req: &Req<(), ArtifactPatch>) -> Result<ArtifactInfo> {
    let ArtifactPatch { registry_ref, prompt_name, artifact_type, tags, from } = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), registry_ref)?;
    let id = ArtifactId::parse(&registry, *artifact_type, prompt_name)?;
    let old: Artifact = tx.fetch(&id)?;
    let is_meant = from.as_ref().is_none_or(|from| **from == *old.tags);
    if !is_meant && old.tags != **tags {
        let message = "the tags were changed meanwhile; read them, and send those as from";
        return Err(Error::conflict("tags_changed", message));
    }
    let artifact = set_tags(tx, &id, tags.to_vec(), Some(req.caller().user()))?;
    Ok(ArtifactInfo::from(artifact).about(audited_artifact(&registry, &id)))
}

fn routes() -> Vec<Route> {
    vec![
        Route::patch("/registries/artifacts", MEMBER, "artifact.update", op::write(update))
            .org_source(OrgSource::Named(&registries::BY_REFERENCE))
            .needs_for(ScopeName::ArtifactPublish, &registries::NAMED_REGISTRY)
            .about("Set the tags of an artifact"),
    ]
}
