//! `/o/{org}/knowledge`: knowledge bases; the documents of one, adding to them and searching in them.

use askama::Template;
use serde::Deserialize;
use serde_json::json;

use super::confirm::Confirm;
use crate::api::Method;
use crate::base::{Error, Result, Time};
use crate::console::api::segment;
use crate::console::filters;
use crate::console::flash::Flash;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::reply::Reply;
use crate::console::strict::{List, Nullable};
use crate::console::visit::Visit;

/// Their paths, and what answers them.
pub const PAGES: &[Page] = &[
    Page::of_org("/o/{org}/knowledge").get(|visit| Box::pin(list(visit))),
    Page::of_org("/o/{org}/knowledge/new")
        .get(|visit| Box::pin(async { form(visit, None) }))
        .post(|visit| Box::pin(create(visit))),
    Page::of_org("/o/{org}/knowledge/{base}").get(|visit| Box::pin(show(visit))),
    Page::of_org("/o/{org}/knowledge/{base}/delete")
        .get(|visit| Box::pin(confirm(visit, None)))
        .post(|visit| Box::pin(delete(visit))),
];

#[derive(Template)]
#[template(path = "knowledge_bases.html")]
struct Bases {
    frame: Frame,
    base: String,
    bases: List<KnowledgeBase>,
    may_create: bool,
    next: String,
}

#[derive(Template)]
#[template(path = "new_knowledge_base.html")]
struct NewBase {
    frame: Frame,
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
    may_delete: bool,
    next: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct KnowledgeBase {
    id: String,
    name: String,
    description: Nullable<String>,
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

#[derive(Deserialize)]
struct Highlight {
    start: usize,
    end: usize,
}

impl Hit {
    /// The passage in pieces, with whether each is a word of the query.
    fn pieces(&self) -> Vec<(bool, String)> {
        let letters: Vec<char> = self.snippet.chars().collect();
        let piece = |from: usize, to: usize| -> String {
            letters.iter().skip(from).take(to.saturating_sub(from)).collect()
        };
        let mut pieces = Vec::new();
        let mut at = 0;
        for Highlight { start, end } in &self.highlights {
            pieces.push((false, piece(at, *start)));
            pieces.push((true, piece(*start, *end)));
            at = *end;
        }
        pieces.push((false, piece(at, letters.len())));
        pieces
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
    let cursor = visit.query.some("cursor").map(|cursor| ("cursor", cursor));
    let query: Vec<_> = cursor.into_iter().collect();
    let page = Bases {
        frame: visit.frame("Knowledge").live(),
        base: visit.in_org("/knowledge"),
        bases: visit.api.get("/knowledge-bases", &query).await?,
        may_create: visit.may(Method::Post, "/knowledge-bases"),
        next: format!("{}?", visit.path),
    };
    render(page.frame.status, &page)
}

fn form(visit: &Visit, error: Option<&Error>) -> Result<Reply> {
    visit.require(Method::Post, "/knowledge-bases")?;
    let frame = crumbs(visit, visit.frame("New knowledge base")).failed(error);
    render(frame.status, &NewBase { frame })
}

async fn create(visit: &Visit) -> Result<Reply> {
    let mut body = json!({"name": visit.form.get("name")});
    if let Some(description) = visit.form.some("description") {
        body["description"] = json!(description);
    }
    match visit.api.post::<KnowledgeBase>("/knowledge-bases", body).await {
        Ok(made) => {
            let path = visit.in_org(&format!("/knowledge/{}", segment(&made.id)));
            Ok(visit.done(&path, Flash::KnowledgeBaseCreated))
        }
        Err(error) => form(visit, visit.failed(error)?.as_ref()),
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let base: KnowledgeBase = visit.api.get(&api_path(visit), &[]).await?;
    let words = visit.query.some("q").unwrap_or_default().to_string();
    let cursor: Vec<_> =
        visit.query.some("cursor").map(|cursor| ("cursor", cursor)).into_iter().collect();
    let mut hits = None;
    let mut refusal = String::new();
    let mut documents = List { items: vec![], next_cursor: Nullable(None) };
    if words.is_empty() {
        let path = format!("{}/documents", api_path(visit));
        documents = visit.api.get(&path, &cursor).await?;
    } else {
        let query = [cursor.as_slice(), &[("q", words.as_str())]].concat();
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
    let next = form_urlencoded::Serializer::new(String::new())
        .extend_pairs((!words.is_empty()).then_some(("q", &words)))
        .finish();
    let page = BasePage {
        frame: crumbs(visit, visit.frame(&base.name)).live(),
        next: format!("{}?{next}&", visit.path),
        may_delete: visit.may(Method::Delete, "/knowledge-bases/id"),
        base,
        documents,
        words,
        hits,
        refusal,
    };
    render(page.frame.status, &page)
}

async fn confirm(visit: &Visit, error: Option<Error>) -> Result<Reply> {
    visit.require(Method::Delete, "/knowledge-bases/id")?;
    let base: KnowledgeBase = visit.api.get(&api_path(visit), &[]).await?;
    Confirm {
        frame: crumbs(visit, visit.frame(&format!("Delete {}?", base.name))),
        consequences: format!("Its {} documents go with it, for everyone at once.", base.documents),
        label: format!("Delete {}", base.name),
        back: visit.path.trim_end_matches("/delete").into(),
    }
    .show(error.as_ref())
}

async fn delete(visit: &Visit) -> Result<Reply> {
    match visit.api.delete(&api_path(visit), &[]).await {
        Ok(()) => Ok(visit.done(&visit.in_org("/knowledge"), Flash::KnowledgeBaseDeleted)),
        Err(error) => confirm(visit, visit.failed(error)?).await,
    }
}
