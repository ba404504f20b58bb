//! Cloning: a version, with the texts for all its models, is published again under another name,
//! version or registry, and compiled with the promptlets of that registry.

use schemars::JsonSchema;
use serde::Deserialize;

use super::id::{ArtifactId, GENERIC};
use super::publishing::{ArtifactVersion, Publication, publish_all};
use super::versions;
use crate::api::{Calls, Input, Outcome, Req, Resource, Route, Scope, op};
use crate::auth::MEMBER;
use crate::base::{ArtifactName, Error, Result, Version};
use crate::resources::governance::JUDGE_SECS;
use crate::resources::registries::{self, ArtifactType};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A version to clone.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The exact version.
    version: String,
    to: CloneTarget,
}

impl Input for CloneRequest {}

/// Where a clone is published. Absent fields are taken from the original.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneTarget {
    /// A registry of the same organization, named as in `registryRef` above.
    registry_ref: Option<String>,
    /// The name of the clone.
    prompt_name: Option<ArtifactName>,
    /// The version of the clone.
    version: Option<Version>,
}

pub(super) fn clone(
    tx: &mut Tx,
    req: &Req<(), CloneRequest>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let CloneRequest { registry_ref, prompt_name, artifact_type, version, to } = &req.input;
    let from = registries::require_usable(&tx.view(), req.caller(), registry_ref)?;
    let target = match &to.registry_ref {
        Some(reference) => registries::require_usable(&tx.view(), req.caller(), reference)?,
        None => from.clone(),
    };
    let id = ArtifactId::parse(&from, *artifact_type, prompt_name)?;
    let mut clones = Vec::new();
    for row in versions::find(&tx.view(), &id, version)? {
        let source = versions::text(&tx.view(), &row)?.source;
        clones.push(Publication {
            kind: row.of.kind,
            name: to.prompt_name.clone().unwrap_or(row.of.name),
            version: to.version.clone().unwrap_or(row.version),
            model: row.model,
            source,
            metadata: row.metadata,
            path: "source",
        });
    }
    // The answer has the generic text, if there is one.
    clones.sort_by_key(|clone| clone.model.as_str() != GENERIC);
    publish_all(tx, req.caller().user(), &target, clones, calls)?.try_map(|published| {
        published.into_iter().next().ok_or_else(|| Error::internal("a version without any text"))
    })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/registries/artifact-versions/clone",
            MEMBER,
            "artifact_version.clone",
            op::write(op::calling(JUDGE_SECS, clone)),
        )
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("Clone a version"),
    ]
}
