//! Importing: prompts of a provider become versions of artifacts in a registry
//! (reference: registries-and-templates, "Importing prompts").
//!
//! One prompt that cannot be imported does not keep the others from it; a provider that cannot be
//! used does, and then nothing changes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::external::{Found, Lookup};
use super::{PromptProvider, TOTAL_SECS};
use crate::api::{Calls, Input, Outcome, Output, Req, Resource, Route, op};
use crate::auth::MEMBER;
use crate::base::{
    ArtifactName, Error, Id, JsonMap, Kind, List, Prompt, Result, Selector, Text, Version,
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

/// As many as are fetched within the time there is, and published in one transaction.
const MAX_PROMPTS: usize = 100;

// ── What callers send and see ────────────────────────────────────────────────

/// Which prompts to import, and where to.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Import {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    prompts: List<ImportedAs, 1, MAX_PROMPTS>,
}

impl Input for Import {}

/// A prompt to import.
#[derive(Deserialize, JsonSchema)]
struct ImportedAs {
    /// Its name there.
    name: Text<1, 500>,
    /// Its version there; without it, the one that the provider lists.
    version: Option<Text<1, 200>>,
    /// The name of the artifact, if not the prompt's own.
    r#as: Option<ArtifactName>,
}

/// What came of an import.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Imported {
    imported: Vec<ImportedPrompt>,
    failed: Vec<FailedImport>,
}

impl Output for Imported {}

/// A prompt that is in the registry now, or was there already.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImportedPrompt {
    /// Its name there.
    name: String,
    /// The name of the artifact here.
    artifact_name: ArtifactName,
    /// The version of the artifact.
    version: Version,
}

/// A prompt that was not imported.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct FailedImport {
    /// Its name there.
    name: String,
    /// Why not.
    message: String,
}

// ── Operation ────────────────────────────────────────────────────────────────

fn import(
    tx: &mut Tx,
    req: &Req<Id<PromptProvider>, Import>,
    calls: &mut Calls,
) -> Result<Outcome<Imported>> {
    let provider: PromptProvider = tx.fetch(&req.params)?;
    let input = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), &input.registry_ref)?;

    let mut server = provider.server(&tx.view(), req.caller(), calls)?;
    let mut lookups = Vec::with_capacity(input.prompts.len());
    for wanted in input.prompts.iter() {
        lookups.push(server.prompt(&wanted.name, wanted.version.as_deref())?);
    }
    let mut done = Imported { imported: Vec::new(), failed: Vec::new() };
    if lookups.contains(&Lookup::Pending) {
        return Ok(Outcome::Done(done));
    }
    for (wanted, lookup) in input.prompts.iter().zip(lookups) {
        let name = wanted.name.to_string();
        match import_one(tx, req, &provider, &registry, wanted, lookup, calls)? {
            Ok((artifact_name, version)) => {
                done.imported.push(ImportedPrompt { name, artifact_name, version });
            }
            Err(message) => done.failed.push(FailedImport { name, message }),
        }
    }
    tell(tx, &provider, &registry, &done)?;
    Ok(Outcome::Done(done))
}

/// Imports one prompt, or says why it cannot be.
fn import_one(
    tx: &mut Tx,
    req: &Req<Id<PromptProvider>, Import>,
    provider: &PromptProvider,
    registry: &Registry,
    wanted: &ImportedAs,
    lookup: Lookup,
    calls: &mut Calls,
) -> Result<Result<(ArtifactName, Version), String>> {
    let publication = match prepared(provider, wanted, lookup) {
        Ok(publication) => publication,
        Err(message) => return Ok(Err(message)),
    };
    let (name, version) = (publication.name.clone(), publication.version.clone());
    let there = fetch_source(&tx.view(), registry, &publication)?;
    if let Some(there) = there {
        return Ok(match there == publication.source {
            true => Ok((name, version)),
            false => Err(format!(
                "{name} has a version {version} with another text already; import it under another \
                 name with \"as\""
            )),
        });
    }
    match artifacts::publish(tx, req.caller().user(), registry, publication, calls) {
        Ok(Outcome::Done(_)) => Ok(Ok((name, version))),
        Ok(Outcome::Refused(error)) => Ok(Err(told(&error))),
        Err(error) if matches!(error.kind(), Kind::Invalid | Kind::Conflict) => {
            Ok(Err(told(&error)))
        }
        Err(error) => Err(error),
    }
}

/// What is to be published of what was found.
fn prepared(
    provider: &PromptProvider,
    wanted: &ImportedAs,
    lookup: Lookup,
) -> Result<Publication, String> {
    let found = match (lookup, &wanted.version) {
        (Lookup::Found(found), _) => found,
        (Lookup::Several, _) => {
            return Err(
                "several registries there have a prompt of this name; add ?registryRef=… to \
                        the provider's baseUrl"
                    .into(),
            );
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
    Ok(Publication {
        kind: ArtifactType::Prompt,
        name,
        version: local_version(&found.version),
        model: artifacts::generic(),
        source,
        metadata: origin(provider, found),
        path: "source",
    })
}

/// The version of an artifact for one there: a plain number n is `n.0.0`, three numbers stay, what
/// else they may be is `1.0.0` (reference: registries-and-templates, "Importing prompts").
fn local_version(version: &str) -> Version {
    Version::parse(version)
        .or_else(|_| Version::parse(format!("{version}.0.0")))
        .unwrap_or_else(|_| Version::stored("1.0.0".into()))
}

/// Where it came from, as its metadata.
fn origin(provider: &PromptProvider, found: Found) -> JsonMap {
    let origin = json!({
        "provider": provider.kind, "name": found.name, "version": found.version,
        "format": found.template.format(),
    });
    JsonMap([("importedFrom".to_string(), origin)].into_iter().collect())
}

/// The text of the version that is there already.
fn fetch_source(view: &View, registry: &Registry, new: &Publication) -> Result<Option<Prompt>> {
    let id = ArtifactId { registry: registry.id, kind: new.kind, name: new.name.clone() };
    match artifacts::meant(view, &id, &Selector::parse(&new.version), Some(&new.model))? {
        None => Ok(None),
        Some(row) => Ok(Some(artifacts::text(view, &row)?.source)),
    }
}

/// What an error says, with all that it lists.
fn told(error: &Error) -> String {
    let issues: Vec<_> = error.issues().iter().map(|issue| issue.message.as_str()).collect();
    match issues.is_empty() {
        true => error.message().into(),
        false => issues.join("; "),
    }
}

fn tell(
    tx: &mut Tx,
    provider: &PromptProvider,
    registry: &Registry,
    done: &Imported,
) -> Result<()> {
    let event = match (done.imported.is_empty(), done.failed.is_empty()) {
        (_, true) => EventType::AgentImportComplete,
        (false, false) => EventType::AgentImportPartial,
        (true, false) => EventType::AgentImportError,
    };
    let failed: Vec<_> = done.failed.iter().map(|failed| &failed.name).collect();
    let payload: Value = json!({
        "providerId": provider.id, "providerName": provider.name,
        "registryId": registry.id, "registryRef": registry.reference,
        "imported": done.imported, "failed": failed,
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
        op::write_calling(
            // What was fetched may have to be judged.
            TOTAL_SECS + governance::JUDGE_SECS,
            import,
        ),
    )
    .about("Publish prompts of a prompt provider in a registry")
}
