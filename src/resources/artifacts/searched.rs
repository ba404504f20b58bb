//! The texts that a search of the organization looks at: of each artifact that of its latest version, and
//! those of versions with a label.

use std::ops::ControlFlow;

use super::artifact::{Artifact, BY_CHANGE};
use super::id::{ArtifactId, generic};
use super::version::{VersionRecord, VersionText, numbers};
use crate::base::{Id, Prompt, Result, Version};
use crate::resources::registries::Registry;
use crate::store::{ListSource, Order, View};

/// Of each artifact so many versions are looked at: the latest, and the highest ones with a label.
const MAX_VERSIONS: usize = 5;

/// A text of an artifact, as it was published.
pub struct SearchedText {
    pub of: ArtifactId,
    pub version: Version,
    pub source: Prompt,
    /// What was read for it.
    pub bytes: usize,
}

/// Calls `each` with the texts of a registry, those of the artifact that was changed last first, until it
/// stops. Of a version it is the text for every model or, if there is none, that of the first model.
pub fn each_text(
    view: &View,
    registry: Id<Registry>,
    mut each: impl FnMut(SearchedText) -> Result<ControlFlow<()>>,
) -> Result<()> {
    view.for_each(&BY_CHANGE, &registry, Order::Descending, |artifact: Artifact| {
        for version in versions(&artifact) {
            let Some(text) = text(view, &artifact.id, version)? else { continue };
            if each(text)?.is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    })
}

/// The versions that are looked at, the latest first.
fn versions(artifact: &Artifact) -> Vec<&Version> {
    let mut labelled: Vec<&Version> = artifact.labels.values().collect();
    labelled.push(&artifact.latest_version);
    labelled.sort_by_key(|version| std::cmp::Reverse(version.numbers()));
    labelled.dedup_by_key(|version| version.numbers());
    labelled.truncate(MAX_VERSIONS);
    labelled
}

fn text(view: &View, of: &ArtifactId, version: &Version) -> Result<Option<SearchedText>> {
    let place = (of.clone(), numbers(version));
    let row: Option<VersionRecord> = view.get(&(place.0.clone(), place.1, generic()))?;
    let first = || view.first::<VersionRecord>(ListSource::TABLE, &place, Order::Ascending);
    let Some(row) = row.map_or_else(first, |row| Ok(Some(row)))? else { return Ok(None) };
    let Some(texts) = view.get::<VersionText>(&row.id)? else { return Ok(None) };
    let bytes = texts.bytes();
    let VersionText { source, .. } = texts;
    Ok(Some(SearchedText { of: row.of, version: row.version, source, bytes }))
}
