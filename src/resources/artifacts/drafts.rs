//! Drafts: versions that are being written, apart from the published ones
//! (reference: registries-and-templates, "Drafts"). Saving a draft compiles nothing; publishing it
//! closes it in the same transaction.
//!
//! Drafts are never public, whatever the visibility of their registry. The record of a published or
//! deleted draft stays for the retention period, and no operation returns it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::draft::{BY_VERSION, DraftEnd, OLDEST, OUTSTANDING};
pub use super::draft::{DELETE_CLOSED, Draft};
use super::id::{ArtifactId, Model, generic};
use super::publishing::{ArtifactVersion, Publication, publish};
use super::version::{numbers, versions_at};
use crate::api::{
    Calls, Deleted, Input, OrgSource, Outcome, Output, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::{MEMBER, ScopeName, User};
use crate::base::{
    ArtifactName, Error, Id, JsonMap, Prompt, Result, Time, Version, VersionMessage,
};
use crate::resources::governance::EVALUATION_SECS;
use crate::resources::registries::{self, ArtifactType, Registry};
use crate::store::{Order, Page, Record as _, TableInfo, Tx, View};

pub(super) const RESOURCE: Resource = Resource {
    routes,
    tables: &[TableInfo::of::<Draft>()],
    sweeps: &[DELETE_CLOSED],
    oldest: &[OLDEST],
    ..Resource::EMPTY
};

// ── What callers send and see ────────────────────────────────────────────────

/// Selects the drafts of an artifact.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact.
    artifact_type: ArtifactType,
}

impl Input for DraftFilter {}

/// A draft to save.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "artifactType": "prompt", "draftVersion": "1.1.0",
        "body": "Write the release notes of {{PRODUCT}}."}],
))]
#[schemars(rename = "NewArtifactDraft")]
pub struct NewDraft {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    artifact_type: ArtifactType,
    /// The version to publish it as. An outstanding draft of the same version is overwritten, one that
    /// somebody else has saved only with its ETag in `If-Match`.
    draft_version: Version,
    /// The text, in the template language.
    body: Prompt,
    /// Any JSON object. If absent, an existing draft keeps its metadata.
    metadata: Option<JsonMap>,
}

impl Input for NewDraft {}

/// The registry and the type of a draft's artifact.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
}

impl Input for DraftQuery {}

/// A draft to publish.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend(
    "examples" = [{"registryRef": "acme/main", "metadata": {"ticket": "DOC-7"},
        "message": "Say which releases it is about."}],
))]
pub struct PublishDraft {
    /// The registry: `<orgSlug>/<registrySlug>`, its id or, with an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` if absent.
    artifact_type: Option<ArtifactType>,
    /// The model that the text is for; `generic` if absent.
    model: Option<Model>,
    /// The metadata of the version; the draft's metadata if absent.
    metadata: Option<JsonMap>,
    /// What changed in the version and why.
    message: Option<VersionMessage>,
}

impl Input for PublishDraft {}

/// A draft, as callers see it: a version that is being written.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "ArtifactDraft")]
pub struct DraftInfo {
    /// The id of the draft.
    pub id: Id<Draft>,
    registry_ref: String,
    /// The type of the artifact.
    artifact_type: ArtifactType,
    /// The name of the artifact that it is a draft of.
    prompt_name: ArtifactName,
    draft_version: Version,
    body: Prompt,
    metadata: JsonMap,
    created_by: Id<User>,
    created_at: Time,
    /// The user who last saved it; null if an earlier release wrote it.
    updated_by: Option<Id<User>>,
    updated_at: Time,
}

impl Output for DraftInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn info(registry: &Registry, draft: Draft) -> DraftInfo {
    DraftInfo {
        id: draft.id,
        registry_ref: registry.reference.clone(),
        artifact_type: draft.of.kind,
        prompt_name: draft.of.name,
        draft_version: draft.draft_version,
        body: draft.body,
        metadata: draft.metadata,
        created_by: draft.created_by,
        created_at: draft.created_at,
        updated_by: draft.updated_by,
        updated_at: draft.updated_at,
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<String, DraftFilter>) -> Result<Page<DraftInfo>> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    // The artifact need not exist yet. A name that none can have is no error, but has no drafts.
    let Ok(name) = ArtifactName::parse(req.params.as_str()) else {
        return Ok(Page::single(Vec::new()));
    };
    let id = ArtifactId { registry: registry.id, kind: req.input.artifact_type, name };
    let page = view.page(&OUTSTANDING, &id, Order::Descending, &req.page, |_| true)?;
    Ok(page.map(|draft| info(&registry, draft)))
}

pub(super) fn save(tx: &mut Tx, req: &Req<ArtifactName, NewDraft>) -> Result<DraftInfo> {
    let new = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &new.registry_ref)?;
    let of =
        ArtifactId { registry: registry.id, kind: new.artifact_type, name: req.params.clone() };
    if !versions_at(&tx.view(), &of, &new.draft_version)?.is_empty() {
        return Err(Error::conflict(
            "version_published",
            "this version is published already; give the draft a higher draftVersion",
        ));
    }
    let old = tx.find(&BY_VERSION, &(of.clone(), numbers(&new.draft_version)))?;
    // Whoever names the state that is replaced has seen it.
    if old.as_ref().is_some_and(|old| old.author() != req.caller().user()) && !req.is_conditional {
        return Err(Error::conflict(
            "draft_of_another",
            "somebody else has saved a draft of this version; read it, and send its ETag in If-Match to \
             replace it, or choose another draftVersion",
        ));
    }
    let draft = match &old {
        Some(old) => Draft {
            body: new.body.clone(),
            metadata: new.metadata.clone().unwrap_or_else(|| old.metadata.clone()),
            updated_by: Some(req.caller().user()),
            updated_at: tx.now(),
            ..old.clone()
        },
        None => Draft {
            id: tx.new_id(),
            of,
            draft_version: new.draft_version.clone(),
            body: new.body.clone(),
            metadata: new.metadata.clone().unwrap_or_default(),
            created_by: req.caller().user(),
            created_at: tx.now(),
            updated_by: Some(req.caller().user()),
            updated_at: tx.now(),
            end: None,
        },
    };
    match &old {
        Some(old) => tx.replace(old, &draft)?,
        None => tx.insert(&draft)?,
    }
    Ok(info(&registry, draft))
}

/// The draft that a request would replace, as a GET of it answers.
///
/// # Errors
/// 404 if there is none.
fn replaced(view: &View, req: &Req<ArtifactName, NewDraft>) -> Result<DraftInfo> {
    let new = &req.input;
    let registry = registries::require_usable(view, req.caller(), &new.registry_ref)?;
    let of =
        ArtifactId { registry: registry.id, kind: new.artifact_type, name: req.params.clone() };
    let old = view.find(&BY_VERSION, &(of, numbers(&new.draft_version)))?;
    Ok(info(&registry, old.ok_or_else(|| Error::no_such("draft").at("draftVersion"))?))
}

/// The draft that a request would publish, as a GET of it answers.
fn published(view: &View, req: &Req<(String, Id<Draft>), PublishDraft>) -> Result<DraftInfo> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    let draft = fetch(view, &registry, req.input.artifact_type, &req.params)?;
    Ok(info(&registry, draft))
}

/// Returns the outstanding draft that a request names.
///
/// # Errors
/// 404 if there is none.
pub(super) fn fetch(
    view: &View,
    registry: &Registry,
    kind: Option<ArtifactType>,
    (name, id): &(String, Id<Draft>),
) -> Result<Draft> {
    let of = ArtifactId::parse(registry, kind, name)?;
    let draft = view.get::<Draft>(&(registry.id, *id))?;
    draft
        .filter(|draft| draft.of == of && draft.end.is_none())
        .ok_or_else(|| Draft::missing(&(registry.id, *id)))
}

pub(super) fn get(view: &View, req: &Req<(String, Id<Draft>), DraftQuery>) -> Result<DraftInfo> {
    let registry = registries::require_usable(view, req.caller(), &req.input.registry_ref)?;
    let draft = fetch(view, &registry, req.input.artifact_type, &req.params)?;
    Ok(info(&registry, draft))
}

pub(super) fn delete(tx: &mut Tx, req: &Req<(String, Id<Draft>), DraftQuery>) -> Result<Deleted> {
    let registry = registries::require_usable(&tx.view(), req.caller(), &req.input.registry_ref)?;
    let draft = fetch(&tx.view(), &registry, req.input.artifact_type, &req.params)?;
    let end = DraftEnd::Deleted(tx.now());
    close(tx, &draft, end)?;
    Ok(Deleted::new(draft.id))
}

fn close(tx: &mut Tx, draft: &Draft, end: DraftEnd) -> Result<()> {
    tx.replace(draft, &Draft { end: Some(end), ..draft.clone() })
}

pub(super) fn publish_draft(
    tx: &mut Tx,
    req: &Req<(String, Id<Draft>), PublishDraft>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let input = &req.input;
    let registry = registries::require_usable(&tx.view(), req.caller(), &input.registry_ref)?;
    let draft = fetch(&tx.view(), &registry, input.artifact_type, &req.params)?;
    // Who has made it may think that it is still as they left it.
    let (caller, author) = (req.caller().user(), draft.author());
    if draft.created_by == caller && author != caller && !req.is_conditional {
        return Err(Error::conflict(
            "draft_of_another",
            "somebody else has replaced your draft; read it, and send its ETag in If-Match to publish it",
        ));
    }
    let publication = Publication {
        kind: draft.of.kind,
        name: draft.of.name.clone(),
        version: draft.draft_version.clone(),
        model: input.model.clone().unwrap_or_else(generic),
        source: draft.body.clone(),
        metadata: input.metadata.clone().unwrap_or_else(|| draft.metadata.clone()),
        message: input.message.clone(),
        path: "body",
    };
    let published = publish(tx, req.caller().user(), &registry, publication, calls)?;
    if let Outcome::Done(_) = &published {
        let end = DraftEnd::Published(tx.now());
        close(tx, &draft, end)?;
    }
    Ok(published)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    const ALL: &str = "/prompts/{promptName}/drafts";
    const ONE: &str = "/prompts/{promptName}/drafts/{draftId}";
    const PUBLISH: &str = "/prompts/{promptName}/drafts/{draftId}/publish";
    let source = OrgSource::Named(&registries::BY_REFERENCE);
    vec![
        Route::get(ALL, MEMBER, "draft.list", op::list(list))
            .org_source(source)
            .needs_for(ScopeName::DraftRead, &registries::NAMED_REGISTRY)
            .about("List outstanding drafts of an artifact"),
        Route::post(ALL, MEMBER, "draft.save", op::write(save))
            .org_source(source)
            .compared_with(op::read(replaced))
            .needs_for(ScopeName::DraftWrite, &registries::NAMED_REGISTRY)
            .about("Save a draft, replacing its version's previous one"),
        Route::get(ONE, MEMBER, "draft.get", op::read(get))
            .org_source(source)
            .needs_for(ScopeName::DraftRead, &registries::NAMED_REGISTRY)
            .about("Get a draft"),
        Route::delete(ONE, MEMBER, "draft.delete", op::write(delete))
            .org_source(source)
            .needs_for(ScopeName::DraftWrite, &registries::NAMED_REGISTRY)
            .about("Delete a draft"),
        Route::post(
            PUBLISH,
            MEMBER,
            "draft.publish",
            op::write(op::calling(EVALUATION_SECS, publish_draft)),
        )
        .org_source(source)
        .compared_with(op::read(published))
        .needs_for(ScopeName::ArtifactPublish, &registries::NAMED_REGISTRY)
        .about("Publish a draft as its draftVersion"),
    ]
}
