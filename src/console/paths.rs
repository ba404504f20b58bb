//! Finds the page of a path.

use percent_encoding::percent_decode_str;

use super::page::Page;
use super::pages;
use crate::base::{Error, Result};

/// The pages by their paths.
pub struct Paths(matchit::Router<&'static Page>);

impl Paths {
    /// The paths of all pages.
    ///
    /// # Errors
    /// If two of them are ambiguous.
    pub fn new() -> Result<Self> {
        let mut paths = matchit::Router::new();
        for page in pages::all() {
            let added = paths.insert(page.path, page);
            added.map_err(|error| Error::internal(format!("{}: {error}", page.path)))?;
        }
        Ok(Paths(paths))
    }

    /// The page of a path, with the parameters in it.
    pub fn find(&self, path: &str) -> Option<(&'static Page, Vec<String>)> {
        let matched = self.0.at(path).ok()?;
        let decoded = |value: &str| percent_decode_str(value).decode_utf8_lossy().into_owned();
        let params = matched.params.iter().map(|(_, value)| decoded(value)).collect();
        Some((matched.value, params))
    }
}
