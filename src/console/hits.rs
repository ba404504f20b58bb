//! What a search finds: where its page is, and how it is listed.

use std::ops::Deref;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::api::segment;
use super::passage::{Highlight, pieces};
use super::strict::{List, Nullable};
use super::visit::Visit;
use crate::base::Result;

/// What the API answers to a search.
#[derive(Deserialize)]
pub struct Found {
    pub items: Vec<Item>,
    /// The kinds of which more was found.
    pub more: Vec<String>,
}

/// Something that was found.
#[derive(Deserialize)]
pub struct Item {
    pub kind: String,
    pub id: String,
    pub name: String,
    pub key: Nullable<String>,
    pub within: Nullable<String>,
    status: Nullable<String>,
    version: Nullable<String>,
    snippet: Nullable<String>,
    highlights: Vec<Highlight>,
}

/// A line of a list of what was found.
pub struct Hit {
    /// Its id; of an artifact, which has none, its name.
    pub id: String,
    pub path: String,
    pub name: String,
    /// What tells it from others of this name.
    pub detail: String,
    /// That of a task.
    pub status: Option<String>,
    /// The passage with the words, in pieces; empty if it was found by its name.
    pub passage: Vec<(bool, String)>,
}

/// What a search field above a list of one kind has found in place of the list.
pub struct Filtered {
    pub hits: Vec<Hit>,
    /// The offset of the next page; `None` on the last one.
    pub next: Option<usize>,
}

/// A list that is searched by words, and what the words in the query of its page have found of it in its
/// place.
pub struct Listed<T: DeserializeOwned> {
    list: List<T>,
    pub found: Option<Filtered>,
}

/// Lists filtered by words have pages of this size.
pub const PAGE: usize = 50;
/// The parameter of a search in names alone, which costs less.
pub const BY_NAME: (&str, &str) = ("texts", "false");
/// The API answers none beyond this offset.
const MAX_OFFSET: usize = 1000;

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

    /// Its line.
    pub fn hit(&self, visit: &Visit) -> Hit {
        let passage = self.snippet.as_deref();
        Hit {
            id: self.id.clone(),
            path: visit.in_org(&self.path()),
            name: self.name.clone(),
            detail: self.detail(),
            status: self.status.0.clone(),
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

impl<T: DeserializeOwned> Deref for Listed<T> {
    type Target = List<T>;
    fn deref(&self) -> &List<T> {
        &self.list
    }
}

impl<T: DeserializeOwned> Listed<T> {
    /// A list without items.
    pub fn none() -> Self {
        Listed { list: List::none(), found: None }
    }

    /// Reads the list at `path` of the API with these parameters and those of [`Visit::walk`] or, with words
    /// in the query, what they find. `only` are the parameters of the search that select what is in the list.
    ///
    /// # Errors
    /// Those of the routes that are not about the words: for others nothing is found.
    pub async fn read(
        visit: &Visit,
        only: &[(&str, &str)],
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Self> {
        let found = filtered(visit, only).await?;
        let list = match found {
            Some(_) => List::none(),
            None => visit.api.get(path, &[parameters, visit.walk().as_slice()].concat()).await?,
        };
        Ok(Listed { list, found })
    }

    /// Whether it has nothing, and nothing was looked for.
    pub fn is_empty(&self) -> bool {
        self.found.is_none() && self.list.items.is_empty()
    }

    /// Whether a row or a line is shown.
    pub fn has_any(&self) -> bool {
        let has_hits = self.found.as_ref().is_some_and(|found| !found.hits.is_empty());
        has_hits || !self.list.items.is_empty()
    }
}

/// Searches.
pub async fn find(visit: &Visit, query: &[(&str, &str)]) -> Result<Found> {
    visit.api.get("/search", query).await
}

/// The offset that the query of a page says.
pub fn offset(visit: &Visit) -> usize {
    visit.query.get("offset").parse().unwrap_or(0).min(MAX_OFFSET)
}

/// The offset after a page of this size; `None` if nothing more is answered.
pub fn next(offset: usize, size: usize, has_more: bool) -> Option<usize> {
    Some(offset + size).filter(|next| has_more && *next <= MAX_OFFSET)
}

/// What the words in the query of a page find; `None` without words.
async fn filtered(visit: &Visit, only: &[(&str, &str)]) -> Result<Option<Filtered>> {
    let Some(words) = visit.query.some("q") else { return Ok(None) };
    let at = offset(visit);
    let (skipped, size) = (at.to_string(), PAGE.to_string());
    let mut query = vec![("q", words), ("offset", &skipped), ("count", &size)];
    query.extend(only);
    let found = match find(visit, &query).await {
        Ok(found) => found,
        Err(error) => {
            visit.failed(error)?;
            Found { items: Vec::new(), more: Vec::new() }
        }
    };
    Ok(Some(Filtered {
        next: next(at, PAGE, !found.more.is_empty()),
        hits: found.items.iter().map(|item| item.hit(visit)).collect(),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_beyond_what_the_api_answers_is_not_offered() {
        assert_eq!((next(0, 20, true), next(0, 20, false)), (Some(20), None));
        assert_eq!((next(980, 20, true), next(1000, 20, true)), (Some(1000), None));
    }
}
