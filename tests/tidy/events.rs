//! A resource's entry declares the events that it publishes: each type that its files name, and no
//! other. A file without an entry belongs to that of its folder.

use std::collections::BTreeSet;
use std::ops::Range;

use crate::source::{self, Source, after_group, starts_with};

const ENTRY: [&str; 6] = ["const", "RESOURCE", ":", "Resource", "=", "Resource"];

/// The tokens of a source's entry, from the brace on.
fn entry(source: &Source) -> Option<Range<usize>> {
    let tokens = &source.tokens;
    let start = (0..tokens.len()).find(|at| starts_with(&tokens[*at..], &ENTRY))? + ENTRY.len();
    Some(start..after_group(tokens, start))
}

/// The event types that a source names in these tokens, with their lines.
fn named(source: &Source, tokens: impl Iterator<Item = usize>) -> Vec<(usize, String)> {
    let named = tokens.filter(|at| starts_with(&source.tokens[*at..], &["EventType", "::"]));
    let named = named.filter_map(|at| source.tokens.get(at + 2));
    let named = named.filter(|token| !token.is("ALL") && !token.is("{"));
    named.map(|token| (token.first_line, token.text.clone())).collect()
}

/// The file whose entry a file belongs to: itself, or the `mod.rs` of a folder around it.
fn owner<'a>(sources: &'a [Source], path: &str) -> Option<&'a Source> {
    let folders = path.match_indices('/').map(|(at, _)| format!("{}/mod.rs", &path[..at]));
    let mut candidates: Vec<String> = folders.collect();
    candidates.push(path.into());
    let with_entry = |path: &String| {
        sources.iter().find(|source| source.path == *path && entry(source).is_some())
    };
    candidates.iter().rev().find_map(with_entry)
}

/// Types that are published without being declared, or declared without being published.
fn undeclared_or_unpublished(sources: &[Source]) -> Vec<String> {
    let mut found = Vec::new();
    let mut published = BTreeSet::new();
    let product = |source: &&Source| source.path.starts_with("src/resources/") && !source.is_test;
    for source in sources.iter().filter(product) {
        let own = entry(source).unwrap_or_default();
        let outside = (0..source.tokens.len()).filter(|at| !own.contains(at));
        for (line, event) in named(source, outside) {
            let path = &source.path;
            let Some(owner) = owner(sources, path) else {
                found.push(format!("{path}:{line}: {event} is published without an entry"));
                continue;
            };
            let declared = named(owner, entry(owner).unwrap_or_default());
            if !declared.iter().any(|(_, declared)| *declared == event) {
                let at = &owner.path;
                found.push(format!("{path}:{line}: {event} is not declared in the entry of {at}"));
            }
            published.insert((owner.path.clone(), event));
        }
    }
    for source in sources.iter().filter(product) {
        for (line, event) in named(source, entry(source).unwrap_or_default()) {
            let declared = (source.path.clone(), event);
            if !published.contains(&declared) {
                let (path, event) = declared;
                found.push(format!("{path}:{line}: {event} is declared but not published"));
            }
        }
    }
    found
}

#[test]
fn every_published_event_is_declared_and_every_declared_one_is_published() {
    let violations = |files: &[(&str, &str)]| {
        let sources: Vec<_> = files.iter().map(|(path, text)| Source::new(path, text)).collect();
        undeclared_or_unpublished(&sources)
    };
    const DECLARES: &str = "pub const RESOURCE: Resource = \
        Resource { routes, events: &[EventType::A], ..Resource::EMPTY };";
    let publishes = "fn f() { publish(tx, EventType::A, about, payload) }";
    let other = "fn f() -> EventType { EventType::B }";
    let a = "src/resources/a.rs";
    let (folder, inner) = ("src/resources/b/mod.rs", "src/resources/b/c/d.rs");
    let both = format!("{DECLARES}\n{publishes}");
    assert_eq!(violations(&[(a, &both)]), [""; 0]);
    assert_eq!(violations(&[(folder, DECLARES), (inner, publishes)]), [""; 0]);
    assert_eq!(
        violations(&[(a, "fn f() { EventType::ALL }"), ("src/outbox/a.rs", other)]),
        [""; 0]
    );
    let not_published = "src/resources/a.rs:1: A is declared but not published";
    assert_eq!(violations(&[(a, DECLARES)]), [not_published]);
    assert_eq!(violations(&[(a, DECLARES), (inner, publishes)]).len(), 2);
    assert_eq!(
        violations(&[(a, &both), ("src/resources/e.rs", other)]),
        ["src/resources/e.rs:1: B is published without an entry"]
    );
    let wrong =
        "src/resources/b/c/d.rs:1: B is not declared in the entry of src/resources/b/mod.rs";
    assert_eq!(violations(&[(folder, &both), (inner, other)]), [wrong]);

    let found = undeclared_or_unpublished(source::all());
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
