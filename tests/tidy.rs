//! Rules of the code base that a compiler does not check (`docs/ARCHITECTURE.md`): which layer may
//! import which, which words stay out of which layers, and how a file looks. Each check is a
//! function over sources, tried on sources that break its rule before the crate's own are read.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "tidy/comments.rs"]
mod comments;
#[path = "tidy/cycles.rs"]
mod cycles;
#[path = "tidy/errors.rs"]
mod errors;
#[path = "tidy/events.rs"]
mod events;
mod golden;
#[path = "tidy/imports.rs"]
mod imports;
#[path = "tidy/layers.rs"]
mod layers;
#[path = "tidy/log.rs"]
mod log;
#[path = "tidy/shape.rs"]
mod shape;
#[path = "tidy/source.rs"]
mod source;
#[path = "tidy/words.rs"]
mod words;

use source::Source;

/// Fails if `check` reports anything about the crate's own sources.
fn assert_clean(check: impl Fn(&Source) -> Vec<String>) {
    let found: Vec<String> = source::all().iter().flat_map(check).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

/// Fails unless what `check` reports about each source (path, text) contains the phrase; an empty
/// phrase means that it reports nothing.
fn assert_reports(check: impl Fn(&Source) -> Vec<String>, cases: &[(&str, &str, &str)]) {
    for (path, text, phrase) in cases {
        let found = check(&Source::new(path, text));
        if phrase.is_empty() {
            assert_eq!(found, Vec::<String>::new(), "{text}");
        } else {
            assert!(found.iter().any(|one| one.contains(phrase)), "{text}: {found:?}");
        }
    }
}

/// Limits a check to the product's own code; what only tests compile is free of it.
fn of_product(check: impl Fn(&Source) -> Vec<String>) -> impl Fn(&Source) -> Vec<String> {
    move |source| if source.is_test { vec![] } else { check(source) }
}
