//! Differences between two versions: of their sources line by line, and of their variables.

use std::collections::HashSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::id::ArtifactId;
use super::version::VersionRecord;
use super::versions;
use crate::api::{Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER_OR_PUBLIC, ScopeName};
use crate::base::diff::{MAX_COMPARED_LINES, unified};
use crate::base::{Result, Selector, Version, VersionMessage};
use crate::resources::registries::{self, ArtifactType};
use crate::store::View;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// Selects two versions of an artifact to compare.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionDiffQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The version to compare from: a version, a range or a label.
    from: String,
    /// The version to compare with: a version, a range or a label.
    to: String,
    /// The model that the texts are for; the generic text is used if there is none for it.
    model: Option<String>,
}

impl Input for VersionDiffQuery {}

/// The differences between two versions.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionDiff {
    /// The version compared from.
    from: Version,
    /// The version compared with.
    to: Version,
    /// The message of the version compared from.
    from_message: Option<VersionMessage>,
    /// The message of the version compared with.
    to_message: Option<VersionMessage>,
    /// A unified diff of the sources; empty if they are equal.
    diff: String,
    /// The differences between their variables.
    variables: VariableDiff,
}

impl Output for VersionDiff {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// The differences between the variables of two versions, including those of their imports.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct VariableDiff {
    /// Variables that only the second version uses.
    added: Vec<String>,
    /// Variables that only the first version uses.
    removed: Vec<String>,
}

pub(super) fn get(view: &View, req: &Req<(), VersionDiffQuery>) -> Result<VersionDiff> {
    let query = &req.input;
    let registry = registries::require_readable(view, req.caller_if_any(), &query.registry_ref)?;
    let id = ArtifactId::parse(&registry, query.artifact_type, &query.prompt_name)?;
    let version = |path: &'static str, selector: &str| -> Result<(VersionRecord, String)> {
        let found =
            versions::resolve(view, &id, &Selector::parse(selector), query.model.as_deref())?;
        let row = found.ok_or_else(|| versions::none_selected(view, &id, path))?;
        let source = versions::text(view, &row)?.source.into_string();
        Ok((row, source))
    };
    let (from, old) = version("from", &query.from)?;
    let (to, new) = version("to", &query.to)?;
    Ok(VersionDiff {
        diff: unified(&old, &new, (&from.version, &to.version), &mut { MAX_COMPARED_LINES }),
        variables: VariableDiff {
            added: only_in(&to.variables, &from.variables),
            removed: only_in(&from.variables, &to.variables),
        },
        from: from.version,
        to: to.version,
        from_message: from.message,
        to_message: to.message,
    })
}

fn only_in(these: &[String], those: &[String]) -> Vec<String> {
    let those: HashSet<&String> = those.iter().collect();
    these.iter().filter(|name| !those.contains(name)).cloned().collect()
}

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/registries/artifact-versions/diff",
            MEMBER_OR_PUBLIC,
            "artifact_version.diff",
            op::read_or_text(get, |diff| diff.diff),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .costly()
        .about("Compare two versions"),
    ]
}
