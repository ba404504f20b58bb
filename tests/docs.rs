//! The documents say what there is: every dependency has its reason, every link and every source
//! named in them exists.
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "docs/calls.rs"]
mod calls;
#[path = "docs/checks.rs"]
mod checks;

use std::fs;
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{SHA256, digest};

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

/// Where the relative links of a document lead: a file, empty for the document itself, and the
/// anchor in it, if there is one.
fn links(document: &str) -> Vec<(&str, Option<&str>)> {
    let ends = document.split("](").skip(1).filter_map(|rest| rest.split_once(')'));
    ends.map(|(link, _)| link)
        .filter(|link| !link.contains("://"))
        .map(|link| match link.split_once('#') {
            Some((file, anchor)) => (file, Some(anchor)),
            None => (link, None),
        })
        .collect()
}

/// The paths of Rust sources that a document names in backticks.
fn files_named(document: &str) -> Vec<&str> {
    let quoted = document.split('`').skip(1).step_by(2);
    quoted.filter(|text| text.ends_with(".rs") && !text.contains([' ', '{', '*'])).collect()
}

/// The headings of a document, of all levels, without code blocks.
fn headings(document: &str) -> Vec<&str> {
    let mut in_code = false;
    let mut headings = Vec::new();
    for line in document.lines() {
        in_code ^= line.starts_with("```");
        if !in_code && line.starts_with('#') {
            headings.push(line.trim_start_matches('#').trim());
        }
    }
    headings
}

/// The anchor by which a heading is linked to.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// What the comments of a source cite of the reference: pages, each with the headings cited.
fn citations(source: &str) -> Vec<(String, Vec<String>)> {
    let comments = source.lines().filter_map(|line| line.trim_start().strip_prefix("//"));
    let texts = comments.map(|line| line.trim_start_matches(['/', '!']).trim());
    let text = texts.collect::<Vec<_>>().join(" ");
    let mut cited = Vec::new();
    for rest in text.split("reference: ").skip(1) {
        let inside = rest.split(')').next().unwrap_or_default();
        for part in inside.split("; ") {
            let mut words = part.split('"');
            let page = words.next().unwrap_or_default().trim_end_matches([',', ' ']);
            if page.is_empty() || !page.bytes().all(|b| b.is_ascii_lowercase() || b == b'-') {
                break; // What follows is no citation, or says more in words.
            }
            cited.push((page.to_string(), words.step_by(2).map(String::from).collect()));
        }
    }
    cited
}

/// The Rust sources below a folder.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            all.extend(sources(&path));
        } else if path.extension().is_some_and(|end| end == "rs") {
            all.push(path);
        }
    }
    all
}

fn documents() -> Vec<PathBuf> {
    let mut all: Vec<_> = ["README.md", "CHANGELOG.md", "SECURITY.md"].map(PathBuf::from).into();
    for folder in ["docs", "docs/decisions", "docs/reference", "packaging"] {
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
fn the_readme_is_a_first_page_with_the_two_commands_that_set_everything_up() {
    let readme = fs::read_to_string("README.md").unwrap();
    assert!(readme.len() <= 12 * 1024, "{} bytes: move something to docs/", readme.len());
    for command in ["cargo run --release -- demo", "cargo test"] {
        let is_alone = readme.lines().filter(|line| *line == command).count() == 1;
        assert!(is_alone, "{command} is not alone on one line");
    }
}

#[test]
fn every_link_of_a_document_leads_somewhere() {
    let some = "[a](b.md#c) [d](https://e) [f](#g) [h](../i)";
    assert_eq!(links(some), [("b.md", Some("c")), ("", Some("g")), ("../i", None)]);
    for path in documents() {
        let text = fs::read_to_string(&path).unwrap();
        for (file, wanted) in links(&text) {
            let to = match file {
                "" => path.clone(),
                file => path.parent().unwrap_or(Path::new("")).join(file),
            };
            assert!(to.exists(), "{}: {file} leads nowhere", path.display());
            let Some(wanted) = wanted.filter(|_| to.extension().is_some_and(|end| end == "md"))
            else {
                continue;
            };
            let target = fs::read_to_string(&to).unwrap();
            let is_there = headings(&target).iter().any(|heading| anchor(heading) == wanted);
            assert!(is_there, "{}: {file}#{wanted} leads nowhere", path.display());
        }
    }
}

/// Names the registry's packages of a Cargo.lock, as `packaging/notices` does.
fn fingerprint(lock: &str) -> String {
    let lock: toml::Table = toml::from_str(lock).unwrap();
    let text = |package: &toml::Value, field| {
        package.get(field).and_then(toml::Value::as_str).map(String::from)
    };
    let packages = lock["package"].as_array().unwrap().iter();
    let mut lines: Vec<String> = packages
        .filter_map(|package| {
            let name = format!("{} {}", text(package, "name")?, text(package, "version")?);
            Some(format!("{name} {}\n", text(package, "checksum")?))
        })
        .collect();
    lines.sort();
    let hash = digest(&SHA256, lines.concat().as_bytes());
    hash.as_ref().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[test]
fn the_notices_are_those_of_the_packages_that_are_locked() {
    let lock = fs::read_to_string("Cargo.lock").unwrap();
    let notices = fs::read_to_string("packaging/NOTICES.txt").unwrap();
    assert!(
        notices.contains(&format!(" of Cargo.lock {}.\n", fingerprint(&lock))),
        "Cargo.lock has changed; run packaging/notices"
    );
    let other = lock.replacen("version = \"1.", "version = \"2.", 1);
    assert_ne!(fingerprint(&lock), fingerprint(&other));
}

#[test]
fn every_source_that_a_document_names_exists() {
    assert_eq!(files_named("`a/b.rs` c.rs `d` `src/NAME.rs`"), ["a/b.rs", "src/NAME.rs"]);
    let folders = ["src", "tests", "benches"].iter();
    let all: Vec<PathBuf> = folders.flat_map(|folder| sources(Path::new(folder))).collect();
    for path in documents() {
        for file in files_named(&fs::read_to_string(&path).unwrap()) {
            // `NAME.rs` is to be written; the end of a path is enough, as in `store/key.rs`.
            let exists = file.contains("NAME") || all.iter().any(|source| source.ends_with(file));
            assert!(exists, "{}: there is no {file}", path.display());
        }
    }
}

#[test]
fn every_section_that_a_comment_cites_is_in_the_reference() {
    let some = "/// A (reference: b, \"C d\",\n/// \"E\"; f).\nreference: g,";
    let cited = |page: &str, headings: &[&str]| {
        (page.to_string(), headings.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(citations(some), [cited("b", &["C d", "E"]), cited("f", &[])]);
    for path in ["src", "tests", "benches"].iter().flat_map(|folder| sources(Path::new(folder))) {
        if path.ends_with("tests/docs.rs") {
            continue; // Its citations are examples.
        }
        for (page, wanted) in citations(&fs::read_to_string(&path).unwrap()) {
            let file = format!("docs/reference/{page}.md");
            let text = fs::read_to_string(&file)
                .unwrap_or_else(|e| panic!("{}: {file}: {e}", path.display()));
            let there = headings(&text);
            for heading in wanted {
                let is_there = there.contains(&heading.as_str());
                assert!(is_there, "{}: {file} has no section {heading:?}", path.display());
            }
        }
    }
}
