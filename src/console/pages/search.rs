//! `/o/{org}/search`: what has a name that begins with what was entered.

use askama::Template;
use serde::Deserialize;

use crate::base::Result;
use crate::console::api::segment;
use crate::console::filters;
use crate::console::frame::{Frame, render};
use crate::console::page::Page;
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
    groups: Vec<Group>,
    refusal: String,
}

/// What was found of a kind.
struct Group {
    kind: String,
    /// Path, name, and what tells it from others of this name.
    rows: Vec<(String, String, String)>,
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
}

impl Item {
    /// The path of its page, below the organization's.
    fn path(&self) -> String {
        let id = segment(&self.id);
        let key = segment(self.key.as_deref().unwrap_or(&self.id));
        let within = segment(self.within.as_deref().unwrap_or_default());
        match self.kind.as_str() {
            "registry" => format!("/prompts/{key}"),
            "prompt" | "promptlet" => format!("/{}s/{within}/{id}", self.kind),
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

    fn detail(&self) -> String {
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
        match visit.api.get::<Found>("/search", &[("q", &words)]).await {
            Ok(found) => {
                for item in found.items {
                    let row = (visit.in_org(&item.path()), item.name.clone(), item.detail());
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
    let page = SearchPage { frame: visit.frame("Search"), words, groups, refusal };
    render(page.frame.status, &page)
}
