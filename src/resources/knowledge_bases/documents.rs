//! Documents of a knowledge base (reference: knowledge-bases, "Documents").

use std::sync::OnceLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::changes::{self, ChangeKind};
use super::content::{self, Prepared, Stored};
use super::document::{Document, DocumentContent, INCOMPLETE, MediaType};
use super::knowledge_base::{KnowledgeBase, Ordinal, change_state};
use super::language::Language;
use crate::api::{
    Calls, Deleted, Input, Outcome, Output, Position, Req, Resource, ResourceRef, Route, op,
};
use crate::auth::{SESSION_MEMBER, User};
use crate::base::{Error, Id, Issue, Name, Result, Text, Time};
use crate::outbox::{RetentionSettings, Sweep, SweepProgress, delete_due};
use crate::store::{ListSource, Order, Page, Tx, View};

pub(super) const RESOURCE: Resource =
    Resource { routes, sweeps: &[REMOVE_INCOMPLETE], ..Resource::EMPTY };

/// A knowledge base has at most 1,000,000 documents: what a search reads is bounded, and with more of
/// them it would see too small a part of frequent words.
const MAX_DOCUMENTS: u64 = 1_000_000;

/// A content that is not complete after an hour never will be: its request has ended.
const INCOMPLETE_SECS: i64 = 3600;

/// Documents make no outgoing calls; they are written in parts.
pub(super) const NO_CALLS: u64 = 0;

// ── What callers send and see ────────────────────────────────────────────────

/// A document to add, or what a document is replaced by.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend(
    "examples" = [{"name": "On call",
        "content": "Whoever is on call answers within 15 minutes."}],
))]
pub struct NewDocument {
    name: Name,
    /// The text, up to 307,200 characters.
    content: Text<0, 307_200>,
    /// The content with its words. They take milliseconds to find, and a transaction may run again.
    #[serde(skip)]
    prepared: OnceLock<Prepared>,
}

impl Input for NewDocument {
    fn check(&self, _: &mut Vec<Issue>) {
        self.prepared();
    }
}

impl NewDocument {
    fn prepared(&self) -> &Prepared {
        self.prepared.get_or_init(|| Prepared::new(&self.name, self.content.to_string()))
    }

    fn file(&self) -> File<'_> {
        File {
            name: &self.name,
            media_type: MediaType::Text,
            size: self.content.len() as u64,
            prepared: self.prepared(),
            left_out: &[],
            charset: None,
        }
    }
}

/// A document of a knowledge base.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(rename = "Document")]
pub struct DocumentInfo {
    pub id: Id<Document>,
    name: Name,
    /// What it was made of; `text/plain` if its text was sent as JSON.
    media_type: MediaType,
    /// The bytes of the text, or of the file that was uploaded.
    size: u64,
    created_at: Time,
    /// When it was last replaced.
    updated_at: Time,
    updated_by: Option<Id<User>>,
    /// What of the uploaded file could not be read, in a few sentences; empty if its whole text was.
    left_out: Vec<String>,
    /// The character encoding of the uploaded file, by its name in the Encoding Standard, that was given
    /// or recognized; null for UTF-8, and for files that are no text.
    charset: Option<String>,
}

/// A document with its text.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "DocumentWithContent")]
pub struct DocumentWithContent {
    #[serde(flatten)]
    document: DocumentInfo,
    /// Its text: what was sent, or what the uploaded file has.
    content: String,
}

impl Output for DocumentInfo {
    fn resource(&self) -> Option<ResourceRef> {
        ResourceRef::id(self.id)
    }
}

impl Output for DocumentWithContent {
    fn resource(&self) -> Option<ResourceRef> {
        self.document.resource()
    }
}

fn to_info(document: Document) -> DocumentInfo {
    let Document { id, name, media_type, size, created_at, .. } = document;
    let Document { updated_at, updated_by, left_out, charset, .. } = document;
    DocumentInfo {
        id,
        name,
        media_type,
        size,
        created_at,
        updated_at,
        updated_by,
        left_out,
        charset,
    }
}

// ── Writing in parts ─────────────────────────────────────────────────────────

/// What a document is made of.
pub(super) struct File<'a> {
    pub name: &'a Name,
    pub media_type: MediaType,
    pub size: u64,
    pub prepared: &'a Prepared,
    pub left_out: &'a [String],
    pub charset: Option<&'a str>,
}

/// How far a document is written. Its content is written first, in as many transactions as it takes,
/// and seen by nobody; the last one writes the document.
struct Progress {
    document: Id<Document>,
    /// Its content, once that is begun.
    ordinal: Option<Ordinal>,
    stored: Stored,
    /// The language of its stems.
    language: Option<Language>,
}

impl Progress {
    fn new(document: Id<Document>, language: Option<Language>) -> Self {
        Progress { document, ordinal: None, stored: Stored::default(), language }
    }

    fn to_text(&self) -> String {
        let Stored { text_bytes, terms } = self.stored;
        let language = self.language.map_or("", Language::code);
        format!("{} {} {text_bytes} {terms} {language}", self.document, self.ordinal.unwrap_or(0))
    }

    fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split(' ');
        let document = Id::parse(parts.next()?);
        let ordinal = Some(parts.next()?.parse().ok()?).filter(|ordinal| *ordinal > 0);
        let text_bytes = parts.next()?.parse().ok()?;
        let terms = parts.next()?.parse().ok()?;
        let language = parts.next().and_then(Language::named);
        Some(Progress { document, ordinal, stored: Stored { text_bytes, terms }, language })
    }

    fn partial<T>(&self) -> Outcome<T> {
        let resource = ResourceRef::id(self.document);
        Outcome::Partial(Position { next: self.to_text(), resource })
    }
}

/// Writes a new document on behalf of `by` or, with `id`, replaces one that exists.
pub(super) fn write(
    tx: &mut Tx,
    by: Id<User>,
    (base, id): (Id<KnowledgeBase>, Option<Id<Document>>),
    file: &File,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let KnowledgeBase { language, .. } = tx.fetch(&base)?;
    let words = file.prepared.words_in(language, calls)?;
    let old: Option<Document> = id.map(|id| tx.fetch(&(base, id))).transpose()?;
    let lost = || Error::internal("a document has lost its position");
    let mut progress = match calls.position() {
        Some(position) => Progress::parse(position).ok_or_else(lost)?,
        None => {
            let progress = Progress::new(id.unwrap_or_else(|| tx.new_id()), language);
            if changes::help(tx, base)? {
                return Ok(progress.partial());
            }
            progress
        }
    };
    if progress.language != language {
        // What was written has other stems, and is removed as what is interrupted.
        progress = Progress::new(progress.document, language);
    }
    let ordinal = match progress.ordinal {
        Some(ordinal) => ordinal,
        None => begin(tx, base, &progress, old.is_none(), file)?,
    };
    progress.ordinal = Some(ordinal);
    let (stored, is_all) = file.prepared.store(tx, (base, ordinal), &words, progress.stored)?;
    progress.stored = stored;
    if !is_all {
        return Ok(progress.partial());
    }
    complete(tx, base, ordinal)?;
    let document = Document {
        id: progress.document,
        knowledge_base: base,
        name: file.name.clone(),
        media_type: file.media_type,
        size: file.size,
        ordinal,
        created_at: old.as_ref().map_or(tx.now(), |old| old.created_at),
        updated_at: tx.now(),
        left_out: file.left_out.to_vec(),
        charset: file.charset.map(String::from),
        updated_by: Some(by),
    };
    match &old {
        None => tx.insert(&document)?,
        Some(old) => {
            retire(tx, old)?;
            tx.replace(old, &document)?;
        }
    }
    Ok(Outcome::Done(to_info(document)))
}

/// Begins a content; returns its number.
fn begin(
    tx: &mut Tx,
    base: Id<KnowledgeBase>,
    progress: &Progress,
    is_new: bool,
    file: &File,
) -> Result<Ordinal> {
    let (ordinal, documents) = change_state(tx, base, |state| {
        state.next_ordinal += 1;
        (state.next_ordinal - 1, state.documents)
    })?;
    if is_new && documents >= MAX_DOCUMENTS {
        return Err(Error::conflict(
            "documents_full",
            "a knowledge base has at most 1,000,000 documents; delete some, or make another one",
        ));
    }
    tx.insert(&DocumentContent {
        knowledge_base: base,
        ordinal,
        document: progress.document,
        words: file.prepared.words.count,
        created_at: tx.now(),
        is_complete: false,
    })?;
    Ok(ordinal)
}

/// Completes a content and adds it to the index.
fn complete(tx: &mut Tx, base: Id<KnowledgeBase>, ordinal: Ordinal) -> Result<()> {
    let begun: DocumentContent = tx.fetch(&(base, ordinal))?;
    let content = DocumentContent { is_complete: true, ..begun.clone() };
    tx.replace(&begun, &content)?;
    changes::add(tx, &content, ChangeKind::Added)
}

/// Removes the content of a document from the index; the merge removes it then.
fn retire(tx: &mut Tx, document: &Document) -> Result<()> {
    let content: DocumentContent = tx.fetch(&(document.knowledge_base, document.ordinal))?;
    changes::add(tx, &content, ChangeKind::Removed)
}

/// Removes what interrupted requests left.
const REMOVE_INCOMPLETE: Sweep = Sweep {
    name: "remove incomplete documents",
    every_secs: 600,
    run: remove_incomplete,
    installation: false,
};

fn remove_incomplete(tx: &mut Tx, _: &RetentionSettings) -> Result<SweepProgress> {
    let end = tx.now().minus_secs(INCOMPLETE_SECS);
    delete_due(tx, &INCOMPLETE, |content| content.created_at < end)
}

// ── Operations ───────────────────────────────────────────────────────────────

fn list(view: &View, req: &Req<Id<KnowledgeBase>>) -> Result<Page<DocumentInfo>> {
    let base: KnowledgeBase = view.fetch(&req.params)?;
    let page = view.page(ListSource::TABLE, &base.id, Order::Descending, &req.page, |_| true)?;
    Ok(page.map(to_info))
}

/// Returns a document: 404 for its knowledge base first.
pub(super) fn fetch(
    view: &View,
    (base, id): (Id<KnowledgeBase>, Id<Document>),
) -> Result<Document> {
    view.fetch::<KnowledgeBase>(&base)?;
    view.fetch(&(base, id))
}

pub(super) fn get<I>(
    view: &View,
    req: &Req<(Id<KnowledgeBase>, Id<Document>), I>,
) -> Result<DocumentWithContent> {
    let document = fetch(view, req.params)?;
    let content = content::text(view, (document.knowledge_base, document.ordinal))?;
    Ok(DocumentWithContent { document: to_info(document), content })
}

pub(super) fn create(
    tx: &mut Tx,
    req: &Req<Id<KnowledgeBase>, NewDocument>,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let base: KnowledgeBase = tx.fetch(&req.params)?;
    write(tx, req.caller().user(), (base.id, None), &req.input.file(), calls)
}

pub(super) fn replace(
    tx: &mut Tx,
    req: &Req<(Id<KnowledgeBase>, Id<Document>), NewDocument>,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let document = fetch(&tx.view(), req.params)?;
    let place = (document.knowledge_base, Some(document.id));
    write(tx, req.caller().user(), place, &req.input.file(), calls)
}

pub(super) fn delete(
    tx: &mut Tx,
    req: &Req<(Id<KnowledgeBase>, Id<Document>)>,
    calls: &mut Calls,
) -> Result<Outcome<Deleted>> {
    let document = fetch(&tx.view(), req.params)?;
    if calls.position().is_none() && changes::help(tx, document.knowledge_base)? {
        return Ok(Progress::new(document.id, None).partial());
    }
    retire(tx, &document)?;
    tx.remove(&document)?;
    Ok(Outcome::Done(Deleted::new(document.id)))
}

// ── Routes ───────────────────────────────────────────────────────────────────

fn routes() -> Vec<Route> {
    const ALL: &str = "/knowledge-bases/{id}/documents";
    const ONE: &str = "/knowledge-bases/{id}/documents/{documentId}";
    let create = op::write(op::calling(NO_CALLS, create));
    let replace = op::write(op::calling(NO_CALLS, replace));
    let delete = op::write(op::calling(NO_CALLS, delete));
    vec![
        Route::get(ALL, SESSION_MEMBER, "document.list", op::walk(list))
            .about("List documents, newest first"),
        Route::post(ALL, SESSION_MEMBER, "document.create", create).about("Add a document"),
        Route::get(ONE, SESSION_MEMBER, "document.get", op::read(get::<()>))
            .about("Get a document with its text"),
        Route::put(ONE, SESSION_MEMBER, "document.replace", replace).about("Replace a document"),
        Route::delete(ONE, SESSION_MEMBER, "document.delete", delete).about("Delete a document"),
    ]
}
