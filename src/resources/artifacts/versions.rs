//! Versions of an artifact, each perhaps with texts of its own for some models, and how one of them
//! is found.
//!
//! What lists and look-ups need lies apart from the texts, so that neither reads what it does not
//! show. A version is what its three numbers are: `1.0.0` and `01.0.0` are one.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::artifact::Artifact;
use super::publishing::ArtifactVersion;
use super::{ArtifactId, ArtifactType, GENERIC, Model, dependents, require_readable, variables};
use crate::api::{Input, Req, Resource, Route, Scope, op};
use crate::auth::{MEMBER_OR_PUBLIC, Restricted, User};
use crate::base::{
    ArtifactName, Error, Id, JsonMap, Prompt, Range, Result, Selector, StringMap, Time, Version,
};
use crate::resources::registries::{self, Registry};
use crate::store::{
    AnyIndex, AnyReference, Index, Key, Order, Page, Record, Reference, Source, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<VersionRecord>(), TableInfo::of::<VersionText>()],
    ..Resource::EMPTY
};

// ── Records ──────────────────────────────────────────────────────────────────

/// A version for a model: all but its texts.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VersionRecord {
    /// Of which artifact.
    pub of: ArtifactId,
    /// The version.
    pub version: Version,
    /// For which model.
    pub model: Model,
    /// Its id.
    pub id: Id<ArtifactVersion>,
    /// What its author says of it.
    pub metadata: JsonMap,
    /// See [`ArtifactVersion::hash`].
    pub hash: String,
    /// What its source imports itself.
    pub imports: Vec<Imported>,
    /// The variables of its compiled text, in order of first appearance.
    pub variables: Vec<String>,
    /// The longest chain of imports below it: 0 without any.
    pub depth: u32,
    /// Every promptlet that is in its compiled text.
    pub brings: Vec<ArtifactName>,
    /// Who published it.
    pub published_by: Id<User>,
    /// When.
    pub published_at: Time,
}

/// An import, as it was resolved.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Imported {
    /// The promptlet.
    pub name: ArtifactName,
    /// The range asked for, as written; `*` where none was.
    pub range: String,
    /// The version found.
    pub version: Version,
}

/// A version's three numbers, which sort as versions do.
pub type Numbers = (u64, u64, u64);

/// The numbers of a version.
pub fn numbers(version: &Version) -> Numbers {
    version.numbers().into()
}

/// Versions by model. Unique only because a key of it is a key of the table in another order: what
/// is there already is refused before.
static BY_MODEL: Index<VersionRecord, ((ArtifactId, Model), Numbers)> =
    Index::unique("artifact_versions.by_model", "version_exists", VERSION_EXISTS, |row| {
        Some(((row.of.clone(), row.model.clone()), numbers(&row.version)))
    });

const VERSION_EXISTS: &str =
    "this version is published already; published versions do not change, so choose a higher one";

static REGISTRY: Reference<VersionRecord, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |row: &VersionRecord, _| vec![row.of.registry.to_bytes()],
)
.deferred();

impl Record for VersionRecord {
    const TABLE: &'static str = "artifact_versions";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_MODEL];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("published_by", "history: who published it may have left")];
    type Key = (ArtifactId, Numbers, Model);
    fn key(&self) -> Self::Key {
        (self.of.clone(), numbers(&self.version), self.model.clone())
    }
    fn removed(&self, tx: &mut Tx) -> Result<()> {
        dependents::forget(tx, self)?;
        variables::forget(tx, self)
    }
}

/// The texts of a version for a model.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct VersionText {
    of: ArtifactId,
    version: Version,
    model: Model,
    /// As it was published.
    pub source: Prompt,
    /// With its imports put in; none where that is the source itself.
    compiled: Option<String>,
}

impl VersionText {
    /// The texts of `row`.
    pub fn new(row: &VersionRecord, source: Prompt, compiled: String) -> Self {
        let compiled = (compiled != source.as_str()).then_some(compiled);
        let VersionRecord { of, version, model, .. } = row.clone();
        VersionText { of, version, model, source, compiled }
    }

    /// The compiled text.
    pub fn compiled(&self) -> &str {
        self.compiled.as_deref().unwrap_or(&self.source)
    }

    /// How many bytes it has in all.
    pub fn bytes(&self) -> usize {
        self.source.len() + self.compiled.as_ref().map_or(0, String::len)
    }
}

static VERSION: Reference<VersionText, VersionRecord> = Reference::cascade(
    &["of.registry"],
    |row: &VersionRecord| row.key().to_bytes(),
    |text: &VersionText, _| vec![text.key().to_bytes()],
);

impl Record for VersionText {
    const TABLE: &'static str = "artifact_texts";
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&VERSION];
    type Key = (ArtifactId, Numbers, Model);
    fn key(&self) -> Self::Key {
        (self.of.clone(), numbers(&self.version), self.model.clone())
    }
}

// ── Finding one ──────────────────────────────────────────────────────────────

/// The version that a request's optional text means; none was sent: the newest.
pub fn selector(version: Option<&str>) -> Selector {
    version.map_or(Selector::Newest, Selector::parse)
}

/// The version that a selector means for a model
/// (reference: registries-and-templates, "Selecting a version"): of all there are, only those count
/// that have a text for the model or a generic one. Of equal versions the model's own is taken.
///
/// # Errors
/// If the store fails.
pub fn meant(
    view: &View,
    id: &ArtifactId,
    selector: &Selector,
    model: Option<&str>,
) -> Result<Option<VersionRecord>> {
    let range = match selector {
        Selector::Nothing => return Ok(None),
        Selector::Newest => Range::ANY,
        Selector::Range(range) => *range,
        Selector::Label(label) => {
            let Some(artifact) = view.get::<Artifact>(id)? else { return Ok(None) };
            let labelled = artifact.labels.get(label).and_then(|version| Range::parse(version));
            let Some(range) = labelled else { return Ok(None) };
            range
        }
    };
    highest_for(view, id, range, model)
}

/// The highest version in a range that has a text for the model, or a generic one.
///
/// # Errors
/// If the store fails.
pub fn highest_for(
    view: &View,
    id: &ArtifactId,
    range: Range,
    model: Option<&str>,
) -> Result<Option<VersionRecord>> {
    let generic = highest_of(view, id, range, GENERIC)?;
    let own = match model.filter(|model| *model != GENERIC) {
        Some(model) => highest_of(view, id, range, model)?,
        None => None,
    };
    let found = match (own, generic) {
        // Numbers come before the model in a key; at equal numbers its own text wins.
        (Some(own), Some(generic)) if generic.1 > own.1 => Some(generic),
        (Some(own), _) => Some(own),
        (None, generic) => generic,
    };
    found.map(|key| view.fetch(&key)).transpose()
}

/// The key of the highest version in a range for this very model.
fn highest_of(
    view: &View,
    id: &ArtifactId,
    range: Range,
    model: &str,
) -> Result<Option<<VersionRecord as Record>::Key>> {
    let Ok(model) = Model::parse(model) else { return Ok(None) };
    let of_model = (id.clone(), model);
    let from = (of_model.clone(), Numbers::from(range.from()));
    let mut found = None;
    let take = |_, key| {
        found = Some(key);
        Ok(ControlFlow::Break(()))
    };
    match range.to() {
        Some(to) => {
            let to = (of_model, Numbers::from(to));
            view.entries(&BY_MODEL, &from, &to, Order::Descending, take)?;
        }
        None => {
            // Behind all numbers: these are 24 bytes.
            let to = (of_model, [u8::MAX; 25]);
            view.entries(&BY_MODEL, &from, &to, Order::Descending, take)?;
        }
    }
    Ok(found)
}

/// The texts of a version.
///
/// # Errors
/// If the store fails.
pub fn text(view: &View, row: &VersionRecord) -> Result<VersionText> {
    view.get(&row.key())?.ok_or_else(|| Error::internal("a version has no text"))
}

/// What is published under a version, for every model that has a text of its own.
///
/// # Errors
/// If the store fails.
pub fn versions_at(view: &View, id: &ArtifactId, version: &Version) -> Result<Vec<VersionRecord>> {
    view.all(Source::TABLE, &(id.clone(), numbers(version)))
}

/// The same, by a text of a request that must be exactly a version.
///
/// # Errors
/// 404 if there is none.
pub fn named(view: &View, id: &ArtifactId, version: &str) -> Result<Vec<VersionRecord>> {
    let version = Version::parse(version).map_err(|_| Error::not_found())?;
    match versions_at(view, id, &version)? {
        rows if rows.is_empty() => Err(Error::not_found()),
        rows => Ok(rows),
    }
}

/// The highest version, of whatever model.
///
/// # Errors
/// If the store fails.
pub fn highest(view: &View, id: &ArtifactId) -> Result<Option<Version>> {
    let first = view.first(Source::<VersionRecord>::TABLE, id, Order::Descending)?;
    Ok(first.map(|row| row.version))
}

/// Refuses a version that is there for this model already.
///
/// # Errors
/// 409.
pub fn require_new(view: &View, id: &ArtifactId, version: &Version, model: &Model) -> Result<()> {
    match view.has::<VersionRecord>(&(id.clone(), numbers(version), model.clone()))? {
        false => Ok(()),
        true => Err(Error::conflict("version_exists", VERSION_EXISTS)),
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// Which artifact's versions to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The artifact's name.
    prompt_name: String,
    /// Its type; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
}

impl Input for VersionFilter {}

/// A version for a model, without its texts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactVersionRow {
    /// Its id.
    pub id: Id<ArtifactVersion>,
    /// Its registry: `<orgSlug>/<registrySlug>`.
    pub registry_ref: String,
    /// Its artifact's type.
    pub artifact_type: ArtifactType,
    /// Its artifact's name.
    pub name: ArtifactName,
    /// The version.
    pub version: Version,
    /// The model that it is for.
    pub model: Model,
    /// What its author says of it.
    pub metadata: JsonMap,
    /// BLAKE3, in lower-case hexadecimal, of the canonical JSON (RFC 8785) of its type, name,
    /// version, model, source and metadata.
    pub hash: String,
    /// The promptlets that it imports itself, each with the version found for it.
    pub imports: StringMap,
    /// The variables in its compiled text, in order of first appearance.
    pub variables: Vec<String>,
    /// Who published it.
    pub published_by: Id<User>,
    /// When.
    pub published_at: Time,
}

impl ArtifactVersionRow {
    /// `row` of the registry with this reference.
    pub fn new(registry_ref: String, row: VersionRecord) -> Self {
        ArtifactVersionRow {
            id: row.id,
            registry_ref,
            artifact_type: row.of.kind,
            name: row.of.name,
            version: row.version,
            model: row.model,
            metadata: row.metadata,
            hash: row.hash,
            imports: imports(&row.imports),
            variables: row.variables,
            published_by: row.published_by,
            published_at: row.published_at,
        }
    }
}

/// Imports as answers have them. Of a promptlet that is imported in two versions, the higher.
pub fn imports(imports: &[Imported]) -> StringMap {
    let mut imports: Vec<_> = imports.iter().collect();
    imports.sort_by_key(|import| numbers(&import.version));
    let pair = |import: &Imported| (import.name.to_string(), import.version.to_string());
    imports.into_iter().map(pair).collect()
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), VersionFilter>) -> Result<Page<ArtifactVersionRow>> {
    let VersionFilter { registry_ref, prompt_name, artifact_type } = &req.input;
    let registry = require_readable(view, req, registry_ref)?;
    let id = ArtifactId::named(&registry, *artifact_type, prompt_name)?;
    view.fetch::<Artifact>(&id)?;
    let reference = registry.reference.clone();
    let page = view.page(Source::TABLE, &id, Order::Descending, &req.page, |_| true)?;
    Ok(page.map(|row| ArtifactVersionRow::new(reference.clone(), row)))
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/registries/artifact-versions",
            MEMBER_OR_PUBLIC,
            "artifact_version.list",
            op::list(list),
        )
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("List the versions of an artifact, the highest first"),
    ]
}
