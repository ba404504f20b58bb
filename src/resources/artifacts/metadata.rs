//! The metadata of versions: apart from the rest of them, like their texts, since look-ups read many
//! versions and it may have 1 MiB.

use std::ops::ControlFlow;

use bincode::{Decode, Encode};

use super::id::{ArtifactId, Model};
use super::version::{VersionRecord, numbers};
use crate::api::Resource;
use crate::base::{Error, Id, JsonMap, Result, Version};
use crate::store::{
    AnyReference, Export, Key, ListSource, Order, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { tables: &[TableInfo::of::<VersionMetadata>()], ..Resource::EMPTY };

crate::base::portable! {
/// The metadata of a version for a model, unless it is empty.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VersionMetadata {
    /// The id of the version; see [`VersionText`](super::version::VersionText).
    version_id: Id<VersionRecord>,
    of: ArtifactId,
    version: Version,
    model: Model,
    metadata: JsonMap,
}
}

static VERSION: Reference<VersionMetadata, VersionRecord> = Reference::cascade(
    &["of.registry", "version_id"],
    |row: &VersionRecord| row.id.to_bytes(),
    |metadata: &VersionMetadata, _| {
        let VersionMetadata { of, version, model, .. } = metadata;
        vec![(of.clone(), numbers(version), model.clone()).to_bytes()]
    },
)
.deferred();

impl Record for VersionMetadata {
    const TABLE: &'static str = "artifact_metadata";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&VERSION];
    type Key = Id<VersionRecord>;
    fn key(&self) -> Self::Key {
        self.version_id
    }
}

/// Writes the metadata of `row`, which is being published.
pub fn add(tx: &mut Tx, row: &VersionRecord, metadata: &JsonMap) -> Result<()> {
    if !row.has_metadata {
        return Ok(());
    }
    let VersionRecord { id: version_id, of, version, model, .. } = row.clone();
    let metadata = metadata.clone();
    tx.insert(&VersionMetadata { version_id, of, version, model, metadata })
}

/// Returns the metadata of a version.
pub fn get(view: &View, row: &VersionRecord) -> Result<JsonMap> {
    get_sized(view, row).map(|(_, metadata)| metadata)
}

/// Returns the metadata of a version, and its stored size in bytes.
pub fn get_sized(view: &View, row: &VersionRecord) -> Result<(usize, JsonMap)> {
    if !row.has_metadata {
        return Ok((0, JsonMap::default()));
    }
    let mut found = None;
    let prefix = row.id.to_bytes();
    view.for_each_sized(ListSource::TABLE, &prefix, Order::Ascending, |size, record| {
        let VersionMetadata { metadata, .. } = record;
        found = Some((size, metadata));
        Ok(ControlFlow::Break(()))
    })?;
    found.ok_or_else(|| Error::internal("a version has no metadata"))
}
