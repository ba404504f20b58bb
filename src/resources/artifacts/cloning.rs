//! Cloning: a version, with the texts of all its models, is published once more at another name,
//! version or registry. It is compiled anew there, with what that registry has.

use schemars::JsonSchema;
use serde::Deserialize;

use super::publishing::publish_all;
use super::{ArtifactId, ArtifactType, ArtifactVersion, GENERIC, Publication, text, versions};
use crate::api::{Calls, Input, Outcome, Req, Resource, Route, Scope, op};
use crate::auth::MEMBER;
use crate::base::{ArtifactName, Error, Result, Version};
use crate::resources::governance::JUDGE_SECS;
use crate::resources::registries;
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// A version to clone.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Clone {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// Exactly a version.
    version: String,
    to: CloneTarget,
}

impl Input for Clone {}

/// Where a clone is published; what is absent stays as it is.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CloneTarget {
    /// Another registry of the same organization.
    registry_ref: Option<String>,
    /// Another name.
    prompt_name: Option<ArtifactName>,
    /// Another version.
    version: Option<Version>,
}

pub(super) fn clone(
    tx: &mut Tx,
    req: &Req<(), Clone>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let Clone { registry_ref, prompt_name, artifact_type, version, to } = &req.input;
    let from = registries::named(&tx.view(), req.caller(), registry_ref)?;
    let target = match &to.registry_ref {
        Some(reference) => registries::named(&tx.view(), req.caller(), reference)?,
        None => from.clone(),
    };
    let id = ArtifactId::named(&from, *artifact_type, prompt_name)?;
    let mut clones = Vec::new();
    for row in versions::named(&tx.view(), &id, version)? {
        let source = text(&tx.view(), &row)?.source;
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
    // The generic text is the one that is answered, where there is one.
    clones.sort_by_key(|clone| clone.model.as_str() != GENERIC);
    publish_all(tx, req.caller().user(), &target, clones, calls)?.try_map(|made| {
        made.into_iter().next().ok_or_else(|| Error::internal("a version without any text"))
    })
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/registries/artifact-versions/clone",
            MEMBER,
            "artifact_version.clone",
            op::write_calling(JUDGE_SECS, clone),
        )
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("Publish a version once more, at another name, version or registry"),
    ]
}
