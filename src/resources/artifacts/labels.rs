//! Labels: movable names for an artifact's versions, such as `production`. Moving a label takes
//! effect at once for every client that selects by it.

use schemars::JsonSchema;
use serde::Deserialize;

use super::artifact::{Artifact, ArtifactInfo, set_labels};
use super::id::ArtifactId;
use super::version::numbers;
use super::{label_history, versions};
use crate::api::{Deleted, Input, OrgSource, Req, Resource, Route, TargetFinder, op};
use crate::auth::{MEMBER, ScopeName, ScopeTarget};
use crate::base::{Error, Label, Nullable, Result, Version};
use crate::resources::registries::{self, ArtifactType};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// An artifact has at most 1,000 labels: every representation of it includes all of them, and a read
/// by label searches all of them.
const MAX_LABELS: usize = 1000;

// ── What callers send ────────────────────────────────────────────────────────

/// A label, and the version that it is to point to.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "promptName": "release-notes",
        "label": "production", "version": "1.0.0"}],
))]
pub struct SetLabel {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The label; it is created if it does not exist.
    label: Label,
    /// The exact version.
    version: String,
    /// The version that the label is moved from, `null` for a new label: if it is elsewhere by now,
    /// it is not moved. If absent, it is moved from wherever it is.
    #[serde(default)]
    from: Nullable<Version>,
}

impl Input for SetLabel {}

/// A label to remove.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The label.
    label: String,
    /// The version that the label points to: if it is elsewhere by now, it is not removed.
    from: Option<Version>,
}

impl Input for LabelQuery {}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn set(tx: &mut Tx, req: &Req<(), SetLabel>) -> Result<ArtifactInfo> {
    let SetLabel { registry_ref, prompt_name, artifact_type, label, version, from } = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), registry_ref)?;
    let id = ArtifactId::parse(&registry, *artifact_type, prompt_name)?;
    let old: Artifact = tx.fetch(&id)?;
    // As it was published, which is how answers show it.
    let version = versions::find(&tx.view(), &id, version)?.swap_remove(0).version;
    require_at(&old, label, from)?;
    if old.labels.get(label) == Some(&version) {
        return Ok(old.into());
    }
    let mut labels = old.labels.clone();
    let before = labels.insert(label.clone(), version.clone());
    if labels.len() > MAX_LABELS {
        return Err(Error::conflict(
            "labels_full",
            "an artifact has at most 1,000 labels; remove one that is not needed",
        ));
    }
    let versions = [before.as_ref(), Some(&version)];
    label_history::record(tx, req, &id, label, versions)?;
    let about = label_history::audited(&registry, &id, label, versions);
    let by = Some(req.caller().user());
    Ok(ArtifactInfo::from(set_labels(tx, &old, labels, by)?).about(about))
}

/// Requires that a label points to the version that the caller moves it from, if the caller says.
fn require_at(artifact: &Artifact, label: &Label, from: &Nullable<Version>) -> Result<()> {
    let current = artifact.labels.get(label);
    let is_there = match from {
        Nullable::Absent => true,
        Nullable::Clear => current.is_none(),
        Nullable::Set(version) => current.is_some_and(|at| numbers(at) == numbers(version)),
    };
    if is_there {
        return Ok(());
    }
    let place = match current {
        Some(version) => format!("points to {version} now"),
        None => "does not exist any more".into(),
    };
    let message = format!("the label {label} was moved meanwhile: it {place}");
    Err(Error::conflict("label_moved", message))
}

pub(super) fn delete(tx: &mut Tx, req: &Req<(), LabelQuery>) -> Result<Deleted> {
    let LabelQuery { registry_ref, prompt_name, artifact_type, label, from } = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), registry_ref)?;
    let id = ArtifactId::parse(&registry, *artifact_type, prompt_name)?;
    let old: Artifact = tx.fetch(&id)?;
    let no_such = || Error::no_such("label").at("label");
    let label = Label::parse(label.as_str()).map_err(|_| no_such())?;
    let mut labels = old.labels.clone();
    let before = labels.remove(&label).ok_or_else(no_such)?;
    if let Some(from) = from {
        require_at(&old, &label, &Nullable::Set(from.clone()))?;
    }
    let versions = [Some(&before), None];
    label_history::record(tx, req, &id, &label, versions)?;
    let about = label_history::audited(&registry, &id, &label, versions);
    set_labels(tx, &old, labels, Some(req.caller().user()))?;
    Ok(Deleted::new(label).about(about))
}

/// The label that a request moves, in its registry.
static LABEL: TargetFinder = TargetFinder {
    arguments: &["registryRef", "label"],
    find: |view, hint| {
        let registry = registries::registry_target(view, hint.target("registryRef"))?;
        let label = hint.target("label").map(String::from);
        Ok(registry.map(|registry| ScopeTarget { label, ..registry }))
    },
};

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    const LABELS: &str = "/registries/artifacts/labels";
    let source = OrgSource::Named(&registries::BY_REFERENCE);
    vec![
        Route::patch(LABELS, MEMBER, "artifact_label.move", op::write(set))
            .org_source(source)
            .needs_for(ScopeName::LabelMove, &LABEL)
            .about("Set or move a label"),
        Route::delete(LABELS, MEMBER, "artifact_label.delete", op::write(delete))
            .org_source(source)
            .needs_for(ScopeName::LabelMove, &LABEL)
            .about("Remove a label"),
    ]
}
