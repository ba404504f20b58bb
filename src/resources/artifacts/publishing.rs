//! Publishing: a source is compiled, looked at by the registry's policies and kept for good, all in
//! one transaction (reference: registries-and-templates, "Publishing").
//!
//! What is refused leaves nothing behind but, where a policy refused it, the event that says so.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::versions::{ArtifactVersionRow, Imported};
use super::{
    ArtifactId, ArtifactType, Model, VersionRecord, VersionText, artifact, dependents, generic,
    variables, versions,
};
use crate::api::{Calls, Input, Outcome, Output, Req, Resource, ResourceRef, Route, Scope, op};
use crate::auth::{MEMBER, User};
use crate::base::{ArtifactName, Error, Id, Issue, JsonMap, Prompt, Result, Version, canonical};
use crate::outbox::{self, About, EventType};
use crate::resources::governance::{self, Subject, Verdict};
use crate::resources::registries::{self, Registry};
use crate::store::{Tx, View};
use crate::templates::{self, Compilation};

pub(super) const RESOURCE: Resource =
    Resource { routes, events: &[EventType::RegistryArtifactPublished], ..Resource::EMPTY };

// ── Limits ───────────────────────────────────────────────────────────────────

/// A chain of imports below an artifact is at most so long
/// (reference: registries-and-templates, "Compiling").
const MAX_DEPTH: u32 = 16;

/// An artifact brings in at most 1,000 promptlets, those that its promptlets import included: their
/// names are kept with each of its versions.
const MAX_PROMPTLETS: usize = 1000;

/// To compile a text, at most 8 MiB of promptlets are read, and one more. What it brings in has at
/// most 1 MiB, so that only what is made to take long comes near; and all who write wait meanwhile.
const MAX_READ_BYTES: usize = 8 * 1024 * 1024;
/// For so many bytes the name of an import or a variable counts in that.
const NAME_BYTES: usize = 64;

/// The texts of one version, for all models together, have at most 5,000 variables and 3,000
/// imports, and there are at most 500 of them: they go, and leave the indexes of who uses what, in
/// one transaction. One text has at most 1,000 of each (see `templates`).
const MAX_VARIABLES: usize = 5000;
const MAX_IMPORTS: usize = 3000;
const MAX_MODELS: usize = 500;

// ── What callers send and see ────────────────────────────────────────────────

/// A version to publish.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewVersion {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    artifact_type: ArtifactType,
    name: ArtifactName,
    version: Version,
    /// The text, in the language of templates.
    source: Prompt,
    /// The model that the text is for; `generic`, for all that have none of their own, where it is
    /// absent.
    model: Option<Model>,
    /// Whatever its author wants to say of it; empty where it is absent.
    metadata: Option<JsonMap>,
}

impl Input for NewVersion {}

/// A version for a model.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ArtifactVersion {
    /// All but its texts.
    #[serde(flatten)]
    pub row: ArtifactVersionRow,
    /// As it was published.
    pub source: Prompt,
    /// With its imports put in; the variables are left in place.
    pub compiled: String,
}

impl Output for ArtifactVersion {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.row.id)
    }
}

/// What is to be published.
pub struct Publication {
    /// The type of the artifact.
    pub kind: ArtifactType,
    /// Its name.
    pub name: ArtifactName,
    /// The version.
    pub version: Version,
    /// For which model.
    pub model: Model,
    /// The text.
    pub source: Prompt,
    /// What its author says of it.
    pub metadata: JsonMap,
    /// Where in the request problems of the text stand.
    pub path: &'static str,
}

// ── Compiling ────────────────────────────────────────────────────────────────

/// A source as it is compiled in its place.
pub struct Compiled {
    /// The text, what it holds and what is wrong with it.
    pub compilation: Compilation,
    depth: u32,
    brings: BTreeSet<ArtifactName>,
}

/// Compiles a source as the text of `id` for `model`.
///
/// # Errors
/// If the store fails; what is wrong with the source is in what is returned.
pub fn compile(view: &View, id: &ArtifactId, model: &Model, source: &str) -> Result<Compiled> {
    let mut depth = 0;
    let mut read = 0;
    let mut brings = BTreeSet::new();
    let find = |name: &ArtifactName, range: &crate::base::Range| -> Result<_> {
        let itself = |name: &ArtifactName| id.kind == ArtifactType::Promptlet && *name == id.name;
        if itself(name) {
            return Ok(Err("a promptlet cannot import itself".to_string()));
        }
        if read > MAX_READ_BYTES {
            return Ok(Err("the imports before this one bring in too much".to_string()));
        }
        let kind = ArtifactType::Promptlet;
        let promptlet = ArtifactId { registry: id.registry, kind, name: name.clone() };
        let Some(found) = versions::highest_for(view, &promptlet, *range, Some(model))? else {
            return Ok(Err(format!("the registry has no such version of promptlet \"{name}\"")));
        };
        if found.brings.iter().any(itself) {
            return Ok(Err(format!(
                "\"{name}\" {} imports this promptlet, which cannot import itself",
                found.version
            )));
        }
        if found.depth + 1 > MAX_DEPTH {
            return Ok(Err(format!("makes a chain of more than {MAX_DEPTH} imports")));
        }
        depth = depth.max(found.depth + 1);
        brings.insert(name.clone());
        brings.extend(found.brings.iter().cloned());
        if brings.len() > MAX_PROMPTLETS {
            return Ok(Err(format!("brings in more than {MAX_PROMPTLETS} promptlets")));
        }
        let texts = versions::text(view, &found)?;
        let names = found.imports.len() + found.brings.len() + found.variables.len();
        read += texts.bytes() + NAME_BYTES * names;
        let text = texts.compiled().to_string();
        let variables = found.variables;
        Ok(Ok(templates::Imported { version: found.version, text, variables }))
    };
    let compilation = templates::compile(source, find)?;
    Ok(Compiled { compilation, depth, brings })
}

// ── Publishing ───────────────────────────────────────────────────────────────

/// A version that only its registry's policies could still keep from being published.
struct Ready {
    row: VersionRecord,
    texts: VersionText,
    path: &'static str,
}

impl Ready {
    fn subject(&self) -> Subject<'_> {
        Subject {
            kind: self.row.of.kind,
            name: &self.row.of.name,
            version: &self.row.version,
            text: self.texts.compiled(),
            variables: &self.row.variables,
            metadata: &self.row.metadata,
            model: &self.row.model,
        }
    }
}

/// Publishes a version.
///
/// # Errors
/// 400 with every problem of the source, or one issue for each rule of a policy that refuses it;
/// 409 if the version is there for this model; 502 if a judge cannot be asked.
pub fn publish(
    tx: &mut Tx,
    by: Id<User>,
    registry: &Registry,
    new: Publication,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    publish_all(tx, by, registry, vec![new], calls)?.try_map(|mut made| {
        made.pop().ok_or_else(|| Error::internal("a publication made no version"))
    })
}

/// Publishes several: all of them or none.
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
    let mut all = Vec::with_capacity(new.len());
    for new in new {
        all.push(prepare(tx, by, registry, new)?);
    }
    let mut verdicts = Vec::with_capacity(all.len());
    for ready in &all {
        verdicts.push(governance::evaluate(tx, registry.id, &ready.subject(), calls)?);
    }
    if let Some(error) = refusal(&all, &verdicts) {
        for (ready, verdict) in all.iter().zip(&verdicts) {
            governance::refuse(tx, registry, &ready.subject(), verdict)?;
        }
        return Ok(Outcome::Refused(error));
    }
    let mut made = Vec::with_capacity(all.len());
    for (ready, verdict) in all.into_iter().zip(verdicts) {
        keep(tx, registry, &ready)?;
        governance::settle(tx, registry, &ready.subject(), &verdict)?;
        let reference = registry.reference.clone();
        made.push(version(reference, ready.row, ready.texts));
    }
    Ok(Outcome::Done(made))
}

/// The 400 of what policies refuse, if they refuse any of it.
fn refusal(all: &[Ready], verdicts: &[Verdict]) -> Option<Error> {
    let mut issues = Vec::new();
    for (ready, verdict) in all.iter().zip(verdicts) {
        let refused = verdict.refusals();
        issues.extend(refused.map(|issue| Issue::new(ready.path, issue.message.clone())));
    }
    (!issues.is_empty()).then(|| Error::invalid(issues))
}

fn prepare(tx: &Tx, by: Id<User>, registry: &Registry, new: Publication) -> Result<Ready> {
    let Publication { kind, name, version, model, source, metadata, path } = new;
    let of = ArtifactId { registry: registry.id, kind, name };
    let Compiled { compilation, depth, brings } = compile(&tx.view(), &of, &model, &source)?;
    if !compilation.problems.is_empty() {
        let issue = |problem: &templates::Problem| {
            Issue::new(path, format!("cannot be compiled: {problem}"))
        };
        return Err(Error::invalid(compilation.problems.iter().map(issue).collect()));
    }
    let imports = compilation.imports.into_iter().map(|import| Imported {
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
        metadata,
        imports: imports.collect(),
        variables: compilation.variables,
        depth,
        brings: brings.into_iter().collect(),
        published_by: by,
        published_at: tx.now(),
    };
    versions::require_new(&tx.view(), &row.of, &row.version, &row.model)?;
    check_limits(&tx.view(), &row)?;
    let texts = VersionText::new(&row, source, compilation.text);
    Ok(Ready { row, texts, path })
}

/// # Errors
/// 409 for one model more than a version can have.
fn check_limits(view: &View, row: &VersionRecord) -> Result<()> {
    let there = versions::versions_at(view, &row.of, &row.version)?;
    let all = || there.iter().chain([row]);
    let imports: usize = all().map(|row| row.imports.len()).sum();
    let variables: usize = all().map(|row| row.variables.len()).sum();
    match there.len() < MAX_MODELS && imports <= MAX_IMPORTS && variables <= MAX_VARIABLES {
        true => Ok(()),
        false => Err(Error::conflict(
            "version_full",
            "a version has texts for at most 500 models, which together have at most 3,000 imports \
             and 5,000 variables",
        )),
    }
}

/// BLAKE3 of the canonical JSON of all that was published
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

fn keep(tx: &mut Tx, registry: &Registry, ready: &Ready) -> Result<()> {
    let Ready { row, texts, .. } = ready;
    tx.insert(row)?;
    tx.insert(texts)?;
    dependents::add(tx, row)?;
    variables::add(tx, row)?;
    artifact::published(tx, &row.of, &row.version)?;
    let payload = json!({
        "registryId": registry.id, "registryRef": registry.reference,
        "artifactType": row.of.kind, "name": row.of.name, "version": row.version,
        "model": row.model, "versionId": row.id,
    });
    let about = About::resource("artifact_version", row.id).guarded_by("registry", registry.id);
    outbox::publish(tx, EventType::RegistryArtifactPublished, about, payload)
}

/// A version as it is answered.
pub fn version(registry_ref: String, row: VersionRecord, texts: VersionText) -> ArtifactVersion {
    let compiled = texts.compiled().to_string();
    let row = ArtifactVersionRow::new(registry_ref, row);
    ArtifactVersion { row, source: texts.source, compiled }
}

pub(super) fn create(
    tx: &mut Tx,
    req: &Req<(), NewVersion>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let new = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), &new.registry_ref)?;
    let publication = Publication {
        kind: new.artifact_type,
        name: new.name.clone(),
        version: new.version.clone(),
        model: new.model.clone().unwrap_or_else(generic),
        source: new.source.clone(),
        metadata: new.metadata.clone().unwrap_or_default(),
        path: "source",
    };
    publish(tx, req.caller().user(), &registry, publication, calls)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    vec![
        Route::post(
            "/registries/artifacts",
            MEMBER,
            "artifact_version.publish",
            op::write_calling(governance::JUDGE_SECS, create),
        )
        .scope(Scope::Named(&registries::BY_REFERENCE))
        .about("Publish a version of a prompt or promptlet"),
    ]
}
