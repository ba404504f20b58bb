//! Finds the page of a path.

use percent_encoding::percent_decode_str;

use super::errors;
use super::page::Page;
use super::pages;
use super::reply::Reply;
use crate::base::{Error, Result};

/// What answers below an organization where no page is: its members find the way back.
pub static MISSING: Page = Page::missing("/o/{org}/{*path}", |_| {
    Box::pin(async { Err::<Reply, _>(errors::no_such_page()) })
});

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
        let decoded = |value: &str| percent_decode_str(value).decode_utf8_lossy().into_owned();
        let Ok(matched) = self.0.at(path) else {
            let (organization, _) = path.strip_prefix("/o/")?.split_once('/')?;
            return Some((&MISSING, vec![decoded(organization)]));
        };
        let params = matched.params.iter().map(|(_, value)| decoded(value)).collect();
        Some((matched.value, params))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_an_organization_every_path_is_one_of_its_members() {
        let paths = Paths::new().unwrap();
        let found = |path: &str| paths.find(path).map(|(page, params)| (page.path, params));
        let acme = || vec!["acme".to_string()];
        assert_eq!(found("/o/acme/agents"), Some(("/o/{org}/agents", acme())));
        for path in ["/o/acme/", "/o/acme/nowhere", "/o/acme/agents/scribe/nowhere/at/all"] {
            assert_eq!(found(path), Some((MISSING.path, acme())), "{path}");
        }
        assert_eq!([found("/nowhere"), found("/o/"), found("/other/acme/x")], [None, None, None]);
    }
}
