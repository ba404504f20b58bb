//! Tags in lists: what they are filtered by, and as links.

use serde::de::DeserializeOwned;

use crate::base::{Result, Tag};
use crate::console::field::{Field, words};
use crate::console::hits::Listed;
use crate::console::visit::Visit;

/// The field of a form for the tags of what it is about.
pub fn field() -> Field {
    Field::text("tags", "Tags").words().optional().hint("Words with commas between them.")
}

/// So many tags a list can be filtered by.
const MAX: usize = 20;

/// The tags that a list is filtered by.
pub struct TagFilter {
    tags: Vec<String>,
}

impl TagFilter {
    /// Returns those of the query, which has them with commas between them.
    pub fn of(visit: &Visit) -> Self {
        let tags = words(visit.query.get("tag")).into_iter().map(String::from).collect();
        TagFilter { tags }
    }

    /// Whether there is a filter.
    pub fn is_set(&self) -> bool {
        !self.tags.is_empty()
    }

    /// Whether anything can have these tags: the API refuses others.
    fn can_be(&self) -> bool {
        self.tags.len() <= MAX && self.tags.iter().all(|tag| Tag::parse(&**tag).is_ok())
    }

    /// Reads what has these tags of the list at `path`: see [`Listed::read`].
    pub async fn listed<T: DeserializeOwned>(
        &self,
        visit: &Visit,
        only: &[(&str, &str)],
        path: &str,
        parameters: &[(&str, &str)],
    ) -> Result<Listed<T>> {
        if !self.can_be() && visit.query.some("q").is_none() {
            return Ok(Listed::none());
        }
        let tags = self.tags.iter().map(|tag| ("tag", tag.as_str()));
        let parameters: Vec<_> = parameters.iter().copied().chain(tags).collect();
        Listed::read(visit, only, path, &parameters).await
    }

    /// The filter as it is in the query of a page.
    pub fn text(&self) -> String {
        self.tags.join(",")
    }
}
