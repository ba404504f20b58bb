//! Labels: names of an artifact's versions that are moved from one to the next, such as
//! `production`. Moving one changes what everybody who asks for it gets, at once.

use schemars::JsonSchema;
use serde::Deserialize;

use super::artifact::{Artifact, ArtifactInfo, set_labels};
use super::{ArtifactId, ArtifactType, versions};
use crate::api::{Deleted, Input, Req, Resource, Route, Scope, op};
use crate::auth::MEMBER;
use crate::base::{Error, Label, Result};
use crate::resources::registries;
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

/// An artifact has at most 1,000 labels: each of its answers shows all of them, and a read by label
/// goes through all of them.
const MAX_LABELS: usize = 1000;

// ── What callers send ────────────────────────────────────────────────────────

/// A label and the version that it shall stand on.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SetLabel {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// The label; it need not be there yet.
    label: Label,
    /// Exactly a version.
    version: String,
}

impl Input for SetLabel {}

/// A label to take off.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LabelQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// The label.
    label: String,
}

impl Input for LabelQuery {}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn put(tx: &mut Tx, req: &Req<(), SetLabel>) -> Result<ArtifactInfo> {
    let SetLabel { registry_ref, prompt_name, artifact_type, label, version } = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), registry_ref)?;
    let id = ArtifactId::named(&registry, *artifact_type, prompt_name)?;
    let old: Artifact = tx.fetch(&id)?;
    // As it was published, which is how it is answered.
    let version = versions::named(&tx.view(), &id, version)?.swap_remove(0).version;
    if old.labels.get(label) == Some(&version) {
        return Ok(old.into());
    }
    let mut labels = old.labels.clone();
    labels.insert(label.clone(), version);
    if labels.len() > MAX_LABELS {
        return Err(Error::conflict(
            "labels_full",
            "an artifact has at most 1,000 labels; take one off that is not needed",
        ));
    }
    set_labels(tx, &old, labels).map(ArtifactInfo::from)
}

pub(super) fn delete(tx: &mut Tx, req: &Req<(), LabelQuery>) -> Result<Deleted> {
    let LabelQuery { registry_ref, prompt_name, artifact_type, label } = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), registry_ref)?;
    let id = ArtifactId::named(&registry, *artifact_type, prompt_name)?;
    let old: Artifact = tx.fetch(&id)?;
    let label = Label::parse(label.as_str()).map_err(|_| Error::not_found())?;
    let mut labels = old.labels.clone();
    labels.remove(&label).ok_or_else(Error::not_found)?;
    set_labels(tx, &old, labels)?;
    Ok(Deleted::new(label))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    const LABELS: &str = "/registries/artifacts/labels";
    let scope = Scope::Named(&registries::BY_REFERENCE);
    vec![
        Route::patch(LABELS, MEMBER, "artifact_label.move", op::write(put))
            .scope(scope)
            .about("Put a label on a version, or move it there"),
        Route::delete(LABELS, MEMBER, "artifact_label.delete", op::write(delete))
            .scope(scope)
            .about("Take a label off"),
    ]
}
