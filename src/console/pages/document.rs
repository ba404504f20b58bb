//! `/o/{org}/knowledge/{base}/documents/{document}`: a document with its text; writing, replacing and
//! deleting one.

use askama::Template;
use serde::Deserialize;

use super::knowledge::{api_path, crumbs};
use crate::base::{Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::markdown;
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/knowledge/{base}/documents/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}")
        .get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/edit")
        .form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/documents/{document}/delete")
        .form(|visit| Box::pin(delete(visit))),
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
    is_markdown: bool,
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
        is_markdown: document.media_type == "text/markdown" && text.len() <= markdown::MAX_BYTES,
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
