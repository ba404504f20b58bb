//! The documents say what there is: every dependency has its reason, every link leads somewhere.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

use std::fs;
use std::path::{Path, PathBuf};

/// The names under `[dependencies]` and `[dev-dependencies]` of a manifest.
fn dependencies(manifest: &str) -> Vec<&str> {
    let mut within = false;
    let mut names = Vec::new();
    for line in manifest.lines() {
        if line.starts_with('[') {
            within = line.ends_with("dependencies]");
        } else if let (true, Some((name, _))) = (within, line.split_once(" = ")) {
            names.push(name);
        }
    }
    names
}

/// Where the relative links of a document lead, without what stands behind a `#`.
fn links(document: &str) -> Vec<&str> {
    let ends = document.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(link, _)| link.split('#').next().unwrap_or_default())
        .filter(|link| !link.is_empty() && !link.contains("://"))
        .collect()
}

fn documents() -> Vec<PathBuf> {
    let mut all = vec![PathBuf::from("README.md")];
    for folder in ["docs", "docs/decisions", "packaging"] {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        all.extend(entries.filter(|path| path.extension().is_some_and(|end| end == "md")));
    }
    all
}

#[test]
fn every_dependency_has_its_reason_among_the_decisions() {
    let manifest = fs::read_to_string("Cargo.toml").unwrap();
    let named = dependencies(&manifest);
    assert!(named.contains(&"redb") && named.contains(&"proptest"), "{named:?}");
    let decisions: String = documents()
        .iter()
        .filter(|path| path.starts_with("docs/decisions"))
        .map(|path| fs::read_to_string(path).unwrap())
        .collect();
    for name in named {
        assert!(decisions.contains(&format!("`{name}`")), "docs/decisions says nothing of {name}");
    }
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    assert_eq!(links("[a](b.md#c) [d](https://e) [f](#g) [h](../i)"), ["b.md", "../i"]);
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for link in links(&text) {
            let to = path.parent().unwrap_or(Path::new("")).join(link);
            assert!(to.exists(), "{}: {link} leads nowhere", path.display());
        }
    }
}
