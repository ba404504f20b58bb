//! Whether a change still holds: who asked for it may still move the label, the label and the version
//! are as they were, and the label takes no more approvals than were asked for.

use serde_json::{Value, json};

use super::super::artifact::Artifact;
use super::super::id::ArtifactId;
use super::super::label_change::{LabelChange, LabelChangeInfo};
use super::super::label_moves::has_room;
use super::super::version::versions_at;
use crate::auth::{Caller, present_caller};
use crate::base::{Result, Version, canonical};
use crate::resources::registries::{self, ProtectedLabel};
use crate::store::View;

/// Returns the representation of a change.
pub fn info(view: &View, change: LabelChange) -> Result<LabelChangeInfo> {
    let obstacle = obstacle(view, &change)?;
    Ok(LabelChangeInfo::new(change, obstacle))
}

/// Returns the hash of what a version says: of its texts for all models, as they were published. A
/// version that was deleted and published again has another one. `None` if there is no such version.
pub fn content_hash(view: &View, of: &ArtifactId, version: &Version) -> Result<Option<String>> {
    let rows = versions_at(view, of, version)?;
    let texts: Value = rows
        .iter()
        .map(|row| json!({"model": row.model, "id": row.id, "hash": row.hash}))
        .collect();
    Ok((!rows.is_empty()).then(|| blake3::hash(canonical(&texts).as_bytes()).to_string()))
}

/// Why a pending change cannot be approved any more; `None` if it can, or has ended.
pub fn obstacle(view: &View, change: &LabelChange) -> Result<Option<String>> {
    if !change.is_pending() {
        return Ok(None);
    }
    let why = match moved(view, change)? {
        None => forbidden(view, change)?,
        moved => moved,
    };
    Ok(why)
}

/// Says whether label or version are other than they were, or the label has no room any more.
fn moved(view: &View, change: &LabelChange) -> Result<Option<String>> {
    let artifact = view.get::<Artifact>(&change.of)?;
    let is_there = |artifact: &Artifact| artifact.labels.get(&change.label) == change.from.as_ref();
    let Some(artifact) = artifact.filter(is_there) else {
        return Ok(Some("the label is not where it was any more".into()));
    };
    if !has_room(&artifact, &change.label, change.to.as_ref()) {
        return Ok(Some("the artifact has as many labels as it may".into()));
    }
    let Some(to) = &change.to else { return Ok(None) };
    let hash = content_hash(view, &change.of, to)?;
    Ok(match hash {
        None => Some(format!("the version {to} does not exist any more")),
        hash if hash != change.content_hash => {
            Some(format!("the version {to} does not say what it did"))
        }
        _ => None,
    })
}

/// Says whether the label is protected otherwise than it was, or from who asked.
fn forbidden(view: &View, change: &LabelChange) -> Result<Option<String>> {
    let asker = present_caller(view, change.asked_by, change.sponsor, change.created_at)?;
    let gone = || Some("who asked for it may not move the label any more".to_string());
    let Some(asker) = asker else { return Ok(gone()) };
    let Some(registry) = registries::find_by_id(view, change.of.registry)? else {
        return Ok(gone());
    };
    if registry.open_if_usable(view, &asker)?.is_none() {
        return Ok(gone());
    }
    // A label that is not protected any more takes less than was asked for.
    match registries::protection(view, change.of.registry, &change.label)? {
        Some(protection) if !protection.permits(&asker) => Ok(gone()),
        Some(protection) if takes_more(change, &protection, &asker) => {
            Ok(Some("the label takes other approvals than it did".into()))
        }
        _ => Ok(None),
    }
}

/// Whether the approvals that a change waits for are not enough for the present protection.
fn takes_more(change: &LabelChange, protection: &ProtectedLabel, asker: &Caller) -> bool {
    let Some(policy) = &protection.approvals else { return false };
    policy.frozen_for(asker).is_none_or(|present| !change.approvals.implies(&present))
}
