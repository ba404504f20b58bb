//! `/o/{org}/search`: what has a name that begins with what was entered, or has its words in a text.

use askama::Template;

use super::knowledge::languages;
use crate::base::Result;
use crate::console::actions::{self, Offered};
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::hits::{self, Hit};
use crate::console::page::Page;
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::texts;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/search").get(|visit| Box::pin(show(visit)))];

/// Of one kind so many are shown on a page.
const PAGE: usize = 20;

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    words: String,
    languages: Vec<(&'static str, &'static str)>,
    language: String,
    /// The kind that is searched alone; empty for all.
    only: &'static str,
    actions: Vec<Offered>,
    groups: Vec<Group>,
    /// The offset of the next page, where one kind is searched.
    next: Option<usize>,
    refusal: String,
}

/// What was found of a kind.
struct Group {
    kind: String,
    hits: Vec<Hit>,
    /// The page of this kind; empty if all are here.
    all: String,
}

/// The page on which one kind is searched for the same words.
fn path_of(visit: &Visit, kind: &str) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.append_pair("q", visit.query.get("q")).append_pair("kind", kind);
    if let Some(language) = visit.query.some("language") {
        query.append_pair("language", language);
    }
    visit.in_org(&format!("/search?{}", query.finish()))
}

impl SearchPage {
    async fn search(&mut self, visit: &Visit) -> Result<()> {
        let (offset, size) = (hits::offset(visit), PAGE.to_string());
        let skipped = offset.to_string();
        let mut query = vec![("q", self.words.as_str())];
        query.extend(visit.query.some("language").map(|language| ("language", language)));
        if !self.only.is_empty() {
            query.extend([("kind", self.only), ("offset", &skipped), ("count", &size)]);
        }
        let found = match hits::find(visit, &query).await {
            Ok(found) => found,
            Err(error) => {
                let error = visit.failed(error)?;
                self.refusal = error.map_or_else(String::new, |error| sentence(error.message()));
                return Ok(());
            }
        };
        for item in found.items {
            let hit = item.hit(visit);
            match self.groups.iter_mut().find(|group| group.kind == item.kind) {
                Some(group) => group.hits.push(hit),
                None => {
                    let has_more = self.only.is_empty() && found.more.contains(&item.kind);
                    let all = if has_more { path_of(visit, &item.kind) } else { String::new() };
                    self.groups.push(Group { kind: item.kind, hits: vec![hit], all });
                }
            }
        }
        let is_one = !self.only.is_empty();
        self.next = hits::next(offset, PAGE, is_one && !found.more.is_empty());
        Ok(())
    }

    /// The address of the search of all kinds.
    fn everything(&self) -> String {
        let mut query = form_urlencoded::Serializer::new(String::new());
        format!("{}?{}", self.frame.path, query.append_pair("q", &self.words).finish())
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let wanted = visit.query.get("kind");
    let mut kinds = texts::choices("search").into_iter().map(|(kind, _)| kind);
    let only = kinds.find(|kind| *kind == wanted).unwrap_or_default();
    let mut page = SearchPage {
        frame: visit.frame("Search"),
        words: visit.query.some("q").unwrap_or_default().to_string(),
        languages: languages("As they are spelled"),
        language: visit.query.get("language").to_string(),
        only,
        actions: Vec::new(),
        groups: Vec::new(),
        next: None,
        refusal: String::new(),
    };
    if only.is_empty() {
        page.actions = actions::offered(visit, &page.words).await?;
    }
    if !page.words.is_empty() {
        page.search(visit).await?;
    }
    render(page.frame.status, &page)
}
