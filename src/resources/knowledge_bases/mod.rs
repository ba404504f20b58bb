//! Knowledge bases: documents to search in (reference: knowledge-bases).
//!
//! Admins make knowledge bases, every member writes and reads documents, in a session only. Deleting a
//! knowledge base deletes its documents. A document is found as soon as it is written, and no longer as
//! soon as it is replaced or deleted, although its words get into the index and out of it later
//! ([`changes`]).

mod changes;
mod consistency;
mod content;
mod document;
mod documents;
mod extension;
mod extraction;
mod knowledge_base;
mod language;
mod lists;
mod passages;
mod position;
mod phrase_places;
mod phrases;
mod postings;
mod query;
mod ranking;
mod search;
mod segmentation;
mod terms;
mod texts;
mod uploads;
mod varint;
mod words;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::{Deleted, Input, Metric, Output, Req, Resource, ResourceRef, Route, op};
use crate::auth::{SESSION_ADMIN, SESSION_MEMBER, User};
use crate::base::metrics::FamilyKind;
use crate::base::{Description, Error, Id, Name, Nullable, Result, Time};
use crate::store::{ListSource, Order, Page, TableInfo, Tx, View};

pub use extraction::{Format, MAX_FILE_BYTES, child_output};
pub use knowledge_base::KnowledgeBase;
pub use language::Language;
pub use passages::Highlight;
pub use texts::TextSearch;

/// Knowledge bases, their documents and the index of these.
pub const RESOURCE: Resource = Resource {
    routes,
    tables: &[
        TableInfo::of::<KnowledgeBase>(),
        TableInfo::of::<knowledge_base::IndexState>(),
        TableInfo::of::<knowledge_base::IndexMerge>(),
        TableInfo::of::<knowledge_base::IndexForm>(),
        TableInfo::of::<document::Document>(),
        TableInfo::of::<document::DocumentContent>(),
        TableInfo::of::<content::DocumentText>(),
        TableInfo::of::<terms::DocumentTerms>(),
        TableInfo::of::<changes::DocumentChange>(),
        TableInfo::of::<postings::DocumentPostings>(),
    ],
    jobs: &[changes::MERGE],
    checks: &[consistency::check],
    metrics: &[PENDING],
    children: &[&documents::RESOURCE, &uploads::RESOURCE, &search::RESOURCE, &extension::RESOURCE],
    ..Resource::EMPTY
};

/// An organization has at most 1,000 knowledge bases: more than a team can tell apart.
const MAX_KNOWLEDGE_BASES: usize = 1000;

// ── What callers send and see ────────────────────────────────────────────────

/// A knowledge base to create.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"name": "Handbook", "description": "How we work, for people and agents"}],
))]
pub struct NewKnowledgeBase {
    name: Name,
    description: Option<Description>,
    /// The language of its documents, by its code in BCP 47: a search finds other forms of a word in it,
    /// too. Without it words are found as they are spelled.
    language: Option<Language>,
}

impl Input for NewKnowledgeBase {}

/// Changes to a knowledge base; absent fields stay as they are.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("examples" = [{"name": "Handbook of the support team"}]))]
pub struct KnowledgeBasePatch {
    name: Option<Name>,
    #[serde(default)]
    description: Nullable<Description>,
    /// With another one documents are indexed in it in the background.
    #[serde(default)]
    language: Nullable<Language>,
}

impl Input for KnowledgeBasePatch {}

/// A knowledge base.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "KnowledgeBase")]
pub struct KnowledgeBaseInfo {
    pub id: Id<KnowledgeBase>,
    name: Name,
    description: Option<Description>,
    /// The language in which other forms of a word are found; null for none.
    language: Option<Language>,
    /// The number of its documents.
    documents: u64,
    created_at: Time,
    /// When its name, description or language last changed.
    updated_at: Time,
    updated_by: Option<Id<User>>,
}

impl Output for KnowledgeBaseInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

fn to_info(view: &View, base: KnowledgeBase) -> Result<KnowledgeBaseInfo> {
    Ok(KnowledgeBaseInfo {
        id: base.id,
        documents: knowledge_base::state(view, base.id)?.documents,
        name: base.name,
        description: base.description,
        language: base.language,
        created_at: base.created_at,
        updated_at: base.updated_at,
        updated_by: base.updated_by,
    })
}

/// The changes that a search has to look up besides the index.
const PENDING: Metric = Metric {
    name: "roadstead_document_changes",
    kind: FamilyKind::Gauge,
    help: "Documents that are not merged into the index of their knowledge base yet",
    read: |view| {
        let bases: Vec<KnowledgeBase> = view.all(ListSource::TABLE, &())?;
        let pending = bases.iter().map(|base| changes::pending(view, base.id));
        pending.sum()
    },
    installation: false,
};

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req) -> Result<Page<KnowledgeBaseInfo>> {
    view.page_map(ListSource::TABLE, &(), Order::Descending, &req.page, |_| true, to_info)
}

fn get(view: &View, req: &Req<Id<KnowledgeBase>>) -> Result<KnowledgeBaseInfo> {
    to_info(view, view.fetch(&req.params)?)
}

fn create(tx: &mut Tx, req: &Req<(), NewKnowledgeBase>) -> Result<KnowledgeBaseInfo> {
    let count = tx.count(ListSource::<KnowledgeBase>::TABLE, &(), MAX_KNOWLEDGE_BASES)?;
    if count == MAX_KNOWLEDGE_BASES {
        return Err(Error::conflict(
            "knowledge_bases_full",
            "an organization has at most 1,000 knowledge bases; delete one that is not needed",
        ));
    }
    let base = KnowledgeBase {
        id: tx.new_id(),
        name: req.input.name.clone(),
        description: req.input.description.clone(),
        created_at: tx.now(),
        updated_at: tx.now(),
        language: req.input.language,
        updated_by: Some(req.caller().user()),
    };
    knowledge_base::insert(tx, &base)?;
    to_info(&tx.view(), base)
}

fn update(
    tx: &mut Tx,
    req: &Req<Id<KnowledgeBase>, KnowledgeBasePatch>,
) -> Result<KnowledgeBaseInfo> {
    let patch = &req.input;
    let old: KnowledgeBase = tx.fetch(&req.params)?;
    let mut new = old.clone();
    new.name = patch.name.clone().unwrap_or(new.name);
    patch.description.clone().apply(&mut new.description);
    patch.language.clone().apply(&mut new.language);
    if new != old {
        (new.updated_at, new.updated_by) = (tx.now(), Some(req.caller().user()));
        tx.replace(&old, &new)?;
    }
    if new.language != old.language {
        changes::begin_anew(tx, new.id)?;
        extension::enqueue_for(tx, &new)?;
    }
    to_info(&tx.view(), new)
}

/// Its documents and their index are deleted with it, by reference.
fn delete(tx: &mut Tx, req: &Req<Id<KnowledgeBase>>) -> Result<Deleted> {
    let base: KnowledgeBase = tx.fetch(&req.params)?;
    tx.remove(&base)?;
    Ok(Deleted::new(base.id))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/knowledge-bases";
    const ONE: &str = "/knowledge-bases/{id}";
    vec![
        Route::get(ALL, SESSION_MEMBER, "knowledge_base.list", op::walk(list))
            .about("List knowledge bases, newest first"),
        Route::post(ALL, SESSION_ADMIN, "knowledge_base.create", op::write(create))
            .about("Create a knowledge base"),
        Route::get(ONE, SESSION_MEMBER, "knowledge_base.get", op::read(get))
            .about("Get a knowledge base"),
        Route::patch(ONE, SESSION_ADMIN, "knowledge_base.update", op::write(update))
            .about("Update a knowledge base"),
        Route::delete(ONE, SESSION_ADMIN, "knowledge_base.delete", op::write(delete))
            .about("Delete a knowledge base with its documents"),
    ]
}

#[cfg(test)]
mod tests;
