//! The records of versions: each for one model, its texts and metadata apart from the rest, so that
//! lists and look-ups do not read what they do not show; and the references derived from them, so that no
//! request has to search every version: which version imports a promptlet and which one uses a
//! variable. References are written and removed with their version.
//!
//! A version is identified by its three numbers: `1.0.0` and `01.0.0` are the same version.

use std::collections::BTreeMap;

use bincode::{Decode, Encode};

use super::id::{ArtifactId, Model};
use crate::api::Resource;
use crate::auth::{Restricted, User};
use crate::base::{ArtifactName, Id, Prompt, Result, Time, VariableName, Version, VersionMessage};
use crate::resources::registries::{ArtifactType, Registry};
use crate::store::{
    AnyIndex, AnyReference, Export, Index, Key, ListSource, Order, Record, Reference, TableInfo,
    Tx, View, upgrade_shorter,
};

pub(super) const RESOURCE: Resource = Resource {
    tables: &[
        TableInfo::of::<VersionRecord>(),
        TableInfo::of::<VersionText>(),
        TableInfo::of::<ImportReference>(),
        TableInfo::of::<VariableReference>(),
    ],
    ..Resource::EMPTY
};

// ── Records ──────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A version for one model, without its texts and metadata.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VersionRecord {
    pub of: ArtifactId,
    pub version: Version,
    /// The model that the text is for.
    pub model: Model,
    pub id: Id<VersionRecord>,
    /// Whether its author gave it metadata, which is stored apart.
    pub has_metadata: bool,
    /// The hash of everything that was published, as answers show it.
    pub hash: String,
    /// The direct imports of its source.
    pub imports: Vec<ResolvedImport>,
    /// The variables of its compiled text, in order of first appearance.
    pub variables: Vec<String>,
    /// The longest chain of imports below it: 0 without any.
    pub depth: u32,
    /// Every promptlet in its compiled text, imports of imports included.
    pub transitive_imports: Vec<ArtifactName>,
    pub published_by: Id<User>,
    pub published_at: Time,
    /// What changed and why, as who published it says.
    pub message: Option<VersionMessage>,
}
}

crate::base::portable! {
/// An import with the version that it resolved to.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ResolvedImport {
    /// The promptlet.
    pub name: ArtifactName,
    /// The range, as written; `*` if there was none.
    pub range: String,
    /// The version that the range resolved to.
    pub version: Version,
}
}

/// A version's three numbers, which sort as versions do: the form of a version in keys.
pub type Numbers = (u64, u64, u64);

/// Returns the numbers of a version.
pub fn numbers(version: &Version) -> Numbers {
    version.numbers().into()
}

/// Versions by model, to find the highest in a range. It is unique because its keys are the keys of
/// the table in another order; duplicates are refused before they reach it.
pub static BY_MODEL: Index<VersionRecord, ((ArtifactId, Model), Numbers)> =
    Index::unique("artifact_versions.by_model", "version_exists", VERSION_EXISTS, |row| {
        Some(((row.of.clone(), row.model.clone()), numbers(&row.version)))
    });

/// The message of `version_exists`.
pub const VERSION_EXISTS: &str =
    "this version is published already; published versions do not change, so choose a higher one";

static REGISTRY: Reference<VersionRecord, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |row: &VersionRecord, _| vec![row.of.registry.to_bytes()],
)
.deferred();

impl Record for VersionRecord {
    const TABLE: &'static str = "artifact_versions";
    const NOUN: &'static str = "version";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_MODEL];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const VERSION: u8 = 2;
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("published_by", "history: the user who published it may have left")];
    type Key = (ArtifactId, Numbers, Model);
    fn key(&self) -> Self::Key {
        (self.of.clone(), numbers(&self.version), self.model.clone())
    }
    fn upgrade(version: u8, body: &[u8]) -> Result<Self> {
        // Without a message.
        upgrade_shorter(version, 1, body)
    }
}

crate::base::portable! {
/// The texts of a version for a model.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VersionText {
    /// The id of the version, which is the key: a version that is published again has another one,
    /// so the texts of a deleted version can be removed later.
    version_id: Id<VersionRecord>,
    of: ArtifactId,
    version: Version,
    model: Model,
    /// As it was published.
    pub source: Prompt,
    /// With its imports inserted; none if that equals the source.
    compiled: Option<String>,
}
}

impl VersionText {
    /// The record of the texts of `row`.
    pub fn new(row: &VersionRecord, source: Prompt, compiled: String) -> Self {
        let compiled = (compiled != source.as_str()).then_some(compiled);
        let VersionRecord { id: version_id, of, version, model, .. } = row.clone();
        VersionText { version_id, of, version, model, source, compiled }
    }

    /// The compiled text.
    pub fn compiled(&self) -> &str {
        self.compiled.as_deref().unwrap_or(&self.source)
    }

    /// The size of both texts, in bytes.
    pub fn bytes(&self) -> usize {
        self.source.len() + self.compiled.as_ref().map_or(0, String::len)
    }
}

static VERSION: Reference<VersionText, VersionRecord> = Reference::cascade(
    &["of.registry", "version_id"],
    |row: &VersionRecord| row.id.to_bytes(),
    |text: &VersionText, _| {
        vec![(text.of.clone(), numbers(&text.version), text.model.clone()).to_bytes()]
    },
)
.deferred();

impl Record for VersionText {
    const TABLE: &'static str = "artifact_texts";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&VERSION];
    type Key = Id<VersionRecord>;
    fn key(&self) -> Self::Key {
        self.version_id
    }
}

/// Returns the records of a version: one for each model that has a text.
pub fn versions_at(view: &View, id: &ArtifactId, version: &Version) -> Result<Vec<VersionRecord>> {
    view.all(ListSource::TABLE, &(id.clone(), numbers(version)))
}

/// Returns the highest version of an artifact, for any model.
pub fn highest(view: &View, id: &ArtifactId) -> Result<Option<Version>> {
    let first = view.first(ListSource::<VersionRecord>::TABLE, id, Order::Descending)?;
    Ok(first.map(|row| row.version))
}

// ── Imports ──────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A reference from a published version to a version of a promptlet that it imports.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct ImportReference {
    pub promptlet: ArtifactId,
    /// The version that the range resolved to.
    pub resolved: Version,
    /// The range, as written.
    pub range: String,
    /// The type of the importing artifact, which is in the same registry.
    pub kind: ArtifactType,
    /// The name of the importing artifact.
    pub name: ArtifactName,
    /// The importing version.
    pub version: Version,
    /// The id of the importing version, which orders references by the time of publication.
    by: Id<VersionRecord>,
}
}

/// Import references by the imported version.
pub static BY_RESOLVED: Index<ImportReference, (ArtifactId, Numbers)> =
    Index::non_unique("artifact_imports.by_version", |reference| {
        Some((reference.promptlet.clone(), numbers(&reference.resolved)))
    });

/// An imported version is deleted only after every version that imports it, unless both are removed
/// with their registry.
static IMPORTED: Reference<ImportReference, VersionRecord> = Reference::restrict(
    &["promptlet.registry"],
    "version_imported",
    "this version is imported by another artifact; see its dependents",
    |row: &VersionRecord| (row.of.clone(), numbers(&row.version)).to_bytes(),
    |reference: &ImportReference, _| {
        vec![(reference.promptlet.clone(), numbers(&reference.resolved)).to_bytes()]
    },
)
.by(&BY_RESOLVED);

static REGISTRY_OF_IMPORT: Reference<ImportReference, Restricted<Registry>> = Reference::cascade(
    &["promptlet.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |reference: &ImportReference, _| vec![reference.promptlet.registry.to_bytes()],
)
.deferred();

/// A version is deleted with its texts for all models, so that its references go with the first.
static IMPORTED_BY: Reference<ImportReference, VersionRecord> = Reference::derived(
    &["by"],
    |row: &VersionRecord| imports_of(row).values().map(Record::key).collect(),
    |reference: &ImportReference, _| {
        vec![(reference.importer(), numbers(&reference.version)).to_bytes()]
    },
);

impl Record for ImportReference {
    const TABLE: &'static str = "artifact_imports";
    const EXPORT: Export<Self> = Export::WHOLE;
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_RESOLVED];
    const REFERENCES: &'static [&'static dyn AnyReference] =
        &[&IMPORTED, &REGISTRY_OF_IMPORT, &IMPORTED_BY];
    type Key = (ArtifactId, Id<VersionRecord>, Numbers);
    fn key(&self) -> Self::Key {
        (self.promptlet.clone(), self.by, numbers(&self.resolved))
    }
}

impl ImportReference {
    fn importer(&self) -> ArtifactId {
        let (kind, name) = (self.kind, self.name.clone());
        ArtifactId { registry: self.promptlet.registry, kind, name }
    }

    /// Describes the reference, to compare references with those of the versions.
    #[cfg(test)]
    pub fn to_text(&self) -> String {
        let (of, version) = (self.importer(), &self.version);
        format!("{of:?} {version} has {} {}", self.promptlet.name, self.resolved)
    }
}

/// Returns the import references of `row`, one for each imported version: of two ranges that resolve
/// to it the first is kept.
fn imports_of(row: &VersionRecord) -> BTreeMap<(ArtifactName, Numbers), ImportReference> {
    let mut references = BTreeMap::new();
    for import in &row.imports {
        let (kind, name) = (ArtifactType::Promptlet, import.name.clone());
        references.entry((name.clone(), numbers(&import.version))).or_insert_with(|| {
            ImportReference {
                promptlet: ArtifactId { registry: row.of.registry, kind, name },
                resolved: import.version.clone(),
                range: import.range.clone(),
                kind: row.of.kind,
                name: row.of.name.clone(),
                version: row.version.clone(),
                by: row.id,
            }
        });
    }
    references
}

/// Writes the import references of `row`, which is being published, except those that the same
/// version has already by its text for another model.
pub fn add_imports(tx: &mut Tx, row: &VersionRecord) -> Result<()> {
    let mut new = imports_of(row);
    for other in versions_at(&tx.view(), &row.of, &row.version)? {
        if other.id != row.id {
            for known in imports_of(&other).keys() {
                new.remove(known);
            }
        }
    }
    new.values().try_for_each(|reference| tx.insert(reference))
}

// ── Variables ────────────────────────────────────────────────────────────────

crate::base::portable! {
/// A reference from a published version to a variable that its text for some model uses.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VariableReference {
    pub variable: VariableName,
    pub of: ArtifactId,
    pub version: Version,
}
}

static USED_BY: Reference<VariableReference, VersionRecord> = Reference::derived(
    &["of.registry"],
    |row: &VersionRecord| variables_of(row).map(|reference| reference.key()).collect(),
    |reference: &VariableReference, _| {
        vec![(reference.of.clone(), numbers(&reference.version)).to_bytes()]
    },
);

impl Record for VariableReference {
    const TABLE: &'static str = "artifact_variables";
    const EXPORT: Export<Self> = Export::WHOLE;
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&USED_BY];
    type Key = (VariableName, ArtifactId, Numbers);
    fn key(&self) -> Self::Key {
        (self.variable.clone(), self.of.clone(), numbers(&self.version))
    }
}

/// Returns the variable references of `row`.
pub fn variables_of(row: &VersionRecord) -> impl Iterator<Item = VariableReference> {
    row.variables.iter().map(|variable| VariableReference {
        // Compiling accepts only valid names of variables.
        variable: VariableName::from_trusted(variable.clone()),
        of: row.of.clone(),
        version: row.version.clone(),
    })
}

/// Writes the variable references of `row`, which is being published.
pub fn add_variables(tx: &mut Tx, row: &VersionRecord) -> Result<()> {
    variables_of(row).try_for_each(|reference| tx.put(&reference))
}
