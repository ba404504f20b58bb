//! `/o/{org}/knowledge`: knowledge bases; the documents of one, adding to them and searching in them.

use askama::Template;
use serde::Deserialize;

use crate::api::Method;
use crate::base::{Language, Result, Time};
use crate::console::api::segment;
use crate::console::field::Field;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::form::{Form, FormPage};
use crate::console::frame::{Frame, render};
use crate::console::hits::Listed;
use crate::console::page::Page;
use crate::console::passage::{self, Highlight};
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/knowledge").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/knowledge/new").form(|visit| Box::pin(new(visit))),
    Page::of_org("/o/{org}/knowledge/{base}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/edit").form(|visit| Box::pin(edit(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/delete").form(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "knowledge_bases.html")]
struct Bases {
    frame: Frame,
    base: String,
    bases: Listed<KnowledgeBase>,
    may_create: bool,
}

#[derive(Template)]
#[template(path = "knowledge_base.html")]
struct BasePage {
    frame: Frame,
    base: KnowledgeBase,
    documents: List<Document>,
    /// What was searched for; empty if nothing was.
    words: String,
    hits: Option<List<Hit>>,
    refusal: String,
    may_change: bool,
    may_delete: bool,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KnowledgeBase {
    id: String,
    name: String,
    description: Nullable<String>,
    language: Nullable<Language>,
    documents: u64,
    updated_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    id: String,
    name: String,
    media_type: String,
    size: u64,
    updated_at: Time,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Hit {
    document_id: String,
    name: String,
    snippet: String,
    highlights: Vec<Highlight>,
}

impl Hit {
    /// The passage in pieces, with whether each is a word of the query.
    fn pieces(&self) -> Vec<(bool, String)> {
        passage::pieces(&self.snippet, &self.highlights)
    }
}

/// The size of a document, for people.
fn size(bytes: &u64) -> String {
    match bytes {
        0..1024 => format!("{bytes} B"),
        1024..1_048_576 => format!("{} KiB", bytes / 1024),
        _ => format!("{} MiB", bytes / 1_048_576),
    }
}

/// The path of a knowledge base in the API.
pub fn api_path(visit: &Visit) -> String {
    format!("/knowledge-bases/{}", segment(visit.param(1)))
}

/// Adds the pages above that of a knowledge base.
pub fn crumbs(visit: &Visit, frame: Frame) -> Frame {
    frame.crumb("Knowledge", visit.in_org("/knowledge"))
}

async fn list(visit: &Visit) -> Result<Reply> {
    let only = [("kind", "knowledge_base")];
    let page = Bases {
        frame: visit.frame("Knowledge").live(),
        base: visit.in_org("/knowledge"),
        bases: Listed::read(visit, &only, "/knowledge-bases", &[]).await?,
        may_create: visit.may(Method::Post, "/knowledge-bases"),
    };
    render(page.frame.status, &page)
}

/// The languages by name, after this choice of none.
pub fn languages(none: &'static str) -> Vec<(&'static str, &'static str)> {
    let mut languages: Vec<_> = Language::all().map(|one| (one.code(), one.name())).collect();
    languages.sort_by_key(|(_, name)| *name);
    languages.insert(0, ("", none));
    languages
}

/// What is said of a knowledge base.
fn fields() -> Vec<Field> {
    let languages = languages("None: words as they are spelled");
    vec![
        Field::text("name", "Name"),
        Field::text("description", "Description").optional(),
        Field::select("language", "Language", languages)
            .hint("In it other forms of a word are found: answers finds answered.")
            .optional(),
    ]
}

async fn new(visit: &Visit) -> Result<FormPage> {
    Ok(Form::create("/knowledge-bases", fields(), "Create knowledge base")
        .done(visit.in_org("/knowledge/{id}"), Flash::KnowledgeBaseCreated)
        .page(crumbs(visit, visit.frame("New knowledge base"))))
}

async fn edit(visit: &Visit) -> Result<FormPage> {
    let form = Form::change(visit, &api_path(visit), fields()).await?;
    let name = form.known("name");
    let frame = crumbs(visit, visit.frame(&format!("Change {name}"))).crumb(name, visit.above());
    let page = form.done(visit.above(), Flash::KnowledgeBaseSaved).page(frame);
    Ok(page.note(
        "After a change of the language its documents are read again, a few at a time; meanwhile they \
         are found as they are spelled.",
    ))
}

async fn show(visit: &Visit) -> Result<Reply> {
    let base: KnowledgeBase = visit.api.get(&api_path(visit), &[]).await?;
    let words = visit.query.some("q").unwrap_or_default().to_string();
    let mut hits = None;
    let mut refusal = String::new();
    let mut documents = List::none();
    if words.is_empty() {
        let path = format!("{}/documents", api_path(visit));
        documents = visit.api.get(&path, &visit.walk()).await?;
    } else {
        let query = [visit.cursor().as_slice(), &[("q", words.as_str())]].concat();
        match visit.api.get(&format!("{}/search", api_path(visit)), &query).await {
            Ok(found) => hits = Some(found),
            Err(error) => {
                let error = visit.failed(error)?;
                refusal = error.map_or_else(String::new, |error| {
                    crate::console::problems::sentence(error.message())
                });
            }
        }
    }
    let page = BasePage {
        frame: crumbs(visit, visit.frame(&base.name)).live(),
        may_change: visit.may(Method::Patch, "/knowledge-bases/id"),
        may_delete: visit.may(Method::Delete, "/knowledge-bases/id"),
        base,
        documents,
        words,
        hits,
        refusal,
    };
    render(page.frame.status, &page)
}

async fn delete(visit: &Visit) -> Result<FormPage> {
    let form = Form::delete(visit, &api_path(visit)).await?;
    let (name, documents) = (form.known("name"), form.known("documents"));
    let page = form
        .done(visit.in_org("/knowledge"), Flash::KnowledgeBaseDeleted)
        .page(crumbs(visit, visit.frame(&format!("Delete {name}?"))));
    Ok(page.lead(format!("Its {documents} documents go with it, for everyone at once.")))
}
