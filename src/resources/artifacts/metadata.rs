//! The metadata of versions: apart from the rest of them, like their texts, since look-ups read many
//! versions and it may have 1 MiB.

use bincode::{Decode, Encode};

use super::id::{ArtifactId, Model};
use super::version::{Numbers, VersionRecord, numbers};
use crate::api::Resource;
use crate::base::{Error, JsonMap, Result, Version};
use crate::store::{AnyReference, Key, Record, Reference, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<VersionMetadata>()], ..Resource::EMPTY };

/// The metadata of a version for a model, unless it is empty.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VersionMetadata {
    of: ArtifactId,
    version: Version,
    model: Model,
    metadata: JsonMap,
}

static VERSION: Reference<VersionMetadata, VersionRecord> = Reference::cascade(
    &["of.registry"],
    |row: &VersionRecord| row.key().to_bytes(),
    |metadata: &VersionMetadata, _| vec![metadata.key().to_bytes()],
);

impl Record for VersionMetadata {
    const TABLE: &'static str = "artifact_metadata";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&VERSION];
    type Key = (ArtifactId, Numbers, Model);
    fn key(&self) -> Self::Key {
        (self.of.clone(), numbers(&self.version), self.model.clone())
    }
}

/// Writes the metadata of `row`, which is being published.
///
/// # Errors
/// If the store fails.
pub fn add(tx: &mut Tx, row: &VersionRecord, metadata: &JsonMap) -> Result<()> {
    if !row.has_metadata {
        return Ok(());
    }
    let VersionRecord { of, version, model, .. } = row.clone();
    tx.insert(&VersionMetadata { of, version, model, metadata: metadata.clone() })
}

/// Returns the metadata of a version.
///
/// # Errors
/// If the store fails.
pub fn get(view: &View, row: &VersionRecord) -> Result<JsonMap> {
    if !row.has_metadata {
        return Ok(JsonMap::default());
    }
    let found: Option<VersionMetadata> = view.get(&row.key())?;
    found.map(|found| found.metadata).ok_or_else(|| Error::internal("a version has no metadata"))
}
