//! The texts that a search of the organization looks at: of each artifact that of its latest version, and
//! those of versions with a label.

use std::ops::ControlFlow;

use super::artifact::{Artifact, BY_CHANGE};
use super::id::{ArtifactId, generic};
use super::version::{VersionRecord, VersionText, numbers};
use crate::base::{Id, Prompt, Result, Version};
use crate::resources::registries::Registry;
use crate::store::{Key as _, ListSource, Order, View};

/// Of each artifact so many versions are looked at: the latest, and the highest ones with a label.
const MAX_VERSIONS: usize = 5;

/// A text of an artifact, as it was published.
pub struct SearchedText {
    pub of: ArtifactId,
    pub version: Version,
    pub source: Prompt,
    /// What was read for it.
    bytes: usize,
}

/// How much is to be read, or was.
#[derive(Clone, Copy)]
pub struct Amount {
    /// The bytes of artifacts and of texts, as they are stored.
    pub bytes: usize,
    pub texts: usize,
}

impl Amount {
    /// Whether nothing may be read any more.
    pub fn is_none(self) -> bool {
        self.bytes == 0 || self.texts == 0
    }

    /// The part of each of so many, rounded up.
    pub fn share(self, count: usize) -> Self {
        Amount { bytes: self.bytes.div_ceil(count), texts: self.texts.div_ceil(count) }
    }

    /// What is left of it.
    pub fn without(self, read: Self) -> Self {
        Amount {
            bytes: self.bytes.saturating_sub(read.bytes),
            texts: self.texts.saturating_sub(read.texts),
        }
    }
}

/// Calls `each` with the texts of a registry, those of the artifact that was changed last first, until so
/// much is read. Of a version it is the text for every model or, if there is none, that of the first model.
/// Returns what was read: the last record may exceed `at_most`.
pub fn each_text(
    view: &View,
    registry: Id<Registry>,
    at_most: Amount,
    mut each: impl FnMut(SearchedText),
) -> Result<Amount> {
    let mut read = Amount { bytes: 0, texts: 0 };
    let (source, prefix) = (ListSource::from(&BY_CHANGE), registry.to_bytes());
    view.for_each_sized(source, &prefix, Order::Descending, |size, artifact: Artifact| {
        read.bytes += size;
        for version in versions(&artifact) {
            if at_most.without(read).is_none() {
                return Ok(ControlFlow::Break(()));
            }
            let Some(text) = text(view, &artifact.id, version)? else { continue };
            read.bytes += text.bytes;
            read.texts += 1;
            each(text);
        }
        let is_read = at_most.without(read).is_none();
        Ok(if is_read { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
    })?;
    Ok(read)
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
