//! The names of the parts of an archive, and finding a part by what others call it.
//!
//! Programs differ in the case of names, in whether they write `%20` or a blank, and in how an accent is
//! composed: in the archive, and in the parts that refer to another one.

use std::borrow::Cow;
use std::collections::HashMap;

use percent_encoding::percent_decode_str;
use unicode_normalization::UnicodeNormalization as _;

/// The parts of an archive by their names.
pub struct PartNames {
    /// Where each is, by its name as it is, and in the other forms that no other part has.
    places: HashMap<String, usize>,
}

impl PartNames {
    /// The parts with these names, in the order of the archive.
    pub fn new(names: &[Cow<str>]) -> Self {
        let names: Vec<String> = names.iter().map(|name| resolved("", name)).collect();
        let mut places = HashMap::with_capacity(names.len());
        for form in
            [String::clone, |name: &String| folded(name), |name: &String| folded(&decoded(name))]
        {
            for (at, name) in names.iter().enumerate() {
                places.entry(form(name)).or_insert(at);
            }
        }
        PartNames { places }
    }

    /// Returns where the part is that this name means: one with exactly this name, or else in any case, or
    /// else where one of both has `%20` for a blank, and so on.
    pub fn find(&self, name: &str) -> Option<usize> {
        let exact = self.places.get(name);
        let found = exact.or_else(|| self.places.get(&folded(name)));
        found.or_else(|| self.places.get(&folded(&decoded(name)))).copied()
    }

    /// The names, each at least in lower case, and in no order.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.places.keys().map(String::as_str)
    }
}

fn folded(name: &str) -> String {
    if name.is_ascii() { name.to_ascii_lowercase() } else { name.to_lowercase().nfc().collect() }
}

/// A name without percent signs that stand for other characters; as it is, if they stand for none.
fn decoded(name: &str) -> Cow<'_, str> {
    percent_decode_str(name).decode_utf8().unwrap_or(name.into())
}

/// Returns the name of the part to which a path leads from a part of this name.
pub fn resolved(from: &str, path: &str) -> String {
    let path = path.replace('\\', "/");
    let folder = match path.starts_with('/') {
        true => "",
        false => from.rsplit_once('/').map_or("", |(folder, _)| folder),
    };
    let mut parts: Vec<&str> = Vec::new();
    for part in folder.split('/').chain(path.split('/')) {
        match part {
            "" | "." => {}
            ".." => _ = parts.pop(),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The path of a link to a place in a part.
pub fn path(link: &str) -> &str {
    link.split(['#', '?']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_found_from_where_they_are_named() {
        for (from, target, name) in [
            ("ppt/presentation.xml", "slides/slide1.xml", "ppt/slides/slide1.xml"),
            ("ppt/presentation.xml", "./slides\\slide1.xml", "ppt/slides/slide1.xml"),
            ("ppt/slides/slide1.xml", "../notes/a.xml", "ppt/notes/a.xml"),
            ("ppt/slides/slide1.xml", "/ppt/a.xml", "ppt/a.xml"),
            ("ppt/slides/slide1.xml", "/ppt/../ppt/./a.xml", "ppt/a.xml"),
            ("", "word/document.xml", "word/document.xml"),
            ("a.opf", "../../b.html#part", "b.html"),
            ("OPS/a.opf", "b.html?a#b?c", "OPS/b.html"),
        ] {
            assert_eq!(resolved(from, path(target)), name);
        }
    }

    #[test]
    fn a_part_is_found_by_what_others_call_it() {
        let all = |names: &[&'static str]| {
            PartNames::new(&names.iter().map(|name| (*name).into()).collect::<Vec<_>>())
        };
        for (own, called) in [
            ("a/b.xml", "A/B.XML"),
            ("A\\b.xml", "a/B.xml"),
            ("a/two words.xml", "a/two%20words.xml"),
            ("a/two%20words.xml", "A/two words.xml"),
            ("a/two%20words.xml", "a/two%20words.xml"),
            ("/a/100%25.xml", "a/100%.xml"),
            ("a/100%.xml", "a/100%.xml"),
            ("a/caf%C3%A9.xml", "a/Café.xml"),
            ("a/cafe\u{301}.xml", "a/caf%c3%a9.xml"),
            ("a/Я.xml", "a/я.xml"),
            ("a/what?#1.xml", "a/what%3f%231.xml"),
        ] {
            assert_eq!(all(&["x", own]).find(called), Some(1), "{own} {called}");
        }
        // One that has the name comes first.
        let several = all(&["a b", "a%20b", "A b", "a%2520b", "c"]);
        for (at, name) in ["a b", "a%20b", "A b", "a%2520b", "c"].iter().enumerate() {
            assert_eq!(several.find(name), Some(at), "{name}");
        }
        assert_eq!(several.find("A%20b"), Some(1));
        assert_eq!(several.find("a%ff"), None);
        assert_eq!(several.find(""), None);
    }
}
