//! Labels: movable names for an artifact's versions, such as `production`. Moving a label takes
//! effect at once for every client that selects by it. Where it takes approvals, the answer has the
//! change that waits for them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::artifact::{Artifact, ArtifactInfo};
use super::id::ArtifactId;
use super::label_change::LabelChangeInfo;
use super::label_history::Mover;
use super::label_moves::move_label;
use super::version::numbers;
use super::{label_changes, label_history, versions};
use crate::api::audit::WAITS_FOR_APPROVAL;
use crate::api::{
    Deleted, Input, OrgSource, Output, Req, Resource, ResourceRef, Route, TargetFinder, op,
};
use crate::auth::{Caller, MEMBER, ScopeName, ScopeTarget};
use crate::base::{Error, Issue, Label, Nullable, Result, Version};
use crate::resources::governance;
use crate::resources::registries::{self, ArtifactType, ProtectedLabel, Registry};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── What callers send ────────────────────────────────────────────────────────

/// A label, and the version that it is to point to.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "promptName": "release-notes",
        "label": "production", "version": "1.0.0"}],
    "required" = ["registryRef", "promptName", "label", "version"],
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
    /// The exact version; `null` removes the label.
    #[serde(default)]
    version: Nullable<String>,
    /// The version that the label is moved from, `null` for a new label: if it is elsewhere by now,
    /// it is not moved. If absent, it is moved from wherever it is.
    #[serde(default)]
    from: Nullable<Version>,
}

impl Input for SetLabel {
    fn check(&self, issues: &mut Vec<Issue>) {
        if matches!(self.version, Nullable::Absent) {
            issues.push(Issue::new("version", "is required; null removes the label"));
        }
    }
}

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

/// An artifact of which a label was moved, or waits to be.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct MovedArtifact {
    #[serde(flatten)]
    artifact: ArtifactInfo,
    /// The change that waits for approvals, if the label takes some: then it is where it was. Null if it was
    /// moved.
    pending_change: Option<LabelChangeInfo>,
}

impl Output for MovedArtifact {
    fn resource(&self) -> Option<ResourceRef> {
        self.artifact.resource()
    }
}

impl MovedArtifact {
    /// An artifact without a change that waits.
    fn now(artifact: ArtifactInfo) -> Self {
        MovedArtifact { artifact, pending_change: None }
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn set(tx: &mut Tx, req: &Req<(), SetLabel>) -> Result<MovedArtifact> {
    let SetLabel { registry_ref, prompt_name, artifact_type, label, version, from } = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), registry_ref)?;
    let id = ArtifactId::parse(&registry, *artifact_type, prompt_name)?;
    let old: Artifact = tx.fetch(&id)?;
    let to = match version.value() {
        // As it was published, which is how answers show it.
        Some(version) => Some(versions::find(&tx.view(), &id, version)?.swap_remove(0).version),
        None => None,
    };
    require_at(&old, label, from)?;
    if old.labels.get(label) == to.as_ref() {
        // Who may move it says thereby that it stays; for others it is no move.
        let protection = registries::protection(&tx.view(), registry.id, label)?;
        if protection.is_none_or(|protection| protection.permits(req.caller())) {
            label_changes::supersede(tx, &id, label)?;
        }
        return Ok(MovedArtifact::now(old.into()));
    }
    let about = label_history::audited(&registry, &id, label, [old.labels.get(label), to.as_ref()]);
    let protection = movable(&tx.view(), req.caller(), &registry, label)?;
    if let Some(protection) = protection.filter(|protection| protection.approvals.is_some()) {
        let change =
            label_changes::ask(tx, req.caller(), (&registry, &protection), &old, to.as_ref())?;
        let detail = format!("{}, {WAITS_FOR_APPROVAL}", change.step());
        let artifact = ArtifactInfo::from(old).about(about.with_detail(detail));
        let pending_change = Some(label_changes::info(&tx.view(), change)?);
        return Ok(MovedArtifact { artifact, pending_change });
    }
    label_changes::supersede(tx, &id, label)?;
    let moved = move_label(tx, &old, label, to.as_ref(), Mover::of(req.caller()))?;
    Ok(MovedArtifact::now(ArtifactInfo::from(moved).about(about)))
}

/// Returns the protection of a label that the caller may move, by it and by the policies of its registry.
///
/// # Errors
/// 403 otherwise.
pub fn movable(
    view: &View,
    caller: &Caller,
    registry: &Registry,
    label: &Label,
) -> Result<Option<ProtectedLabel>> {
    let protection = registries::require_movable(view, caller, registry, label)?;
    governance::require_protected(view, registry, label, protection.as_ref())?;
    Ok(protection)
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
    let before = old.labels.get(&label).ok_or_else(no_such)?;
    if let Some(from) = from {
        require_at(&old, &label, &Nullable::Set(from.clone()))?;
    }
    let about = label_history::audited(&registry, &id, &label, [Some(before), None]);
    let protection = movable(&tx.view(), req.caller(), &registry, &label)?;
    if protection.is_some_and(|protection| protection.approvals.is_some()) {
        return Err(Error::conflict(
            "approval_required",
            "removing this label takes approvals; ask for that by PATCH \
             /registries/artifacts/labels with version null",
        ));
    }
    label_changes::supersede(tx, &id, &label)?;
    move_label(tx, &old, &label, None, Mover::of(req.caller()))?;
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
