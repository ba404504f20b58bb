//! Publishing: a source is compiled, evaluated by the registry's policies and stored, all in one
//! transaction (reference: registries-and-templates, "Publishing").
//!
//! A refused publication writes nothing except, if a policy refused it, an event.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::artifact::{self, Artifact};
use super::compiling::{CompiledSource, compile};
use super::id::{ArtifactId, Model, generic};
use super::label_history::audited_name;
use super::version::{self, ResolvedImport, VersionRecord, VersionText};
use super::versions::ArtifactVersionRow;
use super::{input, metadata, versions};
use crate::api::{Calls, Input, OrgSource, Outcome, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{
    ArtifactName, Error, Id, Issue, JsonMap, Label, Prompt, Result, Version, VersionMessage,
    canonical,
};
use crate::outbox::{self, About, EventType};
use crate::resources::governance::{self, Inputs, PolicyVerdict, Submission};
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::resources::tags::{self, Tags};
use crate::store::{Tx, View};
use crate::templates::{self, Diagnostic};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::RegistryArtifactPublished], ..Resource::EMPTY };

// ── Limits ───────────────────────────────────────────────────────────────────

/// The texts of one version, for all models together, have at most 5,000 variables and 3,000
/// imports, and there are at most 500 of them: they are deleted, with the references derived from
/// them, in one transaction. One text has at most 1,000 of each (see `templates`).
const MAX_VARIABLES: usize = 5000;
const MAX_IMPORTS: usize = 3000;
const MAX_MODELS: usize = 500;

// ── What callers send and see ────────────────────────────────────────────────

/// A version to publish.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "artifactType": "prompt", "name": "release-notes",
        "version": "1.0.0", "source": "Write the release notes of {{PRODUCT}}."}],
))]
pub struct NewArtifactVersion {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    artifact_type: ArtifactType,
    name: ArtifactName,
    version: Version,
    /// The text, in the template language.
    source: Prompt,
    /// The model that the text is for. If absent, it is `generic`: for every model without a text of
    /// its own.
    model: Option<Model>,
    /// Any JSON object; empty if absent.
    metadata: Option<JsonMap>,
    /// What changed and why.
    message: Option<VersionMessage>,
    /// The tags of the artifact, if this is its first version; one that exists keeps its own.
    tags: Option<Tags>,
}

impl Input for NewArtifactVersion {
    const HAS_LOCAL_RULES: bool = true;

    fn check(&self, issues: &mut Vec<Issue>) {
        tags::check(self.tags.as_ref(), issues);
    }
}

/// A version for one model, with its texts.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactVersion {
    /// The version without its texts.
    #[serde(flatten)]
    pub row: ArtifactVersionRow,
    /// The text as it was published.
    pub source: Prompt,
    /// The text with its imports inserted; variables are left in place.
    pub compiled: String,
    /// What looks like a mistake in `source`, such as `\{{NAME}}`; the first 20.
    pub warnings: Vec<Diagnostic>,
}

impl Output for ArtifactVersion {
    fn resource(&self) -> Option<ResourceRef> {
        let ArtifactVersionRow { id, registry_ref, artifact_type, name, version, .. } = &self.row;
        let artifact = audited_name(registry_ref, *artifact_type, name);
        Some(ResourceRef::id(id)?.with_detail(format!("{artifact} {version}")))
    }
}

/// A version to publish.
pub struct Publication {
    pub kind: ArtifactType,
    pub name: ArtifactName,
    pub version: Version,
    /// The model that the text is for.
    pub model: Model,
    /// The text, in the template language.
    pub source: Prompt,
    /// The metadata given by its author.
    pub metadata: JsonMap,
    /// What changed and why.
    pub message: Option<VersionMessage>,
    /// The field of the request that issues of the text refer to.
    pub path: &'static str,
}

// ── Publishing ───────────────────────────────────────────────────────────────

/// A version that is valid in itself; only its registry's policies can still refuse it.
struct PreparedVersion {
    row: VersionRecord,
    metadata: JsonMap,
    texts: VersionText,
    path: &'static str,
}

impl PreparedVersion {
    /// What policies evaluate, with its inputs where it is run on some.
    fn submission<'a>(&'a self, inputs: Option<Inputs<'a>>) -> Submission<'a> {
        Submission {
            kind: self.row.of.kind,
            name: &self.row.of.name,
            version: &self.row.version,
            text: self.texts.compiled(),
            variables: &self.row.variables,
            metadata: &self.metadata,
            model: &self.row.model,
            inputs,
        }
    }
}

/// Publishes a version. One that exists with the same content is returned as it is, whatever the message
/// says, and nothing is written: a pipeline may run twice.
///
/// # Errors
/// 400 with every problem of the source, or one issue for each rule of a policy that refuses it;
/// 409 if the version exists for this model with other content; 502 if a judge cannot be queried.
pub fn publish(
    tx: &mut Tx,
    by: Id<User>,
    registry: &Registry,
    new: Publication,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    publish_all(tx, by, registry, vec![new], calls)?.try_map(|mut published| {
        published.pop().ok_or_else(|| Error::internal("a publication made no version"))
    })
}

/// Publishes several versions: all of them or none.
///
/// # Errors
/// As [`publish`].
pub fn publish_all(
    tx: &mut Tx,
    by: Id<User>,
    registry: &Registry,
    new: Vec<Publication>,
    calls: &mut Calls,
) -> Result<Outcome<Vec<ArtifactVersion>>> {
    let examined = match examine(tx, by, registry, new, calls)? {
        Ok(examined) => examined,
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let mut published = Vec::with_capacity(examined.new.len());
    for (prepared, verdict) in examined.new {
        store(tx, registry, &prepared)?;
        governance::record_result(tx, registry, &prepared.submission(None), &verdict)?;
        published.push(representation(registry, prepared.row, prepared.metadata, prepared.texts));
    }
    let mut published = published.into_iter();
    let answers = examined.answers.into_iter();
    Ok(Outcome::Done(answers.filter_map(|one| one.or_else(|| published.next())).collect()))
}

/// Examines several versions as [`publish_all`] does, without publishing them. Writes nothing except,
/// if a policy refuses one, an event.
///
/// # Errors
/// As [`publish`].
pub fn examine_all(
    tx: &mut Tx,
    by: Id<User>,
    registry: &Registry,
    new: Vec<Publication>,
    calls: &mut Calls,
) -> Result<Outcome<()>> {
    Ok(match examine(tx, by, registry, new, calls)? {
        Ok(_) => Outcome::Done(()),
        Err(refusal) => Outcome::Refused(refusal),
    })
}

/// Versions that can be published.
struct Examined {
    new: Vec<(PreparedVersion, PolicyVerdict)>,
    /// For each of all: the version, if it exists already; else it is the next new one.
    answers: Vec<Option<ArtifactVersion>>,
}

/// Returns what can be published, or the refusal of a policy, which is recorded.
fn examine(
    tx: &mut Tx,
    by: Id<User>,
    registry: &Registry,
    new: Vec<Publication>,
    calls: &mut Calls,
) -> Result<Result<Examined, Error>> {
    let mut all = Vec::with_capacity(new.len());
    // Where each answer comes from: a version that exists already, or the next new one.
    let mut answers = Vec::with_capacity(new.len());
    for new in new {
        let existing = existing(&tx.view(), registry, &new)?;
        if existing.is_none() {
            all.push(prepare(tx, by, registry, new)?);
        }
        answers.push(existing);
    }
    let mut verdicts = Vec::with_capacity(all.len());
    for prepared in &all {
        let source = |view: &View| input::cases_of(view, &prepared.row.of);
        let is_prompt = prepared.row.of.kind == ArtifactType::Prompt;
        let inputs = is_prompt.then_some(Inputs { source: &source, texts: all.len() });
        verdicts.push(governance::evaluate(tx, registry.id, &prepared.submission(inputs), calls)?);
    }
    if let Some(error) = refusal(&all, &verdicts) {
        for (prepared, verdict) in all.iter().zip(&verdicts) {
            governance::record_refusal(tx, registry, &prepared.submission(None), verdict)?;
        }
        return Ok(Err(error));
    }
    Ok(Ok(Examined { new: all.into_iter().zip(verdicts).collect(), answers }))
}

/// Returns a 400 with the violations that refuse any of the versions, if there are any.
fn refusal(all: &[PreparedVersion], verdicts: &[PolicyVerdict]) -> Option<Error> {
    let mut issues = Vec::new();
    for (prepared, verdict) in all.iter().zip(verdicts) {
        let refused = verdict.refusals();
        issues.extend(refused.map(|issue| Issue::new(prepared.path, issue.message.clone())));
    }
    (!issues.is_empty()).then(|| Error::invalid(issues))
}

/// Returns the version that `new` would be, if it was published with the same content: its hash covers
/// all of that.
fn existing(
    view: &View,
    registry: &Registry,
    new: &Publication,
) -> Result<Option<ArtifactVersion>> {
    let Publication { kind, name, version, model, source, metadata, .. } = new;
    let of = ArtifactId { registry: registry.id, kind: *kind, name: name.clone() };
    let key = (of, version::numbers(version), model.clone());
    let Some(row) = view.get::<VersionRecord>(&key)? else { return Ok(None) };
    // The version may be written in another way, as 01.0.0 for 1.0.0.
    if hash(&row.of, &row.version, model, source, metadata) != row.hash {
        return Ok(None);
    }
    let texts = versions::text(view, &row)?;
    Ok(Some(representation(registry, row, metadata.clone(), texts)))
}

fn prepare(
    tx: &Tx,
    by: Id<User>,
    registry: &Registry,
    new: Publication,
) -> Result<PreparedVersion> {
    let Publication { kind, name, version, model, source, metadata, message, path } = new;
    let of = ArtifactId { registry: registry.id, kind, name };
    let CompiledSource { compilation, depth, transitive_imports } =
        compile(&tx.view(), &of, &model, &source)?;
    if !compilation.problems.is_empty() {
        let issue =
            |problem: &Diagnostic| Issue::new(path, format!("cannot be compiled: {problem}"));
        return Err(Error::invalid(compilation.problems.iter().map(issue).collect()));
    }
    let imports = compilation.imports.into_iter().map(|import| ResolvedImport {
        name: import.name,
        range: import.range,
        version: import.version,
    });
    let row = VersionRecord {
        hash: hash(&of, &version, &model, &source, &metadata),
        of,
        version,
        model,
        id: tx.new_id(),
        has_metadata: metadata != JsonMap::default(),
        imports: imports.collect(),
        variables: compilation.variables,
        depth,
        transitive_imports: transitive_imports.into_iter().collect(),
        published_by: by,
        published_at: tx.now(),
        message,
    };
    versions::require_new(&tx.view(), &row.of, &row.version, &row.model)?;
    require_unprotected(&tx.view(), &row)?;
    check_limits(&tx.view(), &row)?;
    let texts = VersionText::new(&row, source, compilation.text);
    Ok(PreparedVersion { row, metadata, texts, path })
}

/// Checks that no protected label points to the version: with one more text it would say something else
/// to those who read it for that model.
///
/// # Errors
/// 409 if one does.
fn require_unprotected(view: &View, row: &VersionRecord) -> Result<()> {
    let protected = registries::protected_labels(view, row.of.registry)?;
    if protected.is_empty() {
        return Ok(());
    }
    let Some(artifact) = view.get::<artifact::Artifact>(&row.of)? else { return Ok(()) };
    let is_here = |label: &Label| {
        let at = artifact.labels.get(label);
        at.is_some_and(|at| at.numbers() == row.version.numbers())
    };
    match protected.iter().find(|protected| is_here(&protected.label)) {
        None => Ok(()),
        Some(protected) => Err(Error::conflict(
            "version_protected",
            format!(
                "the protected label {} points to this version, which gets no text for another \
                 model; publish another version",
                protected.label
            ),
        )),
    }
}

/// Checks that a version stays within its limits with one more text.
///
/// # Errors
/// 409 if it does not.
fn check_limits(view: &View, row: &VersionRecord) -> Result<()> {
    let existing = version::versions_at(view, &row.of, &row.version)?;
    let all = || existing.iter().chain([row]);
    let imports: usize = all().map(|row| row.imports.len()).sum();
    let variables: usize = all().map(|row| row.variables.len()).sum();
    if existing.len() < MAX_MODELS && imports <= MAX_IMPORTS && variables <= MAX_VARIABLES {
        return Ok(());
    }
    Err(Error::conflict(
        "version_full",
        "a version has texts for at most 500 models, which together have at most 3,000 imports and \
         5,000 variables; publish another version",
    ))
}

/// Returns the BLAKE3 hash of the canonical JSON of everything that was published
/// (reference: registries-and-templates, "Versions").
fn hash(
    of: &ArtifactId,
    version: &Version,
    model: &Model,
    source: &Prompt,
    metadata: &JsonMap,
) -> String {
    let published: Value = json!({
        "type": of.kind, "name": of.name, "version": version, "model": model, "source": source,
        "metadata": metadata,
    });
    blake3::hash(canonical(&published).as_bytes()).to_string()
}

fn store(tx: &mut Tx, registry: &Registry, prepared: &PreparedVersion) -> Result<()> {
    let PreparedVersion { row, metadata, texts, .. } = prepared;
    tx.insert(row)?;
    tx.insert(texts)?;
    metadata::add(tx, row, metadata)?;
    version::add_imports(tx, row)?;
    version::add_variables(tx, row)?;
    artifact::version_added(tx, &row.of, &row.version, Some(row.published_by))?;
    let payload = json!({
        "registryId": registry.id, "registryRef": registry.reference,
        "artifactType": row.of.kind, "name": row.of.name, "version": row.version,
        "model": row.model, "versionId": row.id, "message": row.message,
    });
    let about = About::resource("artifact_version", row.id).guarded_by("registry", registry.id);
    outbox::publish(tx, EventType::RegistryArtifactPublished, about, payload)
}

/// Returns a version as answers show it.
fn representation(
    registry: &Registry,
    row: VersionRecord,
    metadata: JsonMap,
    texts: VersionText,
) -> ArtifactVersion {
    let compiled = texts.compiled().to_string();
    let row = ArtifactVersionRow::new(registry.reference.clone(), row, metadata);
    let warnings = templates::warnings(&texts.source);
    ArtifactVersion { row, source: texts.source, compiled, warnings }
}

pub(super) fn create(
    tx: &mut Tx,
    req: &Req<(), NewArtifactVersion>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let new = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &new.registry_ref)?;
    let publication = Publication {
        kind: new.artifact_type,
        name: new.name.clone(),
        version: new.version.clone(),
        model: new.model.clone().unwrap_or_else(generic),
        source: new.source.clone(),
        metadata: new.metadata.clone().unwrap_or_default(),
        message: new.message.clone(),
        path: "source",
    };
    let (kind, name) = (publication.kind, publication.name.clone());
    let of = ArtifactId { registry: registry.id, kind, name };
    let is_new = !tx.view().has::<Artifact>(&of)?;
    let published = publish(tx, req.caller().user(), &registry, publication, calls)?;
    if let (Outcome::Done(_), true, Some(tags)) = (&published, is_new, &new.tags) {
        artifact::set_tags(tx, &of, tags.to_vec(), Some(req.caller().user()))?;
    }
    Ok(published)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/registries/artifacts",
            MEMBER,
            "artifact_version.publish",
            op::write(op::calling(governance::EVALUATION_SECS, create)),
        )
        .org_source(OrgSource::Named(&registries::BY_REFERENCE))
        .needs_for(ScopeName::ArtifactPublish, &registries::NAMED_REGISTRY)
        .about("Publish a version"),
    ]
}
