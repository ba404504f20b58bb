//! Every id in a record is declared: as a reference with what removing its target does, or with the
//! reason why the transaction does not enforce one.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod golden;
#[allow(dead_code)] // `tidy` uses the rest.
#[path = "tidy/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};

use roadstead::store::{Action, AnyReference, TableInfo};
use source::{Kind, Source, Token, after_group, starts_with};

/// Which user created, changed or paused something, which every record may say without declaring it:
/// history, for they may have left.
const HISTORY: [&str; 3] = ["created_by", "updated_by", "paused.by"];
/// What the id of a user is of; the outbox is below users.
const USER: [&str; 2] = ["User", ")"];

fn tables() -> Vec<TableInfo> {
    [roadstead::resources::tables(), roadstead::store::TABLES.to_vec()].concat()
}

fn references() -> Vec<&'static dyn AnyReference> {
    tables().iter().flat_map(|table| (table.references)()).collect()
}

// ── The ids in the sources ───────────────────────────────────────────────────

/// A struct or enum that is stored, as its source declares it.
struct Stored {
    name: String,
    path: String,
    /// Names and types of its fields; those of an enum or tuple have no name.
    fields: Vec<(String, Vec<Token>)>,
}

/// A record: its table, and the name and file of its type.
struct Declared {
    table: String,
    name: String,
    path: String,
}

fn stored(source: &Source) -> Vec<Stored> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    let mut is_stored = false;
    for (at, token) in tokens.iter().enumerate() {
        if starts_with(&tokens[at..], &["#", "[", "derive"]) {
            let group = &tokens[at..after_group(tokens, at + 1)];
            is_stored |= group.iter().any(|token| token.is("Encode"));
        }
        let is_struct = token.is("struct");
        if !(is_struct || token.is("enum")) || !std::mem::take(&mut is_stored) {
            continue;
        }
        let opens = |token: &Token| token.is("{") || token.is("(") || token.is(";");
        let open = at + tokens[at..].iter().position(opens).unwrap();
        let body = &tokens[open..after_group(tokens, open)];
        let fields = match tokens[open].text.as_str() {
            "{" if is_struct => fields(body),
            "{" => vec![(String::new(), payloads(body))],
            _ => vec![(String::new(), body.to_vec())],
        };
        let (name, path) = (tokens[at + 1].text.clone(), source.path.clone());
        found.push(Stored { name, path, fields });
    }
    found
}

/// The fields of a struct from its body in braces.
fn fields(body: &[Token]) -> Vec<(String, Vec<Token>)> {
    let mut fields = Vec::new();
    let mut at = 1;
    while at < body.len() {
        match &body[at] {
            token if token.is("#") => at = after_group(body, at + 1),
            token if token.kind == Kind::Word && body.get(at + 1).is_some_and(|t| t.is(":")) => {
                let (name, from) = (token.text.clone(), at + 2);
                let mut depth = 0;
                at = from;
                while let Some(token) = body.get(at) {
                    match token.text.as_str() {
                        "<" | "(" | "[" => depth += 1,
                        ">" | ")" | "]" => depth -= 1,
                        "," | "}" if depth == 0 => break,
                        _ => {}
                    }
                    at += 1;
                }
                fields.push((name, body[from..at].to_vec()));
            }
            _ => at += 1,
        }
    }
    fields
}

/// What the variants of an enum hold, from its body in braces.
fn payloads(body: &[Token]) -> Vec<Token> {
    let mut payloads = Vec::new();
    let mut at = 1;
    while at < body.len() {
        let end = after_group(body, at);
        match &body[at] {
            token if token.is("#") => at = after_group(body, at + 1),
            token if token.is("(") || token.is("{") => {
                payloads.extend_from_slice(&body[at..end]);
                at = end;
            }
            _ => at += 1,
        }
    }
    payloads
}

fn declared(source: &Source) -> Vec<Declared> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        if !starts_with(&tokens[at..], &["impl", "Record", "for"]) {
            continue;
        }
        let open = at + tokens[at..].iter().position(|token| token.is("{")).unwrap();
        let mut words = tokens[at + 3..open].iter().filter(|token| token.kind == Kind::Word);
        let table = tokens[open..].iter().skip_while(|token| !token.is("TABLE"));
        let table = table.clone().find(|token| token.kind == Kind::Text).unwrap();
        found.push(Declared {
            table: table.text.clone(),
            name: words.next_back().unwrap().text.clone(),
            path: source.path.clone(),
        });
    }
    found
}

/// The type called `name` as `path` sees it: its own, one of the same folder, or any.
fn resolve<'a>(all: &'a [Stored], name: &str, path: &str) -> Option<&'a Stored> {
    let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder);
    let mut named: Vec<_> = all.iter().filter(|stored| stored.name == name).collect();
    named.sort_by_key(|stored| (stored.path != path, !stored.path.starts_with(folder)));
    named.first().copied()
}

/// The ids in a type, dotted: of each the path and the type that it is an id of.
fn ids<'a>(
    all: &'a [Stored],
    within: &[&'a Stored],
    prefix: &str,
    found: &mut BTreeSet<(String, String)>,
) {
    let of = within.last().unwrap();
    for (field, kind) in &of.fields {
        let mut path = vec![prefix, field];
        path.retain(|part| !part.is_empty());
        let path = path.join(".");
        for (at, token) in kind.iter().enumerate() {
            if token.is("Id") && kind.get(at + 1).is_some_and(|next| next.is("<")) {
                let inner = kind[at + 2..].iter().take_while(|token| !token.is(">"));
                let inner = inner.last().map_or(String::new(), |token| token.text.clone());
                found.insert((path.clone(), inner));
            } else if token.kind == Kind::Word
                && !(at > 1 && starts_with(&kind[at - 2..], &["Id", "<"]))
                && let Some(inner) = resolve(all, &token.text, &of.path)
                && within.iter().all(|outer| !std::ptr::eq(*outer, inner))
            {
                ids(all, &[within, &[inner]].concat(), &path, found);
            }
        }
    }
}

/// The ids of each table's record, save its own and those of [`HISTORY`].
fn ids_of_tables(sources: &[Source]) -> BTreeMap<String, BTreeSet<String>> {
    let sources = sources.iter().filter(|source| !source.is_test);
    let all: Vec<Stored> = sources.clone().flat_map(stored).collect();
    let records: Vec<Declared> = sources.flat_map(declared).collect();
    let is_other = |name: &str, record: &Declared| {
        name != record.name && records.iter().any(|other| other.name == name)
    };
    let mut found = BTreeMap::new();
    for record in &records {
        let own = resolve(&all, &record.name, &record.path).unwrap();
        let mut of_record = BTreeSet::new();
        ids(&all, &[own], "", &mut of_record);
        of_record.retain(|(path, of)| path != "id" || is_other(of, record));
        let is_history = |path: &str, of: &str| HISTORY.contains(&path) && USER.contains(&of);
        of_record.retain(|(path, of)| !is_history(path, of));
        found.insert(record.table.clone(), of_record.into_iter().map(|(path, _)| path).collect());
    }
    found
}

// ── Tests ────────────────────────────────────────────────────────────────────

#[test]
fn ids_are_found_wherever_they_are_nested() {
    let text = "
        #[derive(Encode)] pub struct A { pub id: Id<A>, #[serde(skip)] b: Option<Id<B>>,
            list: Vec<(u8, Id<C>)>, d: Option<D>, e: E, text: String, created_by: Id<User>,
            updated_by: Id<C> }
        #[derive(Clone, Encode)] struct D { f: BTreeMap<Name, Id<F>>, g: G }
        #[derive(Encode)] struct G { id: Id<G> }
        #[derive(Encode)] enum E { None, Some(Id<A>) }
        struct Unstored { h: Id<A> }
        impl Record for A { const TABLE: &'static str = \"as\"; }
        impl Record for D { const TABLE: &'static str = \"ds\"; }";
    let found = ids_of_tables(&[Source::new("src/a.rs", text)]);
    let expected = |paths: &[&str]| paths.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(found["as"], expected(&["b", "d.f", "d.g.id", "e", "list", "updated_by"]));
    assert_eq!(found["ds"], expected(&["f", "g.id"]));
}

#[test]
fn every_stored_id_is_a_reference_or_has_a_reason_why_not() {
    let (found, references) = (ids_of_tables(source::all()), references());
    let mut wrong = Vec::new();
    for table in tables() {
        let of_table = references.iter().filter(|reference| reference.from() == table.name);
        let declared: BTreeSet<&str> = of_table
            .flat_map(|reference| reference.fields().iter().copied())
            .chain(table.unbound.iter().map(|(field, _)| *field))
            .collect();
        let ids: BTreeSet<&str> = found[table.name].iter().map(String::as_str).collect();
        for id in ids.difference(&declared) {
            wrong.push(format!("{}.{id}: declare it in REFERENCES or UNBOUND", table.name));
        }
        for id in declared.difference(&ids) {
            wrong.push(format!("{}.{id}: is declared and is no id", table.name));
        }
        let unexplained = table.unbound.iter().filter(|(_, why)| why.len() < 20);
        wrong.extend(unexplained.map(|(id, _)| format!("{}.{id}: says no reason", table.name)));
    }
    assert!(wrong.is_empty(), "\n{}\n", wrong.join("\n"));
}

#[test]
fn what_restricts_the_removal_of_something_goes_with_whatever_takes_that_along() {
    let all = references();
    // Or it refuses the removal of what would take that along.
    let cascades = |from: &str, to: &str| {
        let mut of = all.iter().filter(|one| one.from() == from && one.to() == to);
        of.any(|one| matches!(one.action(), Action::Cascade | Action::Restrict))
    };
    for child in all.iter().filter(|one| one.action() == Action::Cascade) {
        let restrict =
            all.iter().filter(|one| one.action() == Action::Restrict && one.to() == child.from());
        for one in restrict {
            assert!(cascades(one.from(), child.to()), "{}: would be left dangling", one.name());
        }
    }
}

/// Names of deferred references are stored: a change of one needs an upgrade of `removals`.
#[test]
fn the_references_are_as_they_were_reviewed() {
    let mut lines: Vec<String> = references()
        .iter()
        .map(|one| {
            let deferred = if one.is_deferred() { ", deferred" } else { "" };
            format!("{}: {:?}{deferred}\n", one.name(), one.action()).to_lowercase()
        })
        .collect();
    lines.sort();
    golden::assert_kept("tests/golden/references.txt", &lines.concat());
}
