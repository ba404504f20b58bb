//! Texts with Markdown.

use super::markdown::{html, html_to_decide};

/// What a page has of a text: elements, and those without an end.
const ELEMENTS: [&str; 14] = [
    "p",
    "blockquote",
    "pre",
    "ul",
    "ol",
    "li",
    "em",
    "strong",
    "s",
    "code",
    "a",
    "small",
    "details",
    "summary",
];
const SINGLE: [&str; 2] = ["br", "hr"];

/// Any text becomes the elements of a page, each with its end, and links that run no script.
///
/// # Panics
/// If that is not so.
pub fn markdown(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    for shown in [html(&text), html_to_decide(&text)] {
        look_at(&shown);
    }
}

fn look_at(shown: &str) {
    let mut open = Vec::new();
    for part in shown.split('<').skip(1) {
        let (tag, _) = part.split_once('>').expect("what begins a tag ends it");
        let name = tag.split(' ').next().unwrap_or_default();
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "{shown}"),
            None if SINGLE.contains(&tag) => {}
            None => {
                assert!(ELEMENTS.contains(&name), "{shown}");
                open.push(name);
            }
        }
        if let Some(rest) = tag.strip_prefix("a href=\"") {
            let known = ["http://", "https://", "mailto:", "/"];
            let is_known = |scheme: &&str| {
                rest.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme))
            };
            assert!(known.iter().any(is_known) && !rest.starts_with("//"), "{shown}");
            assert!(
                rest.ends_with("\" rel=\"noopener noreferrer\"") && rest.matches('"').count() == 3
            );
        }
    }
    assert!(open.is_empty(), "{shown}");
}
