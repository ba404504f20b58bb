//! Documents from files (reference: knowledge-bases, "Files").

use schemars::JsonSchema;
use serde::Deserialize;

use super::content::Prepared;
use super::document::MediaType;
use super::documents::{DocumentInfo, File, NO_CALLS, write};
use super::extraction::{Extracted, MAX_FILE_BYTES, charset_named, text_of};
use super::knowledge_base::KnowledgeBase;
use crate::api::op::Upload;
use crate::api::{Calls, Input, Outcome, Req, Resource, Route, op};
use crate::auth::SESSION_MEMBER;
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
    /// `shift_jis`; without it, it is recognized.
    charset: Option<Text<1, 40>>,
}

impl Input for UploadedFile {}

fn upload(
    tx: &mut Tx,
    req: &Req<Id<KnowledgeBase>, UploadedFile>,
    calls: &mut Calls,
) -> Result<Outcome<DocumentInfo>> {
    let base: KnowledgeBase = tx.fetch(&req.params)?;
    let media_type = MediaType::named(req.media_type)
        .ok_or_else(|| Error::internal(format!("{} is no type of files", req.media_type)))?;
    let charset = req.input.charset.as_deref().map(charset_named).transpose()?;
    let (name, bytes) = (req.input.name.clone(), req.content.clone());
    let read = calls.work_result(READ_FILE, move |children| {
        let Extracted { text, left_out, charset } = text_of(media_type, charset, &bytes, children)?;
        Ok((Prepared::new(&name, text), left_out, charset))
    });
    let read = match read {
        Some(read) => read?,
        None => return Err(Error::internal("the file is not read yet")), // This run is discarded.
    };
    let size = req.content.len() as u64;
    let (prepared, left_out, charset) = &*read;
    let (name, charset) = (&req.input.name, *charset);
    let file = File { name, media_type, size, prepared, left_out, charset };
    write(tx, base.id, None, &file, calls)
}

fn routes() -> Vec<Route> {
    let upload = op::upload(FILE, op::calling(NO_CALLS, upload));
    vec![
        Route::post(
            "/knowledge-bases/{id}/documents/upload",
            SESSION_MEMBER,
            "document.upload",
            upload,
        )
        .about("Add a document from a file"),
    ]
}
