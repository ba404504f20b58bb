//! Versions of an artifact: resolving a selector to one of them, and listing them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::ops::ControlFlow;

use super::artifact::Artifact;
use super::id::{ArtifactId, GENERIC, Model};
use super::metadata;
use super::version::{
    BY_MODEL, Numbers, ResolvedImport, VERSION_EXISTS, VersionRecord, VersionText, numbers,
    versions_at,
};
use crate::api::{Input, OrgSource, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER_OR_PUBLIC, ScopeName, User};
use crate::base::{
    ArtifactName, Error, Id, Issue, JsonMap, Range, Result, Selector, StringMap, Time, Version,
    VersionMessage,
};
use crate::resources::registries::{self, ArtifactType};
use crate::store::{ListSource, Order, Page, Record, View};

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

// ── Resolution ───────────────────────────────────────────────────────────────

/// Reads the selector of a request; if it is absent, the newest version is selected.
pub fn selector(version: Option<&str>) -> Selector {
    version.map_or(Selector::Newest, Selector::parse)
}

/// Resolves a selector to a version for a model
/// (reference: registries-and-templates, "Selecting a version"). Only versions with a text for the
/// model or a generic text count. Of equal versions the one for the model is preferred.
pub fn resolve(
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

/// Returns the highest version in a range that has a text for the model or a generic text.
pub fn highest_for(
    view: &View,
    id: &ArtifactId,
    range: Range,
    model: Option<&str>,
) -> Result<Option<VersionRecord>> {
    if let Some(numbers) = range.exact() {
        return exact_for(view, id, numbers.into(), model);
    }
    let generic = highest_of(view, id, range, GENERIC)?;
    let own = match model.filter(|model| *model != GENERIC) {
        Some(model) => highest_of(view, id, range, model)?,
        None => None,
    };
    let found = match (own, generic) {
        // Numbers come before the model in a key; at equal numbers the text for the model wins.
        (Some(own), Some(generic)) if generic.1 > own.1 => Some(generic),
        (Some(own), _) => Some(own),
        (None, generic) => generic,
    };
    found.map(|key| view.fetch(&key)).transpose()
}

/// Returns the version of these numbers, for the model or else generic.
fn exact_for(
    view: &View,
    id: &ArtifactId,
    numbers: Numbers,
    model: Option<&str>,
) -> Result<Option<VersionRecord>> {
    for model in model.filter(|model| *model != GENERIC).into_iter().chain([GENERIC]) {
        let Ok(model) = Model::parse(model) else { continue };
        if let Some(found) = view.get(&(id.clone(), numbers, model))? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the key of the highest version in a range for exactly this model.
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
            // After all numbers, which take 24 bytes.
            let to = (of_model, [u8::MAX; 25]);
            view.entries(&BY_MODEL, &from, &to, Order::Descending, take)?;
        }
    }
    Ok(found)
}

/// Returns the texts of a version.
pub fn text(view: &View, row: &VersionRecord) -> Result<VersionText> {
    view.get(&row.id)?.ok_or_else(|| Error::internal("a version has no text"))
}

/// Returns the records of the exact version that a request names: one for each model that has a text.
///
/// # Errors
/// 404 if `version` is no version or does not exist.
pub fn find(view: &View, id: &ArtifactId, version: &str) -> Result<Vec<VersionRecord>> {
    let version = Version::parse(version).map_err(|_| no_such("version"))?;
    match versions_at(view, id, &version)? {
        rows if rows.is_empty() => Err(no_such("version")),
        rows => Ok(rows),
    }
}

/// The 404 of a version that the parameter or field at this path selects.
pub fn no_such(path: &'static str) -> Error {
    Error::no_such("version").at(path)
}

/// The same, if there is such an artifact at all.
pub fn none_selected(view: &View, id: &ArtifactId, path: &'static str) -> Error {
    match view.has::<Artifact>(id) {
        Ok(true) => no_such(path),
        Ok(false) => Artifact::missing(id),
        Err(error) => error,
    }
}

/// Checks that a version does not exist yet for this model.
///
/// # Errors
/// 409 if it does.
pub fn require_new(view: &View, id: &ArtifactId, version: &Version, model: &Model) -> Result<()> {
    if view.has::<VersionRecord>(&(id.clone(), numbers(version), model.clone()))? {
        return Err(Error::conflict("version_exists", VERSION_EXISTS));
    }
    Ok(())
}

// ── What callers send and see ────────────────────────────────────────────────

/// Selects an artifact whose versions are listed.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VersionFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The artifact's name; required, unless `all` is true.
    prompt_name: Option<String>,
    /// The type of the artifact; `prompt` if absent, with `all` both.
    artifact_type: Option<ArtifactType>,
    /// The versions of all artifacts of the registry.
    all: Option<bool>,
    /// Only this exact version, once for each model that it has a text for; takes `promptName`.
    version: Option<String>,
}

impl Input for VersionFilter {
    fn check(&self, issues: &mut Vec<Issue>) {
        let is_all = self.all.unwrap_or_default();
        if self.prompt_name.is_none() && !is_all {
            let message = "is required, unless all=true asks for the versions of all artifacts";
            issues.push(Issue::new("promptName", message));
        }
        if self.prompt_name.is_some() && is_all {
            issues.push(Issue::new("all", "cannot be true with promptName; leave one of them out"));
        }
        if self.version.is_some() && is_all {
            issues.push(Issue::new("version", "takes promptName: of which artifact?"));
        }
    }
}

/// A version for one model, without its texts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactVersionRow {
    /// The id of this version for this model.
    pub id: Id<VersionRecord>,
    /// The registry: `<orgSlug>/<registrySlug>`.
    pub registry_ref: String,
    /// The type of the artifact.
    pub artifact_type: ArtifactType,
    /// The name of the artifact.
    pub name: ArtifactName,
    /// The version.
    pub version: Version,
    /// The model that the text is for; `generic` serves every model without a text of its own.
    pub model: Model,
    /// The metadata given by its author.
    pub metadata: JsonMap,
    /// BLAKE3, in lower-case hexadecimal, of the canonical JSON (RFC 8785) of its type, name,
    /// version, model, source and metadata.
    pub hash: String,
    /// The promptlets that it imports directly, each with the version that was resolved.
    pub imports: StringMap,
    /// The variables of the compiled text, in order of first appearance.
    pub variables: Vec<String>,
    /// The user who published it.
    pub published_by: Id<User>,
    /// When it was published.
    pub published_at: Time,
    /// What changed and why, as who published it says.
    pub message: Option<VersionMessage>,
}

impl Output for ArtifactVersionRow {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

impl ArtifactVersionRow {
    /// The representation of `row` with its metadata, in the registry with this reference.
    pub fn new(registry_ref: String, row: VersionRecord, metadata: JsonMap) -> Self {
        ArtifactVersionRow {
            id: row.id,
            registry_ref,
            artifact_type: row.of.kind,
            name: row.of.name,
            version: row.version,
            model: row.model,
            metadata,
            hash: row.hash,
            imports: imports(&row.imports),
            variables: row.variables,
            published_by: row.published_by,
            published_at: row.published_at,
            message: row.message,
        }
    }
}

/// Returns imports as answers show them: of a promptlet that is imported in two versions, the higher
/// one.
pub fn imports(imports: &[ResolvedImport]) -> StringMap {
    let mut imports: Vec<_> = imports.iter().collect();
    imports.sort_by_key(|import| numbers(&import.version));
    let pair = |import: &ResolvedImport| (import.name.to_string(), import.version.to_string());
    imports.into_iter().map(pair).collect()
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<(), VersionFilter>) -> Result<Page<ArtifactVersionRow>> {
    let VersionFilter { registry_ref, prompt_name, artifact_type, version, .. } = &req.input;
    let registry = registries::require_readable(view, req.caller_if_any(), registry_ref)?;
    let source = ListSource::<VersionRecord>::TABLE;
    let expand = |view: &View, row: VersionRecord| {
        let metadata = metadata::get(view, &row)?;
        Ok(ArtifactVersionRow::new(registry.reference.clone(), row, metadata))
    };
    let Some(prompt_name) = prompt_name else {
        let of_kind = artifact_type.map(|kind| (registry.id, kind));
        let (order, page) = (Order::Descending, &req.page);
        return match of_kind {
            Some(prefix) => view.page_map(source, &prefix, order, page, |_| true, expand),
            None => view.page_map(source, &registry.id, order, page, |_| true, expand),
        };
    };
    let id = ArtifactId::parse(&registry, *artifact_type, prompt_name)?;
    view.fetch::<Artifact>(&id)?;
    let Some(version) = version else {
        return view.page_map(source, &id, Order::Descending, &req.page, |_| true, expand);
    };
    let version = Version::parse(version.as_str()).map_err(|_| no_such("version"))?;
    let prefix = (id, numbers(&version));
    view.page_map(source, &prefix, Order::Descending, &req.page, |_| true, expand)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::get(
            "/registries/artifact-versions",
            MEMBER_OR_PUBLIC,
            "artifact_version.list",
            op::walk(list),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactRead, &registries::NAMED_REGISTRY)
        .about("List versions, highest first"),
    ]
}
