//! `/o/{org}/search`: what has a name that begins with what was entered, or has its words in a text.

use askama::Template;
use serde::Deserialize;

use super::knowledge::languages;
use crate::base::Result;
use crate::console::api::segment;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
use crate::console::passage::{Highlight, pieces};
use crate::console::problems::sentence;
use crate::console::reply::Reply;
use crate::console::strict::Nullable;
use crate::console::visit::Visit;

/// Its paths, and what answers them.
pub const PAGES: &[Page] = &[Page::of_org("/o/{org}/search").get(|visit| Box::pin(show(visit)))];

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    frame: Frame,
    words: String,
    languages: Vec<(&'static str, &'static str)>,
    language: String,
    groups: Vec<Group>,
    refusal: String,
}

/// What was found of a kind.
struct Group {
    kind: String,
    rows: Vec<Row>,
}

/// Something that was found.
struct Row {
    path: String,
    name: String,
    /// What tells it from others of this name.
    detail: String,
    /// The passage with the words, in pieces; empty if it was found by its name.
    passage: Vec<(bool, String)>,
}

#[derive(Deserialize)]
struct Found {
    items: Vec<Item>,
}

#[derive(Deserialize)]
struct Item {
    kind: String,
    id: String,
    name: String,
    key: Nullable<String>,
    within: Nullable<String>,
    version: Nullable<String>,
    snippet: Nullable<String>,
    highlights: Vec<Highlight>,
}

impl Item {
    /// The path of its page, below the organization's.
    fn path(&self) -> String {
        let id = segment(&self.id);
        let key = segment(self.key.as_deref().unwrap_or(&self.id));
        let within = segment(self.within.as_deref().unwrap_or_default());
        match self.kind.as_str() {
            "registry" => format!("/prompts/{key}"),
            "prompt" | "promptlet" => {
                let version = self.version.as_deref().map(segment);
                let below = version.map_or(String::new(), |it| format!("/versions/{it}"));
                format!("/{}s/{within}/{id}{below}", self.kind)
            }
            "agent" => format!("/agents/{key}"),
            "fleet" => format!("/fleets/{id}"),
            "environment" => format!("/environments/{id}"),
            "tool" => format!("/tools/{id}"),
            "team" => format!("/teams/{key}"),
            "task" => format!("/teams/{within}/tasks/{key}"),
            "policy" => format!("/governance/policies/{id}"),
            _ => format!("/knowledge/{id}"),
        }
    }

    fn row(&self, visit: &Visit) -> Row {
        let passage = self.snippet.as_deref();
        Row {
            path: visit.in_org(&self.path()),
            name: self.name.clone(),
            detail: self.detail(),
            passage: passage.map_or_else(Vec::new, |text| pieces(text, &self.highlights)),
        }
    }

    fn detail(&self) -> String {
        if let (Some(within), Some(version)) = (self.within.as_deref(), self.version.as_deref()) {
            return format!("{within} {version}");
        }
        match (self.within.as_deref(), self.key.as_deref()) {
            (Some(within), Some(key)) => format!("{within} #{key}"),
            (Some(one), None) | (None, Some(one)) => one.into(),
            (None, None) => String::new(),
        }
    }
}

async fn show(visit: &Visit) -> Result<Reply> {
    let words = visit.query.some("q").unwrap_or_default().to_string();
    let mut groups: Vec<Group> = Vec::new();
    let mut refusal = String::new();
    if !words.is_empty() {
        let mut query = vec![("q", words.as_str())];
        query.extend(visit.query.some("language").map(|language| ("language", language)));
        match visit.api.get::<Found>("/search", &query).await {
            Ok(found) => {
                for item in found.items {
                    let row = item.row(visit);
                    match groups.iter_mut().find(|group| group.kind == item.kind) {
                        Some(group) => group.rows.push(row),
                        None => groups.push(Group { kind: item.kind, rows: vec![row] }),
                    }
                }
            }
            Err(error) => {
                let error = visit.failed(error)?;
                refusal = error.map_or_else(String::new, |error| sentence(error.message()));
            }
        }
    }
    let languages = languages("As they are spelled");
    let (frame, language) = (visit.frame("Search"), visit.query.get("language").to_string());
    let page = SearchPage { frame, words, languages, language, groups, refusal };
    render(page.frame.status, &page)
}
