//! Drafts: versions that are being written, kept beside what is published
//! (reference: registries-and-templates, "Drafts"). Saving one compiles nothing; publishing one
//! retires it in the same transaction.
//!
//! Drafts are never public, whatever their registry is. One that was published or deleted is kept,
//! and shown to nobody.

use bincode::{Decode, Encode};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::versions::{Numbers, numbers};
use super::{
    ArtifactId, ArtifactType, ArtifactVersion, Model, Publication, generic, publish, versions,
};
use crate::api::{
    Calls, Deleted, Input, Outcome, Output, Req, Resource, ResourceRef, Route, Scope, op,
};
use crate::auth::{MEMBER, Restricted, User};
use crate::base::{ArtifactName, Error, Id, JsonMap, Prompt, Result, Time, Version};
use crate::resources::governance::JUDGE_SECS;
use crate::resources::registries::{self, Registry};
use crate::store::{
    AnyIndex, AnyReference, Index, Key, Order, Page, Record, Reference, TableInfo, Tx, View,
};

pub(super) const RESOURCE: Resource =
    Resource { routes, tables: &[TableInfo::of::<Draft>()], ..Resource::EMPTY };

// ── Record ───────────────────────────────────────────────────────────────────

/// A draft.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
pub struct Draft {
    /// Its id.
    pub id: Id<Draft>,
    /// Of which artifact, which need not be there yet.
    pub of: ArtifactId,
    /// The version that it shall become.
    pub draft_version: Version,
    /// Its text.
    pub body: Prompt,
    /// What its author says of it.
    pub metadata: JsonMap,
    /// Who made it.
    pub created_by: Id<User>,
    /// When.
    pub created_at: Time,
    /// When it was last saved.
    pub updated_at: Time,
    /// How it ended, once it has.
    pub end: Option<End>,
}

/// How a draft ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It was published.
    VersionRecord(Time),
    /// It was deleted.
    Deleted(Time),
}
crate::store::stored_enum!(End { VersionRecord(at: Time) = 0, Deleted(at: Time) = 1 });

static OUTSTANDING: Index<Draft, ArtifactId> =
    Index::many("drafts.outstanding", |draft| draft.end.is_none().then(|| draft.of.clone()));

static BY_VERSION: Index<Draft, (ArtifactId, Numbers)> = Index::unique(
    "drafts.by_version",
    "draft_exists",
    "there is a draft of this version already",
    |draft| draft.end.is_none().then(|| (draft.of.clone(), numbers(&draft.draft_version))),
);

static REGISTRY: Reference<Draft, Restricted<Registry>> = Reference::cascade(
    &["of.registry"],
    |registry: &Restricted<Registry>| registry.id().to_bytes(),
    |draft: &Draft, _| vec![draft.of.registry.to_bytes()],
)
.deferred();

impl Record for Draft {
    const TABLE: &'static str = "drafts";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&OUTSTANDING, &BY_VERSION];
    const REFERENCES: &'static [&'static dyn AnyReference] = &[&REGISTRY];
    const UNBOUND: &'static [(&'static str, &'static str)] =
        &[("created_by", "history: who made it may have left")];
    type Key = (Id<Registry>, Id<Draft>);
    fn key(&self) -> Self::Key {
        (self.of.registry, self.id)
    }
}

// ── What callers send and see ────────────────────────────────────────────────

/// Whose drafts to list.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftFilter {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The type of the artifact.
    artifact_type: ArtifactType,
}

impl Input for DraftFilter {}

/// A draft to save.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewDraft {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    artifact_type: ArtifactType,
    /// The version that it shall become; a draft of it that is there already is saved anew.
    draft_version: Version,
    /// Its text, in the language of templates.
    body: Prompt,
    /// Whatever its author wants to say of it. Where it is absent, that of the draft that is there
    /// stays.
    metadata: Option<JsonMap>,
}

impl Input for NewDraft {}

/// In which registry a draft is.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DraftQuery {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
}

impl Input for DraftQuery {}

/// How to publish a draft.
#[derive(Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PublishDraft {
    /// The registry: `<orgSlug>/<registrySlug>`, its id, or, under an API key, its slug.
    registry_ref: String,
    /// The type of the artifact; `prompt` where it is absent.
    artifact_type: Option<ArtifactType>,
    /// The model that the text is for; `generic` where it is absent.
    model: Option<Model>,
    /// What is said of the version; the draft's own where it is absent.
    metadata: Option<JsonMap>,
}

impl Input for PublishDraft {}

/// A draft, as callers see it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Draft")]
pub struct DraftInfo {
    /// Its id.
    pub id: Id<Draft>,
    registry_ref: String,
    artifact_type: ArtifactType,
    prompt_name: ArtifactName,
    draft_version: Version,
    body: Prompt,
    metadata: JsonMap,
    created_by: Id<User>,
    created_at: Time,
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
        updated_at: draft.updated_at,
    }
}

// ── Operations ───────────────────────────────────────────────────────────────

pub(super) fn list(view: &View, req: &Req<String, DraftFilter>) -> Result<Page<DraftInfo>> {
    let registry = registries::named(view, req.caller(), &req.input.registry_ref)?;
    // The prompt need not be there yet; one that never can has no drafts either.
    let Ok(name) = ArtifactName::parse(req.params.as_str()) else {
        return Ok(Page::whole(Vec::new()));
    };
    let id = ArtifactId { registry: registry.id, kind: req.input.artifact_type, name };
    let page = view.page(&OUTSTANDING, &id, Order::Descending, &req.page, |_| true)?;
    Ok(page.map(|draft| info(&registry, draft)))
}

pub(super) fn save(tx: &mut Tx, req: &Req<ArtifactName, NewDraft>) -> Result<DraftInfo> {
    let new = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), &new.registry_ref)?;
    let of =
        ArtifactId { registry: registry.id, kind: new.artifact_type, name: req.params.clone() };
    if !versions::versions_at(&tx.view(), &of, &new.draft_version)?.is_empty() {
        return Err(Error::conflict(
            "version_published",
            "this version is published already; give the draft a higher draftVersion",
        ));
    }
    let old = tx.find(&BY_VERSION, &(of.clone(), numbers(&new.draft_version)))?;
    let draft = match &old {
        Some(old) => Draft {
            body: new.body.clone(),
            metadata: new.metadata.clone().unwrap_or_else(|| old.metadata.clone()),
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

/// An outstanding draft, as a path and the rest of a request name it.
fn fetch(
    view: &View,
    registry: &Registry,
    kind: Option<ArtifactType>,
    (name, id): &(String, Id<Draft>),
) -> Result<Draft> {
    let of = ArtifactId::named(registry, kind, name)?;
    let draft = view.get::<Draft>(&(registry.id, *id))?;
    draft.filter(|draft| draft.of == of && draft.end.is_none()).ok_or_else(Error::not_found)
}

pub(super) fn get(view: &View, req: &Req<(String, Id<Draft>), DraftQuery>) -> Result<DraftInfo> {
    let registry = registries::named(view, req.caller(), &req.input.registry_ref)?;
    let draft = fetch(view, &registry, req.input.artifact_type, &req.params)?;
    Ok(info(&registry, draft))
}

pub(super) fn delete(tx: &mut Tx, req: &Req<(String, Id<Draft>), DraftQuery>) -> Result<Deleted> {
    let registry = registries::named(&tx.view(), req.caller(), &req.input.registry_ref)?;
    let draft = fetch(&tx.view(), &registry, req.input.artifact_type, &req.params)?;
    let end = End::Deleted(tx.now());
    end_with(tx, &draft, end)?;
    Ok(Deleted::new(draft.id))
}

fn end_with(tx: &mut Tx, draft: &Draft, end: End) -> Result<()> {
    tx.replace(draft, &Draft { end: Some(end), ..draft.clone() })
}

pub(super) fn publish_draft(
    tx: &mut Tx,
    req: &Req<(String, Id<Draft>), PublishDraft>,
    calls: &mut Calls,
) -> Result<Outcome<ArtifactVersion>> {
    let how = &req.input;
    let registry = registries::named(&tx.view(), req.caller(), &how.registry_ref)?;
    let draft = fetch(&tx.view(), &registry, how.artifact_type, &req.params)?;
    let publication = Publication {
        kind: draft.of.kind,
        name: draft.of.name.clone(),
        version: draft.draft_version.clone(),
        model: how.model.clone().unwrap_or_else(generic),
        source: draft.body.clone(),
        metadata: how.metadata.clone().unwrap_or_else(|| draft.metadata.clone()),
        path: "body",
    };
    let published = publish(tx, req.caller().user(), &registry, publication, calls)?;
    if let Outcome::Done(_) = &published {
        let end = End::VersionRecord(tx.now());
        end_with(tx, &draft, end)?;
    }
    Ok(published)
}

// ── Routes ───────────────────────────────────────────────────────────────────

pub(super) fn routes() -> Vec<Route> {
    const ALL: &str = "/prompts/{promptName}/drafts";
    const ONE: &str = "/prompts/{promptName}/drafts/{draftId}";
    const PUBLISH: &str = "/prompts/{promptName}/drafts/{draftId}/publish";
    let scope = Scope::Named(&registries::BY_REFERENCE);
    vec![
        Route::get(ALL, MEMBER, "draft.list", op::list(list))
            .scope(scope)
            .about("List the outstanding drafts of a prompt or promptlet"),
        Route::post(ALL, MEMBER, "draft.save", op::write(save))
            .scope(scope)
            .about("Save a draft, in the place of the one of the same version"),
        Route::get(ONE, MEMBER, "draft.show", op::read(get)).scope(scope).about("Show a draft"),
        Route::delete(ONE, MEMBER, "draft.delete", op::write(delete))
            .scope(scope)
            .about("Delete a draft"),
        Route::post(PUBLISH, MEMBER, "draft.publish", op::write_calling(JUDGE_SECS, publish_draft))
            .scope(scope)
            .about("Publish a draft as its draftVersion"),
    ]
}
