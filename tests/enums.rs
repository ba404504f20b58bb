//! The numbers under which enums are stored: each is declared, listed in `tests/golden/enums.txt`,
//! and never changes.
//!
//! `ROADSTEAD_UPDATE_GOLDEN=1 cargo test --test enums` adds new numbers to the list. It never
//! changes a line: a variant that was renamed is renamed there by hand, and one that no record
//! holds any longer is marked there with ` retired`, so that its number is not used again.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[allow(dead_code)] // It serves another test too.
#[path = "tidy/source.rs"]
mod source;

use source::{Kind, Source, starts_with, tokens};

/// The types that encode themselves by hand; none is an enum.
const OWN_ENCODING: &[&str] = &["src/base/id.rs", "src/base/json.rs", "src/base/text.rs"];

/// The one place where enums are encoded.
const STORED_ENUM: &str = "src/store/stored_enum.rs";

/// Casts to a byte that do not end up in a stored row as an enum's number, with how many there are.
const BYTE_CASTS: &[(&str, usize)] = &[
    ("src/auth/tokens.rs", 1),                       // A digit.
    ("src/resources/notifications/workflows.rs", 1), // A position in a list.
    ("src/resources/teams/tasks.rs", 2),             // A priority, bounded by its type.
];

/// A stored enum's name and a number, and the variant that has it.
type Numbers = BTreeMap<(String, u8), String>;

/// The places in `source` where these tokens begin.
fn places<'a>(source: &'a Source, code: &str) -> impl Iterator<Item = usize> + use<'a> {
    let code: Vec<String> = tokens(code).into_iter().map(|token| token.text).collect();
    (0..source.tokens.len()).filter(move |at| starts_with(&source.tokens[*at..], &code))
}

/// Every `stored_enum!(Name { Variant = 0, Other(field: Type) = 1 })` of a source.
fn declared(source: &Source) -> Vec<(String, String, u8)> {
    let mut found = Vec::new();
    for at in places(source, "stored_enum!").filter(|at| source.tokens[at + 2].is("(")) {
        let body = &source.tokens[at + 3..];
        let name = &body[0].text;
        let mut last = "";
        for window in body[2..].windows(2) {
            let [token, next] = window else { unreachable!() };
            match token.text.as_str() {
                ")" if next.is(";") => break,
                "=" => found.push((name.clone(), last.to_string(), next.text.parse().unwrap())),
                word if token.kind == Kind::Word && (next.is("=") || next.is("(")) => last = word,
                _ => {}
            }
        }
    }
    found
}

/// What is wrong with how the enums of a source are stored.
fn undeclared(source: &Source) -> Vec<String> {
    let mut found = Vec::new();
    let path = &source.path;
    for at in places(source, "enum") {
        let name = &source.tokens[at + 1].text;
        let attributes = source.tokens[..at].iter().rev();
        // Back to the end of the item before: attributes have neither of these outside of strings.
        let attributes =
            attributes.take_while(|token| !["}", ";", "{"].iter().any(|end| token.is(end)));
        if attributes.clone().any(|token| token.is("Encode") || token.is("Decode")) {
            let line = source.tokens[at].first_line;
            found.push(format!("{path}:{line}: {name} derives its numbers; use stored_enum!"));
        }
    }
    let by_hand = |code| places(source, code).next().is_some();
    if (by_hand("Encode for") || by_hand("bincode::Encode for"))
        && path != STORED_ENUM
        && !OWN_ENCODING.contains(&path.as_str())
    {
        found.push(format!("{path}: encodes something by hand; an enum uses stored_enum!"));
    }
    let casts = places(source, "as u8").count();
    let allowed = BYTE_CASTS.iter().find(|(file, _)| file == path).map_or(0, |(_, casts)| *casts);
    let speaks_records = ["api", "auth", "outbox", "resources"]
        .iter()
        .any(|folder| path.starts_with(&format!("src/{folder}/")));
    if speaks_records && casts > allowed {
        found.push(format!("{path}: casts to u8; a key takes the enum itself"));
    }
    found
}

/// What differs between the numbers that were ever stored (`kept`, some of them retired) and those
/// of the sources.
fn broken(kept: &BTreeMap<(String, u8), (String, bool)>, now: &Numbers) -> Vec<String> {
    let mut found = Vec::new();
    for ((name, number), (variant, is_retired)) in kept {
        match now.get(&(name.clone(), *number)) {
            Some(other) if *is_retired || other != variant => found.push(format!(
                "{name} {number} meant {variant} and now means {other}: take a new number"
            )),
            None if !is_retired => found.push(format!(
                "{name}.{variant} = {number} is gone: rows that hold it no longer read"
            )),
            _ => {}
        }
    }
    for (name, number) in now.keys() {
        if !kept.contains_key(&(name.clone(), *number)) {
            found.push(format!(
                "{name} {number} is not in the list; see the head of tests/enums.rs"
            ));
        }
    }
    found
}

fn parsed(list: &str) -> BTreeMap<(String, u8), (String, bool)> {
    list.lines()
        .map(|line| {
            let (line, is_retired) =
                line.strip_suffix(" retired").map_or((line, false), |line| (line, true));
            let (name, number) = line.split_once(" = ").unwrap();
            let (name, variant) = name.split_once('.').unwrap();
            ((name.into(), number.parse().unwrap()), (variant.into(), is_retired))
        })
        .collect()
}

fn numbers(sources: &[Source]) -> Numbers {
    let mut numbers = Numbers::new();
    let mut homes = BTreeSet::new();
    for source in sources.iter().filter(|source| !source.is_test && source.path != STORED_ENUM) {
        let all = declared(source);
        let names: BTreeSet<_> = all.iter().map(|(name, ..)| name.clone()).collect();
        for name in names {
            assert!(homes.insert(name.clone()), "two stored enums are named {name}");
        }
        for (name, variant, number) in all {
            let twice = numbers.insert((name.clone(), number), variant);
            assert_eq!(twice, None, "{name} has {number} twice");
        }
    }
    numbers
}

#[test]
fn every_stored_enum_declares_its_numbers() {
    for (text, phrase) in [
        ("#[derive(Clone, Encode)]\n#[serde(rename = \"a\")]\npub enum A { B }", "A derives"),
        ("/// A.\n#[derive(bincode::Decode)]\nenum A { B }", "A derives"),
        ("#[derive(Encode)]\nstruct S { a: u8 }\n#[derive(Clone)]\nenum A { B }", ""),
        ("impl Encode for A {}", "by hand"),
        ("impl<T> bincode::Encode for A<T> {}", "by hand"),
        ("fn key(a: A) -> u8 { a as u8 }", "takes the enum itself"),
    ] {
        let found = undeclared(&Source::new("src/resources/a.rs", text));
        if phrase.is_empty() {
            assert_eq!(found, Vec::<String>::new(), "{text}");
        } else {
            assert!(found.iter().any(|one| one.contains(phrase)), "{text}: {found:?}");
        }
    }
    let sources = source::all();
    let found: Vec<_> =
        sources.iter().filter(|source| !source.is_test).flat_map(undeclared).collect();
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}

#[test]
fn numbers_are_read_from_the_sources() {
    let text = "crate::store::stored_enum!(End { Published(at: Time) = 0, Deleted(at: Time) = 3 });
                stored_enum!(A {\n B = 1,\n C = 2,\n});";
    let found = declared(&Source::new("src/a.rs", text));
    let found: Vec<_> = found
        .iter()
        .map(|(name, variant, number)| format!("{name}.{variant} = {number}"))
        .collect();
    assert_eq!(found, ["End.Published = 0", "End.Deleted = 3", "A.B = 1", "A.C = 2"]);
}

#[test]
fn no_stored_number_ever_changes_or_is_used_again() {
    let kept = parsed("A.B = 0\nA.C = 1\nA.D = 2 retired\n");
    let now = |list: &[(u8, &str)]| -> Vec<String> {
        let now = list.iter().map(|(n, variant)| (("A".into(), *n), variant.to_string()));
        broken(&kept, &now.collect())
    };
    assert_eq!(now(&[(0, "B"), (1, "C")]), Vec::<String>::new());
    assert!(now(&[(0, "C"), (1, "B")])[0].contains("take a new number"));
    assert!(now(&[(0, "B"), (1, "C"), (2, "D")])[0].contains("take a new number"));
    assert!(now(&[(0, "B")])[0].contains("is gone"));
    assert!(now(&[(0, "B"), (1, "C"), (3, "E")])[0].contains("not in the list"));

    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/enums.txt");
    let list = std::fs::read_to_string(&file).unwrap_or_default();
    let mut kept = parsed(&list);
    let now = numbers(source::all());
    assert!(now.len() > 90, "the sources are read");
    if std::env::var_os("ROADSTEAD_UPDATE_GOLDEN").is_some() {
        for (place, variant) in &now {
            kept.entry(place.clone()).or_insert_with(|| (variant.clone(), false));
        }
        let line = |((name, number), (variant, is_retired)): (&(String, u8), &(String, bool))| {
            let retired = if *is_retired { " retired" } else { "" };
            format!("{name}.{variant} = {number}{retired}\n")
        };
        std::fs::write(&file, kept.iter().map(line).collect::<String>()).unwrap();
    }
    let found = broken(&kept, &now);
    assert!(found.is_empty(), "\n{}\n", found.join("\n"));
}
