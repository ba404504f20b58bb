//! `/o/{org}/knowledge/{base}/documents/{document}`: a document with its text; adding, replacing and
//! deleting one.

use askama::Template;
use hyper::StatusCode;
use serde::Deserialize;

use super::knowledge::{api_path, crumbs};
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/knowledge/{base}/documents/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/upload")
        .get(|visit| Box::pin(upload_form(visit, None)))
        .post(|visit| Box::pin(upload(visit)))
        .upload(UPLOAD),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}")
        .get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/edit")
        .form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/delete")
        .form(|visit| Box::pin(delete(visit))),
];

/// The route that takes files.
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

/// Of a longer text the page shows the beginning: pages stay small.
const SHOWN_CHARS: usize = 20_000;

#[derive(Template)]
#[template(path = "document.html")]
struct DocumentPage {
    frame: Frame,
    document: Document,
    text: String,
    is_cut: bool,
}

#[derive(Template)]
#[template(path = "upload_document.html")]
struct UploadDocument {
    frame: Frame,
    /// What may be uploaded.
    hint: String,
    charsets: &'static [(&'static str, &'static str)],
    back: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    name: String,
    media_type: String,
    created_at: Time,
    updated_at: Time,
    left_out: Vec<String>,
    charset: Option<String>,
    content: String,
}

#[derive(Deserialize)]
struct KnowledgeBase {
    id: String,
    name: String,
}

#[derive(Deserialize)]
struct Created {
    id: String,
}

fn document_path(visit: &Visit) -> String {
    format!("{}/documents/{}", api_path(visit), segment(visit.param(2)))
}

/// The path of the knowledge base's page.
fn base_path(visit: &Visit) -> String {
    visit.in_org(&format!("/knowledge/{}", segment(visit.param(1))))
}

async fn above(visit: &Visit, frame: Frame) -> Result<Frame> {
    let base: KnowledgeBase = visit.api.get(&api_path(visit), &[]).await?;
    let path = visit.in_org(&format!("/knowledge/{}", segment(&base.id)));
    Ok(crumbs(visit, frame).crumb(base.name, path))
}

async fn show(visit: &Visit) -> Result<Reply> {
    let document: Document = visit.api.get(&document_path(visit), &[]).await?;
    let text: String = document.content.chars().take(SHOWN_CHARS).collect();
    let page = DocumentPage {
        frame: above(visit, visit.frame(&document.name)).await?,
        is_cut: text.len() < document.content.len(),
        text,
        document,
    };
    render(page.frame.status, &page)
}

fn fields() -> Vec<Field> {
    vec![Field::text("name", "Name"), Field::area("content", "Text", 16)]
}

async fn new(visit: &Visit) -> Result<FormPage> {
    let made = format!("{}/documents/{{id}}", base_path(visit));
    Ok(Form::create(&format!("{}/documents", api_path(visit)), fields(), "Add document")
        .done(made, Flash::DocumentAdded)
        .page(above(visit, visit.frame("Write a document")).await?))
}

async fn upload_form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let mib = visit.api.max_upload_bytes(UPLOAD)? / (1024 * 1024);
    let message = format!("may have {mib} MiB; split it");
    let too_large = visit.is_too_large.then(|| Error::invalid_at("file", message));
    let frame = above(visit, visit.frame("Upload a file")).await?;
    let mut frame = frame.failed(too_large.or(error).as_ref());
    if visit.is_too_large {
        frame.status = StatusCode::PAYLOAD_TOO_LARGE;
    }
    let page = UploadDocument {
        frame,
        hint: format!(
            "Text, Markdown, CSV, HTML, PDF, RTF, EPUB, or a file of Word, Excel, PowerPoint or \
             OpenDocument (DOCX, XLSX, PPTX, ODT, ODS, ODP), up to {mib} MiB."
        ),
        charsets: CHARSETS,
        back: base_path(visit),
    };
    render(page.frame.status, &page)
}

async fn upload(visit: &Visit) -> Result<Reply> {
    let Some(file) = &visit.file else {
        return upload_form(visit, Some(Error::invalid_at("file", "must be chosen"))).await;
    };
    let path = format!("{}/documents/upload", api_path(visit));
    let name = visit.form.some("name").unwrap_or(&file.name);
    let mut query = vec![("name", name)];
    query.extend(visit.form.some("charset").map(|charset| ("charset", charset)));
    match visit.api.upload::<Created>(&path, &query, file).await {
        Ok(made) => {
            let path = format!("{}/documents/{}", base_path(visit), segment(&made.id));
            Ok(visit.done(&path, Flash::DocumentAdded))
        }
        Err(error) => {
            let is_of_file = matches!(error.code(), "unreadable_document" | "document_too_long");
            let error = if is_of_file { error.at("file") } else { error };
            upload_form(visit, visit.failed(error)?).await
        }
    }
}

async fn edit(visit: &Visit) -> Result<FormPage> {
    let form = Form::replace(visit, &document_path(visit), fields()).await?;
    let frame = visit.frame(&format!("Replace {}", form.known("name")));
    Ok(form.done(visit.above(), Flash::DocumentSaved).page(above(visit, frame).await?))
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &document_path(visit)).await?;
    let frame = visit.frame(&format!("Delete {}?", form.known("name")));
    let form = form.done(base_path(visit), Flash::DocumentDeleted);
    let page = form.page(above(visit, frame).await?);
    Ok(page.lead("It is not found any more, by anyone, and cannot be brought back."))
}
