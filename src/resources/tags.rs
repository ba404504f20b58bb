//! Tags of artifacts, agents and tools, by which lists are filtered (reference: conventions, "Tags").
//!
//! They are in the record, as they were sent, and found by an index with each of them folded, so that
//! `Beta` and `beta` are one. A change of the folding takes another version of those indexes.

use std::collections::BTreeSet;

use crate::api::Resource;
use crate::base::{BoundedList, Issue, Tag, fold_first};

/// They declare nothing of their own.
pub const RESOURCE: Resource = Resource::EMPTY;

/// At most 20: each is an entry of an index, which is written anew whenever an artifact changes.
const MAX_TAGS: usize = 20;

/// Of a folded tag so many characters are compared: three for each, which is what the longest have.
const MAX_FOLDED: usize = 150;

/// The tags of a request: those of a resource, or those that a list is filtered by.
pub type Tags = BoundedList<Tag, 0, MAX_TAGS>;

/// Returns what a tag is compared and found by.
fn folded(tag: &Tag) -> String {
    fold_first(tag, MAX_FOLDED).into_owned()
}

/// Returns what a resource with these tags is found by.
pub fn keys(tags: &[Tag]) -> Vec<String> {
    tags.iter().map(folded).collect()
}

/// Refuses tags of which two are the same.
pub fn check(tags: Option<&Tags>, issues: &mut Vec<Issue>) {
    let mut seen = BTreeSet::new();
    for (n, tag) in tags.into_iter().flat_map(|tags| tags.iter()).enumerate() {
        if !seen.insert(folded(tag)) {
            let message = "is the same tag as one before it, whatever the case; send each once";
            issues.push(Issue::new(format!("tags[{n}]"), message));
        }
    }
}

/// The tags that a list is filtered by: what is in it has all of them.
pub struct Wanted(BTreeSet<String>);

impl Wanted {
    /// Returns the tags of a filter.
    pub fn of(filter: Option<&Tags>) -> Self {
        Wanted(filter.into_iter().flat_map(|tags| tags.iter()).map(folded).collect())
    }

    /// The one whose entries in the index are read, the same for each page; `None` if there is no filter.
    pub fn first(&self) -> Option<&String> {
        self.0.first()
    }

    /// Whether a resource with these tags has all of them.
    pub fn are_in(&self, tags: &[Tag]) -> bool {
        self.0.is_empty() || {
            let own = keys(tags);
            self.0.iter().all(|tag| own.contains(tag))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tags(all: &[&str]) -> Tags {
        Tags::new(all.iter().map(|tag| Tag::parse(*tag).unwrap()).collect()).unwrap()
    }

    #[test]
    fn tags_are_the_same_in_any_case_and_form() {
        let mut issues = Vec::new();
        check(Some(&tags(&["Größe", "beta", "GRÖSSE", "gamma", "BETA"])), &mut issues);
        let paths: Vec<_> = issues.iter().map(|issue| issue.path.as_str()).collect();
        assert_eq!(paths, ["tags[2]", "tags[4]"]);
        let wanted = Wanted::of(Some(&tags(&["gamma", "BETA", "beta"])));
        assert_eq!(wanted.first().map(String::as_str), Some("beta"));
        assert!(wanted.are_in(&tags(&["Beta", "Gamma", "x"])));
        assert!(!wanted.are_in(&tags(&["Beta"])));
        assert!(Wanted::of(None).first().is_none() && Wanted::of(None).are_in(&[]));
    }

    #[test]
    fn the_longest_tags_fit_a_key_and_differ_where_they_end() {
        let long = |end: &str| Tag::parse("ß".repeat(49) + end).unwrap();
        assert_eq!(folded(&long("a")).chars().count(), 99);
        assert_ne!(folded(&long("a")), folded(&long("b")));
        for c in ["ß", "ΐ", "𐐀", "ŉ", "漢"] {
            let Ok(tag) = Tag::parse(c.repeat(50)) else { continue };
            assert!(folded(&tag).len() <= 600, "{c}");
        }
    }

    #[test]
    fn a_tag_is_a_short_name_without_commas() {
        assert!(Tag::parse("x".repeat(50)).is_ok());
        for wrong in ["", " ", " a", "a ", "a,b", "a\u{200b}", "a\n", &"x".repeat(51)] {
            assert!(Tag::parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
