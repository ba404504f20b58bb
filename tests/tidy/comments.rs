//! Comments that say nothing: what every reader of the code knows without them.

use crate::source::{Kind, Source, Token};
use crate::{assert_clean, assert_reports, of_product};

/// What sections of errors say that nobody needs to be told: whatever takes a transaction, reads or writes may
/// fail, and what calls a route returns the errors of the route.
const NO_NEWS: [&str; 19] = [
    "500 if the store cannot be read.",
    "If a record cannot be read or the store fails.",
    "If it cannot be reached.",
    "If it cannot be read.",
    "If it cannot be written.",
    "If one cannot be written.",
    "If that cannot be stored.",
    "If that fails.",
    "If that is not possible.",
    "If the engine cannot be read.",
    "If the file cannot be written.",
    "If the storage fails.",
    "If the store fails.",
    "If the template fails.",
    "If they cannot be read or taken.",
    "Those of the API.",
    "Those of the function.",
    "Those of the route.",
    "Those of the routes.",
];

/// Sections of errors that say no more than [`NO_NEWS`].
fn empty_sections(source: &Source) -> Vec<String> {
    let lines: Vec<_> = source.text.lines().map(str::trim).collect();
    let is_empty = |lines: &[&str]| {
        lines[0] == "/// # Errors"
            && lines[1].strip_prefix("/// ").is_some_and(|text| NO_NEWS.contains(&text))
            && !lines[2].starts_with("///")
    };
    let sections = lines.windows(3).enumerate().filter(|(_, lines)| is_empty(lines));
    sections
        .map(|(at, _)| format!("{}:{}: these errors go without saying", source.path, at + 1))
        .collect()
}

/// What clients and users read: its comments become descriptions and help.
const SHOWN: [&str; 5] = ["JsonSchema", "Args", "Parser", "Subcommand", "ValueEnum"];

/// Words that add nothing to a name.
const FILLERS: [&str; 20] = [
    "a", "all", "an", "for", "has", "have", "in", "is", "it", "its", "of", "one", "own", "that",
    "the", "their", "they", "this", "whether", "which",
];

/// Comments of one line on fields and variants that only repeat their names.
fn repeated_names(source: &Source) -> Vec<String> {
    let tokens = &source.tokens;
    let (mut found, mut is_shown) = (Vec::new(), false);
    for (at, token) in tokens.iter().enumerate() {
        if token.is("struct") || token.is("enum") {
            is_shown = is_shown_to_others(&tokens[..at]);
        }
        let is_one_line = token.kind == Kind::Doc && !is_doc(tokens, at.wrapping_sub(1));
        if !is_one_line || is_shown {
            continue;
        }
        if let Some(name) = field_or_variant(&tokens[at + 1..])
            && repeats(&token.text, name)
        {
            let line = token.first_line;
            found.push(format!("{}:{line}: this says no more than {name}", source.path));
        }
    }
    found
}

fn is_doc(tokens: &[Token], at: usize) -> bool {
    tokens.get(at).is_some_and(|token| token.kind == Kind::Doc)
}

/// Whether the item whose `struct` or `enum` follows these tokens is one of [`SHOWN`]: its attributes, in
/// brackets, say it.
fn is_shown_to_others(before: &[Token]) -> bool {
    let mut depth = 0;
    for token in before.iter().rev() {
        depth += i32::from(token.is("]")) - i32::from(token.is("["));
        if depth == 0 && (token.is("}") || token.is(";")) {
            return false;
        }
        if SHOWN.contains(&token.text.as_str()) {
            return true;
        }
    }
    false
}

/// The name of the field or variant that begins here, without attributes.
fn field_or_variant(tokens: &[Token]) -> Option<&str> {
    let mut rest = tokens;
    if rest.first()?.is("pub") {
        rest = &rest[1..];
        if rest.first()?.is("(") {
            let end = rest.iter().position(|token| token.is(")"))?;
            rest = &rest[end + 1..];
        }
    }
    let (name, next) = (rest.first()?, rest.get(1)?);
    let is_variant = name.text.starts_with(char::is_uppercase)
        && [",", "(", "{", "}", "="].iter().any(|sign| next.is(sign));
    (name.kind == Kind::Word && (next.is(":") || is_variant)).then_some(name.text.as_str())
}

/// Whether each word of a comment is one of the name, or adds nothing.
fn repeats(comment: &str, name: &str) -> bool {
    let of_name = words(name);
    let text = comment.trim_start_matches('/');
    let mut of_comment = words(text);
    of_comment.retain(|word| !FILLERS.contains(&word.as_str()));
    !text.chars().any(|c| c.is_ascii_digit() || "`[(".contains(c))
        && !of_comment.is_empty()
        && of_comment.iter().all(|word| of_name.contains(word))
}

/// The words of a text or a name, in lower case and in the singular.
fn words(text: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    for c in text.chars() {
        if c.is_uppercase() || !c.is_alphabetic() {
            words.push(String::new());
        }
        if let (true, Some(last)) = (c.is_alphabetic(), words.last_mut()) {
            last.extend(c.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    let singular = |word: String| match word.strip_suffix('s') {
        Some(one) if one.len() > 2 && !one.ends_with('s') => one.to_string(),
        _ => word,
    };
    words.into_iter().map(singular).collect()
}

#[test]
fn sections_of_errors_say_more_than_that_the_store_may_fail() {
    let section = |why: &str| format!("/// A.\n///\n/// # Errors\n/// If {why}.\nfn a() {{}}");
    assert_reports(
        empty_sections,
        &[
            ("src/a.rs", &section("the store fails"), "src/a.rs:3: these errors go without"),
            ("src/a.rs", &section("it is gone, or the store fails"), ""),
            ("src/a.rs", "/// # Errors\n/// If the store fails.\n/// Or not.\nfn a() {}", ""),
        ],
    );
    assert_clean(empty_sections);
}

#[test]
fn comments_on_fields_and_variants_say_more_than_their_names() {
    assert_reports(
        repeated_names,
        &[
            (
                "src/a.rs",
                "struct A {\n    /// Its state.\n    pub state: B,\n}",
                "src/a.rs:2: this says",
            ),
            (
                "src/a.rs",
                "struct A {\n    /// The stable keys.\n    pub(super) stable_key: B,\n}",
                "stable_key",
            ),
            ("src/a.rs", "enum A {\n    /// A draft.\n    Draft,\n}", "no more than Draft"),
            ("src/a.rs", "enum A {\n    /// A draft was saved.\n    Draft(B),\n}", ""),
            ("src/a.rs", "struct A {\n    /// Its state, in\n    /// state.\n    state: B,\n}", ""),
            ("src/a.rs", "struct A {\n    /// Bytes of the `state`.\n    state: B,\n}", ""),
            (
                "src/a.rs",
                "#[derive(JsonSchema)]\nstruct A {\n    /// Its state.\n    state: B,\n}",
                "",
            ),
            (
                "src/a.rs",
                "#[derive(JsonSchema)]\n#[a(b = {c})]\nstruct A {\n    /// Its state.\n    state: B,\n}",
                "",
            ),
            ("src/a.rs", "/// The state.\nstatic STATE: A = B;", ""),
        ],
    );
    assert_clean(of_product(repeated_names));
}
