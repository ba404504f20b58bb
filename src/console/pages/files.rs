//! `/o/{org}/knowledge/{base}/documents/upload`: documents from files, and a document that is replaced by
//! one.

use std::time::Duration;

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;
use tokio::time::Instant;

use super::document::{above, base_path, document_path};
use super::knowledge::api_path;
use crate::api::Method;
use crate::base::{Error, Kind, Result, Time};
use crate::console::api::segment;
use crate::console::conflict::{Edited, OUTDATED, digest, was};
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::multipart::{MAX_FILES, SentFile};
use crate::console::page::Page;
use crate::console::problems::{Problems, sentence};
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/knowledge/{base}/documents/upload")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(upload(visit)))
        .upload(UPLOAD),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/upload")
        .get(|visit| Box::pin(replace_form(visit, None)))
        .post(|visit| Box::pin(replace(visit)))
        .upload(UPLOAD),
];

/// No further file of several is begun after this time: proxies wait for a minute.
const MANY_TIME: Duration = Duration::from_secs(40);

/// A route that takes files.
const UPLOAD: &str = "/knowledge-bases/id/documents/upload";

/// The encodings that a file of text may be said to have; there are more in the API.
const CHARSETS: &[(&str, &str)] = &[
    ("", "Recognize it"),
    ("utf-8", "UTF-8"),
    ("utf-16le", "UTF-16"),
    ("windows-1252", "Western European (windows-1252)"),
    ("windows-1250", "Central European (windows-1250)"),
    ("windows-1251", "Cyrillic (windows-1251)"),
    ("windows-1253", "Greek (windows-1253)"),
    ("windows-1254", "Turkish (windows-1254)"),
    ("windows-1255", "Hebrew (windows-1255)"),
    ("windows-1256", "Arabic (windows-1256)"),
    ("gb18030", "Simplified Chinese (GB18030)"),
    ("big5", "Traditional Chinese (Big5)"),
    ("shift_jis", "Japanese (Shift_JIS)"),
    ("euc-jp", "Japanese (EUC-JP)"),
    ("euc-kr", "Korean (EUC-KR)"),
];

#[derive(Template)]
#[template(path = "upload_document.html")]
struct Form {
    frame: Frame,
    /// What may be uploaded.
    hint: String,
    charsets: &'static [(&'static str, &'static str)],
    /// The name of the document that is replaced; none of new ones.
    replaced: Option<String>,
    label: &'static str,
    back: String,
}

/// What became of several files.
#[derive(Template)]
#[template(path = "uploaded_documents.html")]
struct Uploaded {
    frame: Frame,
    /// The names of those that were added, with their pages.
    added: Vec<(String, String)>,
    /// The names of the others, with what is wrong with them.
    refused: Vec<(String, String)>,
    back: String,
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    name: String,
    updated_at: Time,
}

/// Shows a form for files.
fn show(
    visit: &Visit,
    frame: Frame,
    replaced: Option<String>,
    back: String,
    error: Option<&Error>,
) -> Result<Reply> {
    let mib = visit.api.max_upload_bytes(UPLOAD)? / (1024 * 1024);
    let is_new = replaced.is_none();
    let too_large = match is_new {
        true => format!("may have {mib} MiB; split it, or send several files one by one"),
        false => format!("may have {mib} MiB; split it"),
    };
    let too_large = visit.is_too_large.then(|| Error::invalid_at("file", too_large));
    let mut frame = frame.failed(too_large.as_ref().or(error)).script("drop");
    if visit.is_too_large {
        frame.status = StatusCode::PAYLOAD_TOO_LARGE;
    }
    let many = match is_new {
        true => format!(" One, or up to {MAX_FILES} that have no more together."),
        false => String::new(),
    };
    let page = Form {
        hint: format!(
            "Text, Markdown, CSV, HTML, PDF, RTF, EPUB, or a file of Word, Excel, PowerPoint or \
             OpenDocument (DOCX, XLSX, PPTX, ODT, ODS, ODP), up to {mib} MiB.{many}"
        ),
        frame,
        charsets: CHARSETS,
        label: if is_new { "Upload" } else { "Replace" },
        replaced,
        back,
    };
    render(page.frame.status, &page)
}

/// What is sent beside a file.
fn query<'a>(visit: &'a Visit, name: Option<&'a str>) -> Vec<(&'static str, &'a str)> {
    let charset = visit.form.some("charset").map(|charset| ("charset", charset));
    name.map(|name| ("name", name)).into_iter().chain(charset).collect()
}

/// An error of a file, at its field.
fn at_file(error: Error) -> Error {
    match error.code() {
        "unreadable_document" | "document_too_long" => error.at("file"),
        _ => error,
    }
}

fn no_file() -> Error {
    Error::invalid_at("file", "must be chosen")
}

// ── New documents ────────────────────────────────────────────────────────────

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Post, "/knowledge-bases/id/documents/upload")?;
    let frame = above(visit, visit.frame("Upload files")).await?;
    show(visit, frame, None, base_path(visit), error.as_ref())
}

async fn upload(visit: &Visit) -> Result<Reply> {
    let path = format!("{}/documents/upload", api_path(visit));
    let made = match &visit.files[..] {
        [] => Err(no_file()),
        [file] => {
            let query = query(visit, Some(visit.form.some("name").unwrap_or(&file.name)));
            visit.api.upload::<Created>(Method::Post, &path, &query, file, None).await
        }
        _ if visit.form.some("name").is_some() => {
            Err(Error::invalid_at("name", "is for one file; several keep theirs"))
        }
        files => return upload_all(visit, &path, files).await,
    };
    match made {
        Ok(made) => Ok(visit.done(&document_page(visit, &made), Flash::DocumentAdded)),
        Err(error) => form(visit, visit.failed(at_file(error))?).await,
    }
}

/// Whether an error says something of the file, and nothing of the next one.
fn is_of_one_file(error: &Error) -> bool {
    matches!(error.kind(), Kind::Invalid | Kind::TooLarge | Kind::Media)
}

fn document_page(visit: &Visit, made: &Created) -> String {
    format!("{}/documents/{}", base_path(visit), segment(&made.id))
}

/// Adds one after another: what one lacks does not keep the others. When the server is busy or the time
/// is over, the rest is not tried.
async fn upload_all(visit: &Visit, path: &str, files: &[SentFile]) -> Result<Reply> {
    let (mut added, mut refused) = (Vec::new(), Vec::new());
    let (end, mut is_stopped) = (Instant::now() + MANY_TIME, false);
    for file in files {
        if is_stopped || Instant::now() > end {
            refused.push((file.name.clone(), "It was not tried; send it again.".into()));
            continue;
        }
        let part = blake3::hash(&[file.name.as_bytes(), b"\0", &file.bytes].concat());
        let (api, query) = (visit.api.part(&part.to_hex()[..16]), query(visit, Some(&file.name)));
        match api.upload::<Created>(Method::Post, path, &query, file, None).await {
            Ok(made) => added.push((file.name.clone(), document_page(visit, &made))),
            // Then there is nothing to tell of others.
            Err(error) if !is_of_one_file(&error) && added.is_empty() && refused.is_empty() => {
                return form(visit, visit.failed(error)?).await;
            }
            Err(error) => {
                is_stopped = !is_of_one_file(&error);
                let problems = Problems::of(&error);
                let said = problems.sentences().into_iter().next().map(|(_, said)| said);
                let said = said.unwrap_or_else(|| sentence(error.message()));
                refused.push((file.name.clone(), said));
            }
        }
    }
    if refused.is_empty() {
        return Ok(visit.done(&base_path(visit), Flash::DocumentsAdded));
    }
    // What was done is said in any case.
    let frame = above(visit, visit.frame("Uploaded files")).await;
    let frame = frame.unwrap_or_else(|_| visit.frame("Uploaded files"));
    let page = Uploaded { frame, added, refused, back: base_path(visit) };
    render(page.frame.status, &page)
}

// ── Replacing ────────────────────────────────────────────────────────────────

const REPLACED: &str = "was not taken: somebody else has replaced the document since you opened this \
     form; look at it, and choose the file again to put it in its place";

/// What is replaced: the state that the form was opened with.
fn edited(visit: &Visit, document: &Document) -> Vec<Edited> {
    let replaced = document.updated_at.to_string();
    vec![Edited::text(visit, "replaced", "Last replaced", &replaced)]
}

async fn replace_form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Put, "/knowledge-bases/id/documents/id/upload")?;
    let document: Document = visit.api.get(&document_path(visit), &[]).await?;
    let mut frame = above(visit, visit.frame(&format!("Replace {}", document.name))).await?;
    frame.was = was(visit, error.as_ref(), &edited(visit, &document), true);
    let back = visit.path.trim_end_matches("/upload").to_string();
    let error = error.map(|error| match error.kind() {
        // Browsers send a file once.
        Kind::Precondition => {
            Error::new(Kind::Precondition, "changed_meanwhile", REPLACED).at("file")
        }
        _ => error,
    });
    show(visit, frame, Some(document.name), back, error.as_ref())
}

async fn replace(visit: &Visit) -> Result<Reply> {
    let [file] = &visit.files[..] else {
        return replace_form(visit, Some(no_file())).await;
    };
    let path = document_path(visit);
    let (stored, tag) = visit.api.get_tagged::<Document>(&path, &[]).await?;
    let is_same = visit.form.sent("was") == Some(&digest(&edited(visit, &stored)));
    let tag = if is_same { &tag[..] } else { OUTDATED };
    let path = format!("{path}/upload");
    let query = query(visit, visit.form.some("name"));
    match visit.api.upload::<Created>(Method::Put, &path, &query, file, Some(tag)).await {
        Ok(_) => Ok(visit.done(visit.path.trim_end_matches("/upload"), Flash::DocumentSaved)),
        Err(error) => replace_form(visit, visit.failed(at_file(error))?).await,
    }
}
