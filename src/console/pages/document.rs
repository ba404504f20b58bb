//! `/o/{org}/knowledge/{base}/documents/{document}`: a document with its text; writing, replacing and
//! deleting one.

use askama::Template;
use serde::Deserialize;
use serde_json::{Value, json};

use super::confirm::Confirm;
use super::knowledge::{api_path, crumbs};
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::conflict::Edited;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/knowledge/{base}/documents/new")
        .get(|visit| Box::pin(form(visit, None)))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}")
        .get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/edit")
        .get(|visit| Box::pin(edit(visit, None)))
        .post(|visit| Box::pin(save(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
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
#[template(path = "edit_document.html")]
struct EditDocument {
    frame: Frame,
    name: String,
    content: String,
    /// Whether it is one that exists.
    replaces: bool,
    label: &'static str,
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

/// The path of a document in the API.
pub fn document_path(visit: &Visit) -> String {
    format!("{}/documents/{}", api_path(visit), segment(visit.param(2)))
}

/// The path of the knowledge base's page.
pub fn base_path(visit: &Visit) -> String {
    visit.in_org(&format!("/knowledge/{}", segment(visit.param(1))))
}

/// Adds the pages above that of a document.
///
/// # Errors
/// 404 if there is no such knowledge base.
pub async fn above(visit: &Visit, frame: Frame) -> Result<Frame> {
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

async fn form(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let page = EditDocument {
        frame: above(visit, visit.frame("Write a document")).await?.failed(error.as_ref()),
        name: String::new(),
        content: String::new(),
        replaces: false,
        label: "Add document",
        back: base_path(visit),
    };
    render(page.frame.status, &page)
}

fn body(visit: &Visit) -> Value {
    json!({"name": visit.form.get("name"), "content": visit.form.get("content")})
}

async fn create(visit: &Visit) -> Result<Reply> {
    let path = format!("{}/documents", api_path(visit));
    match visit.api.post::<Created>(&path, body(visit)).await {
        Ok(made) => {
            let path = format!("{}/documents/{}", base_path(visit), segment(&made.id));
            Ok(visit.done(&path, Flash::DocumentAdded))
        }
        Err(error) => form(visit, visit.failed(error)?).await,
    }
}

/// What the form edits.
fn edited(visit: &Visit, document: &Document) -> Vec<Edited> {
    vec![
        Edited::text(visit, "name", "Name", &document.name),
        Edited::text(visit, "content", "Text", &document.content),
    ]
}

async fn edit(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let document: Document = visit.api.get(&document_path(visit), &[]).await?;
    let frame = visit.frame(&format!("Replace {}", document.name));
    let frame = above(visit, frame).await?.failed(error.as_ref());
    let page = EditDocument {
        frame: frame.edits(visit, error.as_ref(), &edited(visit, &document)),
        name: document.name,
        content: document.content,
        replaces: true,
        label: "Save",
        back: visit.path.trim_end_matches("/edit").into(),
    };
    render(page.frame.status, &page)
}

async fn save(visit: &Visit) -> Result<Reply> {
    let document = |document: &Document| edited(visit, document);
    match visit.replace(&document_path(visit), body(visit), document).await {
        Ok(_) => Ok(visit.done(visit.path.trim_end_matches("/edit"), Flash::DocumentSaved)),
        Err(error) => edit(visit, visit.failed(error)?).await,
    }
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    let document: Document = visit.api.get(&document_path(visit), &[]).await?;
    let frame = visit.frame(&format!("Delete {}?", document.name));
    Confirm {
        frame: above(visit, frame).await?,
        consequences: "It is not found any more, by anyone, and cannot be brought back.".into(),
        label: format!("Delete {}", document.name),
        back: visit.path.trim_end_matches("/delete").into(),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&document_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&base_path(visit), Flash::DocumentDeleted)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
