//! Moving and removing a label: what every way of doing so ends in.

use super::artifact::{Artifact, set_labels};
use super::label_history::{self, Mover};
use crate::base::{Error, Label, Result, Version};
use crate::store::Tx;

/// An artifact has at most 1,000 labels: every representation of it includes all of them, and a read
/// by label searches all of them.
const MAX_LABELS: usize = 1000;

/// Moves a label of `old` to a version, or removes it, and records that.
///
/// # Errors
/// 409 if it is new and the artifact has as many labels as it may.
pub fn move_label(
    tx: &mut Tx,
    old: &Artifact,
    label: &Label,
    to: Option<&Version>,
    by: Mover,
) -> Result<Artifact> {
    require_room(old, label, to)?;
    let mut labels = old.labels.clone();
    let from = match to {
        Some(to) => labels.insert(label.clone(), to.clone()),
        None => labels.remove(label),
    };
    let user = by.user;
    label_history::record(tx, &old.id, label, [from.as_ref(), to], by)?;
    set_labels(tx, old, labels, Some(user))
}

/// Whether an artifact may have a label moved: it has it, or may have one more.
pub fn has_room(artifact: &Artifact, label: &Label, to: Option<&Version>) -> bool {
    to.is_none() || artifact.labels.contains_key(label) || artifact.labels.len() < MAX_LABELS
}

/// # Errors
/// 409 if the label is new and the artifact has as many as it may.
pub fn require_room(artifact: &Artifact, label: &Label, to: Option<&Version>) -> Result<()> {
    if has_room(artifact, label, to) {
        return Ok(());
    }
    Err(Error::conflict(
        "labels_full",
        "an artifact has at most 1,000 labels; remove one that is not needed",
    ))
}
