//! Importing: prompts of a provider are published as versions of artifacts in a registry
//! (reference: registries-and-templates, "Importing prompts").
//!
//! A prompt that cannot be imported does not affect the others. If the provider fails, nothing is
//! imported and nothing changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::client::TOTAL_SECS;
use super::external::{FoundPrompt, PromptFormat, PromptLookup};
use super::fetch;
use super::provider::{PromptProvider, PromptProviderKind};
use crate::api::{Calls, Input, Outcome, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{MEMBER, ScopeName};
use crate::base::{
    ArtifactName, BoundedList, Error, Id, JsonMap, Kind, Prompt, Result, Selector, Text, Version,
    VersionMessage,
};
use crate::outbox::{self, About, EventType};
use crate::resources::artifacts::{self, ArtifactId, Publication};
use crate::resources::governance;
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::store::{Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes: || vec![route()],
    events: &[
        EventType::AgentImportComplete,
        EventType::AgentImportPartial,
        EventType::AgentImportError,
    ],
    ..Resource::EMPTY
};

/// The prompts of one import: as many as can be fetched within the time limit and published in one
/// transaction.
const MAX_PROMPTS: usize = 100;

/// The longest of what a provider keeps beside a text that comes along.
const MAX_EXTRA_BYTES: usize = 16 * 1024;

/// How deeply it may be nested: what is stored must be read again below the levels around it.
const MAX_EXTRA_DEPTH: usize = 32;

// ── What callers send and see ────────────────────────────────────────────────

/// Prompts to import, and the registry to import them into.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "prompts": [{"name": "welcome",
        "as": "welcome-mail"}]}],
))]
pub struct ImportRequest {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The prompts to import.
    prompts: BoundedList<ImportTarget, 1, MAX_PROMPTS>,
    /// Why they are imported: the message of the versions that this makes.
    message: Option<VersionMessage>,
}

impl Input for ImportRequest {}

/// A prompt to import.
#[derive(Deserialize, JsonSchema)]
struct ImportTarget {
    /// The name in the provider.
    name: Text<1, 500>,
    /// The version in the provider; if absent, the one that the provider lists.
    version: Option<Text<1, 200>>,
    /// The name of the artifact; the name of the prompt if absent.
    r#as: Option<ArtifactName>,
}

/// The result of an import.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct ImportResult {
    /// The prompts that are in the registry now.
    imported: Vec<ImportedPrompt>,
    /// The prompts that could not be imported.
    failed: Vec<FailedImport>,
}

impl Output for ImportResult {
    fn resource(&self) -> Option<ResourceRef> {
        None
    }
}

/// A prompt that was imported, or had been before.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedPrompt {
    /// The name in the provider.
    name: String,
    /// The name of the artifact.
    artifact_name: ArtifactName,
    /// The version of the artifact.
    version: Version,
    /// What of the provider did not come along, or not as it is there: a sentence each.
    notes: Vec<String>,
}

/// A prompt that was not imported.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailedImport {
    /// The name in the provider.
    name: String,
    /// Why it was not imported, and what to do.
    message: String,
}

// ── Operation ────────────────────────────────────────────────────────────────

fn import(
    tx: &mut Tx,
    req: &Req<Id<PromptProvider>, ImportRequest>,
    calls: &mut Calls,
) -> Result<Outcome<ImportResult>> {
    let provider: PromptProvider = tx.fetch(&req.params)?;
    let input = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &input.registry_ref)?;

    let mut client = fetch::client(&provider, &tx.view(), req.caller(), calls)?;
    let mut lookups = Vec::with_capacity(input.prompts.len());
    for wanted in input.prompts.iter() {
        lookups.push(fetch::find(&mut client, &wanted.name, wanted.version.as_deref())?);
    }
    let mut result = ImportResult { imported: Vec::new(), failed: Vec::new() };
    if lookups.contains(&PromptLookup::Pending) {
        return Ok(Outcome::Done(result));
    }
    for (wanted, lookup) in input.prompts.iter().zip(lookups) {
        let name = wanted.name.to_string();
        match import_one(tx, req, &provider, &registry, wanted, lookup, calls)? {
            Ok(Imported { artifact_name, version, notes }) => {
                result.imported.push(ImportedPrompt { name, artifact_name, version, notes });
            }
            Err(message) => result.failed.push(FailedImport { name, message }),
        }
    }
    publish_event(tx, &provider, &registry, &result)?;
    Ok(Outcome::Done(result))
}

/// Where a prompt was imported to.
struct Imported {
    artifact_name: ArtifactName,
    version: Version,
    notes: Vec<String>,
}

/// Imports one prompt. The inner error says why it cannot be imported.
fn import_one(
    tx: &mut Tx,
    req: &Req<Id<PromptProvider>, ImportRequest>,
    provider: &PromptProvider,
    registry: &Registry,
    wanted: &ImportTarget,
    lookup: PromptLookup,
    calls: &mut Calls,
) -> Result<Result<Imported, String>> {
    let message = req.input.message.clone();
    let (publication, notes) = match publication(provider, wanted, lookup) {
        Ok((publication, notes)) => (Publication { message, ..publication }, notes),
        Err(message) => return Ok(Err(message)),
    };
    let (name, version) = (publication.name.clone(), publication.version.clone());
    let imported = Imported { artifact_name: name.clone(), version: version.clone(), notes };
    let existing = published_source(&tx.view(), registry, &publication)?;
    if let Some(existing) = existing {
        return Ok(if existing == publication.source {
            let mut notes = imported.notes;
            if !notes.is_empty() {
                notes = vec!["it was there already, and its metadata stays as it is".into()];
            }
            Ok(Imported { notes, ..imported })
        } else {
            Err(format!(
                "{name} has a version {version} with another text already; import it under another \
                 name with \"as\""
            ))
        });
    }
    match artifacts::publish(tx, req.caller().user(), registry, publication, calls) {
        Ok(outcome) => Ok(match outcome.done() {
            Ok(_) => Ok(imported),
            Err(error) => Err(describe(&error)),
        }),
        Err(error) if matches!(error.kind(), Kind::Invalid | Kind::Conflict) => {
            Ok(Err(describe(&error)))
        }
        Err(error) => Err(error),
    }
}

/// Returns what to publish for a prompt that was looked up, and what of it does not come along.
///
/// # Errors
/// Why it cannot be imported, as a sentence.
fn publication(
    provider: &PromptProvider,
    wanted: &ImportTarget,
    lookup: PromptLookup,
) -> Result<(Publication, Vec<String>), String> {
    let found = match (lookup, &wanted.version) {
        (PromptLookup::Found(found), _) => found,
        (PromptLookup::Several, _) => {
            return Err("several registries of the provider have a prompt of this name; add \
                 ?registryRef=… to its baseUrl"
                .into());
        }
        (_, None) => return Err("the provider has no prompt of this name".into()),
        (_, Some(_)) => return Err("the provider has no such version of this prompt".into()),
    };
    let name = match &wanted.r#as {
        Some(name) => name.clone(),
        None => ArtifactName::parse(&*found.name).map_err(|problem| {
            format!("the name of an artifact {problem}; give it another one with \"as\"")
        })?,
    };
    let source = Prompt::parse(found.template.translated()?)
        .map_err(|problem| format!("the text {problem}"))?;
    let version = local_version(&found.version);
    let (metadata, notes) = origin(provider, found);
    let (kind, model) = (ArtifactType::Prompt, artifacts::generic());
    let (message, path) = (None, "source");
    Ok((Publication { kind, name, version, model, source, metadata, message, path }, notes))
}

/// Converts a version of the provider: a number n becomes `n.0.0`, three numbers stay, and anything
/// else becomes `1.0.0` (reference: registries-and-templates, "Importing prompts").
fn local_version(version: &str) -> Version {
    Version::parse(version)
        .or_else(|_| Version::parse(format!("{version}.0.0")))
        .unwrap_or_else(|_| Version::from_trusted("1.0.0".into()))
}

/// Returns the metadata of an imported version: its origin, with what the provider keeps beside the text;
/// and what of that does not come along.
fn origin(provider: &PromptProvider, found: FoundPrompt) -> (JsonMap, Vec<String>) {
    let mut origin = json!({
        "provider": provider.kind, "name": found.name, "version": found.version,
        "format": found.template.format(),
    });
    let mut notes = Vec::new();
    if found.template.format() == PromptFormat::Chat {
        notes.push("it is a chat: its text is the JSON of its messages".into());
    }
    if !found.labels.is_empty() {
        notes.push(format!(
            "its labels there are in its metadata alone, since a label decides what is used: {}",
            found.labels.join(", ")
        ));
        origin["labels"] = json!(found.labels);
    }
    if provider.kind == PromptProviderKind::Roadstead {
        notes.push("its labels there are not read".into());
    }
    for (name, value) in found.extra.to_map() {
        if value.to_string().len() > MAX_EXTRA_BYTES || is_deeper(&value, MAX_EXTRA_DEPTH) {
            notes.push(format!(
                "its {name} are left out: they have more than 16 KiB, or {MAX_EXTRA_DEPTH} levels"
            ));
        } else {
            origin[name] = value;
        }
    }
    (Map::from_iter([("importedFrom".to_string(), origin)]).into(), notes)
}

/// Whether a value has more levels than that.
fn is_deeper(value: &Value, levels: usize) -> bool {
    let Some(levels) = levels.checked_sub(1) else { return true };
    match value {
        Value::Array(items) => items.iter().any(|item| is_deeper(item, levels)),
        Value::Object(fields) => fields.values().any(|value| is_deeper(value, levels)),
        _ => false,
    }
}

/// Returns the source of the version, if it is published already.
fn published_source(view: &View, registry: &Registry, new: &Publication) -> Result<Option<Prompt>> {
    let id = ArtifactId { registry: registry.id, kind: new.kind, name: new.name.clone() };
    match artifacts::resolve(view, &id, &Selector::parse(&new.version), Some(&new.model))? {
        None => Ok(None),
        Some(row) => Ok(Some(artifacts::text(view, &row)?.source)),
    }
}

/// Returns the message of an error, or those of all its issues.
fn describe(error: &Error) -> String {
    let issues: Vec<_> = error.issues().iter().map(|issue| issue.message.as_str()).collect();
    if issues.is_empty() { error.message().into() } else { issues.join("; ") }
}

fn publish_event(
    tx: &mut Tx,
    provider: &PromptProvider,
    registry: &Registry,
    result: &ImportResult,
) -> Result<()> {
    let event = match (result.imported.is_empty(), result.failed.is_empty()) {
        (_, true) => EventType::AgentImportComplete,
        (false, false) => EventType::AgentImportPartial,
        (true, false) => EventType::AgentImportError,
    };
    let failed: Vec<_> = result.failed.iter().map(|failed| &failed.name).collect();
    let payload: Value = json!({
        "providerId": provider.id, "providerName": provider.name,
        "registryId": registry.id, "registryRef": registry.reference,
        "imported": result.imported, "failed": failed,
    });
    let about = About::resource("prompt_provider", provider.id).guarded_by("registry", registry.id);
    outbox::publish(tx, event, about, payload)
}

// ── Route ────────────────────────────────────────────────────────────────────

pub(super) fn route() -> Route {
    Route::post(
        "/prompt-providers/{id}/import",
        MEMBER,
        "prompt_provider.import",
        op::write(op::calling(
            // Judges may evaluate what was fetched, and inputs be run.
            TOTAL_SECS + governance::EVALUATION_SECS,
            import,
        )),
    )
    .needs(ScopeName::PromptProviderRead)
    .needs_for(ScopeName::ArtifactPublish, &registries::NAMED_REGISTRY)
    .about("Import prompts into a registry")
}
