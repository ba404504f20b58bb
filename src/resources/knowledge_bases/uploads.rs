//! Documents from files (reference: knowledge-bases, "Files").

use schemars::JsonSchema;
use serde::Deserialize;

use super::content::Prepared;
use super::document::{Document, MediaType};
use super::documents::{DocumentInfo, File, NO_CALLS, fetch, get, write};
use super::extraction::{Extracted, MAX_FILE_BYTES, charset_named, text_of};
use super::knowledge_base::KnowledgeBase;
use crate::api::op::Upload;
use crate::api::{Calls, Input, Outcome, Req, Resource, Route, Uploaded, op};
use crate::auth::{SESSION_MEMBER, User};
use crate::base::{Error, Id, Name, Result, Text};
use crate::store::Tx;

pub(super) const RESOURCE: Resource = Resource { routes, ..Resource::EMPTY };

const FILE: Upload = Upload { max_bytes: MAX_FILE_BYTES, media_types: MediaType::NAMES };

/// The work of a request: it has only one.
const READ_FILE: [u8; 32] = [1; 32];

/// How an uploaded file is named.
#[derive(Deserialize, JsonSchema)]
pub struct UploadedFile {
    /// The name of the document.
    name: Name,
    /// The character encoding of a file of text or HTML, by a name such as `windows-1252`, `utf-16le` or
    /// `shift_jis`; without it, that of its `Content-Type`, and without one it is recognized.
    charset: Option<Text<1, 40>>,
}

impl Input for UploadedFile {}

/// What becomes of a document that a file replaces.
#[derive(Deserialize, JsonSchema)]
pub struct ReplacingFile {
    /// The new name of the document; without it, its name stays.
    name: Option<Name>,
    /// As for a new document.
    charset: Option<Text<1, 40>>,
}

impl Input for ReplacingFile {}

fn upload(
    tx: &mut Tx,
    req: &Req<Id<KnowledgeBase>, UploadedFile>,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let base: KnowledgeBase = tx.fetch(&req.params)?;
    let name = &req.input.name;
    let place = (base.id, None);
    write_file(
        tx,
        req.caller().user(),
        place,
        name,
        &req.upload,
        req.input.charset.as_deref(),
        calls,
    )
}

fn replace(
    tx: &mut Tx,
    req: &Req<(Id<KnowledgeBase>, Id<Document>), ReplacingFile>,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let old = fetch(&tx.view(), req.params)?;
    let target = (old.knowledge_base, Some(old.id));
    let name = req.input.name.as_ref().unwrap_or(&old.name);
    write_file(
        tx,
        req.caller().user(),
        target,
        name,
        &req.upload,
        req.input.charset.as_deref(),
        calls,
    )
}

/// Writes a document of a file on behalf of `by`: a new one, or in place of one that exists.
fn write_file(
    tx: &mut Tx,
    by: Id<User>,
    (base, id): (Id<KnowledgeBase>, Option<Id<Document>>),
    name: &Name,
    upload: &Uploaded,
    charset: Option<&str>,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let media_type = MediaType::named(upload.media_type)
        .ok_or_else(|| Error::internal(format!("{} is no type of files", upload.media_type)))?;
    let KnowledgeBase { language, .. } = tx.fetch(&base)?;
    // Programs name an encoding of other files, too.
    let declared = upload.charset.as_deref().filter(|_| media_type.is_decoded());
    let charset = charset.or(declared).map(charset_named).transpose()?;
    let (own, bytes) = (name.clone(), upload.bytes.clone());
    let read = calls.work_result(READ_FILE, move |children| {
        let Extracted { text, left_out, charset } = text_of(media_type, charset, &bytes, children)?;
        let prepared = Prepared::new(&own, text).stemmed(language);
        Ok((own, prepared, left_out, charset))
    });
    let read = match read {
        Some(read) => read?,
        None => return Err(Error::internal("the file is not read yet")), // This run is discarded.
    };
    let size = upload.bytes.len() as u64;
    // The name that is among the words: another run may find the document with another one.
    let (name, prepared, left_out, charset) = &*read;
    let charset = *charset;
    let file = File { name, media_type, size, prepared, left_out, charset };
    write(tx, by, (base, id), &file, calls)
}

fn routes() -> Vec<Route> {
    const NEW: &str = "/knowledge-bases/{id}/documents/upload";
    const ONE: &str = "/knowledge-bases/{id}/documents/{documentId}/upload";
    let upload = op::upload(FILE, op::calling(NO_CALLS, upload));
    let replace = op::upload(FILE, op::calling(NO_CALLS, replace));
    vec![
        Route::post(NEW, SESSION_MEMBER, "document.upload", upload)
            .about("Add a document from a file"),
        Route::put(ONE, SESSION_MEMBER, "document.replace_file", replace)
            .compared_with(op::read(get::<ReplacingFile>))
            .about("Replace a document by a file"),
    ]
}
