//! How a file looks: what it is for comes first, public items are documented, and neither files nor
//! functions are long.

use std::collections::BTreeSet;

use crate::source::{self, Kind, Source, Token, after_group};
use crate::{assert_clean, assert_reports, of_product};

/// A file over this many lines of code, tests aside, holds two things.
const MAX_CODE_LINES: usize = 400;
/// No file is longer, tests and comments included.
const MAX_LINES: usize = 600;
/// Files that may be longer, each with its reason. Better empty.
const LONG_FILES: &[&str] = &[];
/// A function over this many lines of code does two things. Not so for tests: a table of cases may
/// be as long as it needs.
const MAX_FUNCTION_LINES: usize = 70;
/// Functions that may be longer (file, function), each with its reason. Better empty.
const LONG_FUNCTIONS: &[(&str, &str)] = &[];

fn missing_module_doc(source: &Source) -> Vec<String> {
    let begins = source.text.starts_with("//!");
    let complaint = || format!("{}: begins without //! (what it is for)", source.path);
    (!begins).then(complaint).into_iter().collect()
}

fn oversized_file(source: &Source) -> Vec<String> {
    if LONG_FILES.contains(&source.path.as_str()) {
        return vec![];
    }
    let code = lines_of_code(&source.tokens);
    let lines = source.text.lines().count();
    let mut found = Vec::new();
    if !source.is_test && code > MAX_CODE_LINES {
        let over = format!("{code} lines of code, over {MAX_CODE_LINES}");
        found.push(format!("{}: {over}; split it", source.path));
    }
    if lines > MAX_LINES {
        found.push(format!("{}: {lines} lines, over {MAX_LINES}; split it", source.path));
    }
    found
}

/// How many lines hold code: blank lines and comments do not count.
fn lines_of_code(tokens: &[Token]) -> usize {
    let code = tokens.iter().filter(|token| token.kind != Kind::Doc);
    code.flat_map(|token| token.first_line..=token.last_line).collect::<BTreeSet<_>>().len()
}

/// Functions that are too long, from `fn` to the closing brace.
fn long_functions(source: &Source) -> Vec<String> {
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for (at, pair) in tokens.windows(2).enumerate() {
        // Not a type such as `fn(u8) -> u8`.
        if !pair[0].is("fn") || pair[1].kind != Kind::Word {
            continue;
        }
        let name = &pair[1].text;
        let mut open = at + 2;
        while tokens.get(open).is_some_and(|token| !token.is("{") && !token.is(";")) {
            let is_group = tokens[open].is("(") || tokens[open].is("[");
            open = if is_group { after_group(tokens, open) } else { open + 1 };
        }
        if tokens.get(open).is_none_or(|token| token.is(";")) {
            continue; // A declaration in a trait has no body.
        }
        let lines = lines_of_code(&tokens[at..after_group(tokens, open)]);
        let is_known = LONG_FUNCTIONS.contains(&(source.path.as_str(), name.as_str()));
        if lines > MAX_FUNCTION_LINES && !is_known {
            let over = format!("{lines} lines of code, over {MAX_FUNCTION_LINES}");
            found.push(format!("{}:{}: {name}: {over}; split it", source.path, pair[0].first_line));
        }
    }
    found
}

/// Public items without a doc comment above them and their attributes.
fn missing_docs(source: &Source) -> Vec<String> {
    const ITEMS: [&str; 7] = ["fn", "struct", "enum", "trait", "const", "static", "type"];
    let tokens = &source.tokens;
    let mut found = Vec::new();
    for at in 0..tokens.len() {
        let mut words = tokens[at..].iter().skip(1).filter(|token| !token.is("async"));
        let Some(item) = words.next().filter(|item| ITEMS.iter().any(|word| item.is(word))) else {
            continue;
        };
        if tokens[at].is("pub") && !is_documented(source, at) {
            let name = words.find(|token| !token.is("fn") && token.kind == Kind::Word);
            let name = name.map_or("", |token| token.text.as_str());
            let line = item.first_line;
            found.push(format!("{}:{line}: {name} has no doc comment", source.path));
        }
    }
    found
}

/// Whether a doc comment precedes the token `at` and its attributes.
fn is_documented(source: &Source, mut at: usize) -> bool {
    while at > 0 && source.tokens[at - 1].is("]") {
        let mut depth = 0;
        while at > 0 {
            at -= 1;
            depth += i32::from(source.tokens[at].is("]")) - i32::from(source.tokens[at].is("["));
            if depth == 0 {
                break;
            }
        }
        at = at.saturating_sub(1); // The `#`.
    }
    at > 0 && source.tokens[at - 1].kind == Kind::Doc
}

#[test]
fn every_file_begins_with_a_module_doc() {
    assert_reports(
        missing_module_doc,
        &[("src/a.rs", "//! A.", ""), ("src/a.rs", "use b;\n//! A.", "begins without //!")],
    );
    assert_clean(missing_module_doc);
}

#[test]
fn no_file_is_too_long() {
    let lines = |line: &str, count: usize| line.repeat(count);
    let test = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", lines("use a;\n", 400));
    assert_reports(
        oversized_file,
        &[
            ("src/a.rs", &lines("use a;\n", 400), ""),
            ("src/a.rs", &lines("use a;\n", 401), "401 lines of code"),
            ("src/a.rs", &(lines("use a;\n", 150) + &test), ""),
            ("src/a.rs", &lines("use a; // A.\n\n// A.\n", 150), ""),
            ("src/a.rs", &format!("const A: &str = \"{}\";", lines("a\n", 401)), "lines of code"),
            ("src/a.rs", &lines("// A.\n", 601), "601 lines"),
        ],
    );
    assert_clean(oversized_file);
}

#[test]
fn every_public_item_has_a_doc_comment() {
    assert_reports(
        missing_docs,
        &[
            ("src/a.rs", "/// A.\npub fn a() {}", ""),
            ("src/a.rs", "/// A.\n#[derive(B)]\n#[serde(c = \"]\")]\npub struct A;", ""),
            ("src/a.rs", "pub fn a() {}", "src/a.rs:1: a has no doc comment"),
            ("src/a.rs", "pub async fn a() {}", "a has no doc comment"),
            ("src/a.rs", "pub const fn a() {}", "a has no doc comment"),
            ("src/a.rs", "/// A.\npub mod a;\n#[derive(B)]\npub enum C {}", "C has no doc comment"),
            ("src/a.rs", "// A.\npub trait A {}", "A has no doc comment"),
            ("src/a.rs", "pub const A: u8 = 0;", "A has no doc comment"),
            ("src/a.rs", "struct A { pub a: u8 }\npub(crate) fn b() {}", ""),
        ],
    );
    assert_clean(of_product(missing_docs));
}

#[test]
fn no_function_is_too_long() {
    let function = |head: &str, lines: usize| format!("{head} {{\n{}}}\n", "a();\n".repeat(lines));
    let two = function("fn a()", 40) + &function("fn b()", 40);
    assert_reports(
        long_functions,
        &[
            ("src/a.rs", &function("fn a()", 68), ""),
            ("src/a.rs", &function("\nfn a()", 69), "src/a.rs:2: a: 71 lines of code, over 70"),
            ("src/a.rs", &function("pub async fn a(b: [u8; 2]) -> C where D: E", 69), "71 lines"),
            ("src/a.rs", &format!("impl A {{ {} }}", function("fn a()", 69)), "a: 71 lines"),
            ("src/a.rs", &format!("fn a() {{\n{}}}", "// A.\n\n".repeat(70)), ""),
            ("src/a.rs", &(String::from("trait A { fn a(); }") + &function("mod b", 80)), ""),
            ("src/a.rs", &function("static A: fn(u8) -> B = ", 80), ""),
            ("src/a.rs", &two, ""),
            ("src/a.rs", &format!("#[cfg(test)]\nmod tests {{ {} }}", function("fn a()", 90)), ""),
        ],
    );
    assert_clean(of_product(long_functions));
}

#[test]
fn exceptions_from_the_limits_are_still_needed() {
    let sources = source::all();
    for path in LONG_FILES {
        assert!(sources.iter().any(|source| source.path == *path), "{path}: remove it");
    }
    for (path, name) in LONG_FUNCTIONS {
        let named = |pair: &[Token]| pair[0].is("fn") && pair[1].is(name);
        let source = sources.iter().find(|source| source.path == *path);
        let exists = source.is_some_and(|source| source.tokens.windows(2).any(named));
        assert!(exists, "{path}: there is no function {name}; remove it from LONG_FUNCTIONS");
    }
}
