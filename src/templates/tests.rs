//! What holds for any text.

use std::convert::Infallible;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::parse::{Piece, What, pieces};
use super::scanner::Scanner;
use super::*;
use crate::base::{ArtifactName, Range, Version};

/// Texts that often come close to something.
fn any_text() -> impl Strategy<Value = String> {
    let near = select(vec![
        "{",
        "{{",
        "}",
        "}}",
        "\\",
        "\\{{",
        "\"",
        "\n",
        "\r\n",
        " ",
        "\t",
        "a",
        "_9",
        "import",
        "@",
        "{{ import \"",
        "@^1",
        "@latest\" }}",
        "{{a}}",
        "{{ b }}",
        "{{ import \"p0\" }}",
        "{{import\"p1@1\"}}",
        "ä",
        "\u{1f6a2}",
        "$",
        "${",
        "${A}",
    ]);
    vec(prop_oneof![9 => near.prop_map(String::from), 1 => ".{0,4}"], 0..24)
        .prop_map(|parts| parts.concat())
}

/// Sources that often have no problem but for what joins in them.
fn fair_source() -> impl Strategy<Value = String> {
    let good = select(vec!["{", "x", "\\{{", "{{a}}", "{{ b }}"]);
    let import = (0..3).prop_map(|number| format!("{{{{ import \"p{number}\" }}}}"));
    vec(prop_oneof![good.prop_map(String::from), import], 0..6).prop_map(|parts| parts.concat())
}

/// Texts of promptlets, as they are published: without problems or imports.
fn promptlets() -> impl Strategy<Value = Vec<String>> {
    let text = vec(select(vec!["{", "\\", "x", "\\{{", "{{b}}"]), 0..3);
    let good = |text: &String| pieces(text).all(|piece| !matches!(piece.what, What::Wrong(_)));
    vec(text.prop_map(|parts| parts.concat()).prop_filter("has a problem", good), 3)
}

/// Compiles where the promptlets are called p0, p1 … and all else is not there.
fn compiled(source: &str, promptlets: &[String]) -> Compilation {
    let find = |name: &ArtifactName, _: &Range| -> Result<Result<Imported, String>, Infallible> {
        let number = name.strip_prefix('p').and_then(|number| number.parse::<usize>().ok());
        let Some(text) = number.and_then(|number| promptlets.get(number)) else {
            return Ok(Err("is not there".into()));
        };
        let variables = compiled(text, &[]).variables;
        let version = Version::parse("1.0.0").unwrap();
        Ok(Ok(Imported { version, text: text.clone(), variables }))
    };
    let Ok(done) = compile(source, find);
    done
}

/// Rendering with values that nothing else has in it.
fn marked(text: &str) -> String {
    render(text, |name| Some(format!("<{name}>"))).unwrap().text
}

proptest! {
    #[test]
    fn pieces_in_a_row_are_the_text(text in any_text()) {
        let mut written = String::new();
        for Piece { at, text, what } in pieces(&text) {
            prop_assert_eq!(at, written.len());
            written.push_str(text);
            let inside = || text.strip_prefix("{{")?.strip_suffix("}}").map(str::trim_ascii);
            let fits = match what {
                What::Literal => !text.is_empty() && !text.contains("{{"),
                What::Escape => text == "\\{{",
                What::Variable(name) => inside() == Some(name),
                What::Import { .. } => inside().is_some_and(|inside| inside.starts_with("import")),
                What::Wrong(_) => text.starts_with("{{") && !text[2..].contains("{{"),
            };
            prop_assert!(fits, "{}", text);
        }
        prop_assert_eq!(written, text);
    }

    #[test]
    fn every_problem_of_any_text_is_told_where_braces_open(
        text in any_text(), promptlets in promptlets()
    ) {
        let wrong = pieces(&text).any(|piece| matches!(piece.what, What::Wrong(_)));
        let done = compiled(&text, &promptlets);
        prop_assert!(!wrong || !done.problems.is_empty());
        for problem in &done.problems {
            let line = text.split('\n').nth(problem.line as usize - 1).unwrap();
            let there: String = line.chars().skip(problem.column as usize - 1).collect();
            prop_assert!(there.starts_with("{{"), "{problem}: {there}");
        }
    }

    #[test]
    fn compiling_a_compiled_text_changes_nothing(
        source in fair_source(), promptlets in promptlets()
    ) {
        let once = compiled(&source, &promptlets);
        if !once.problems.is_empty() {
            return Ok(());
        }
        let twice = compiled(&once.text, &[]);
        prop_assert_eq!(twice.text, once.text);
        prop_assert_eq!(twice.variables, once.variables);
        prop_assert_eq!((twice.imports, twice.problems), (vec![], vec![]));
    }

    #[test]
    fn a_compiled_text_says_what_its_parts_say(source in fair_source(), promptlets in promptlets()) {
        let done = compiled(&source, &promptlets);
        let mut parts = String::new();
        for piece in pieces(&source) {
            parts.push_str(&match &piece.what {
                What::Import { name, .. } => marked(&promptlets[name[1..].parse::<usize>().unwrap()]),
                _ => marked(piece.text),
            });
        }
        // Not so, just where a problem is told.
        prop_assert!(!done.problems.is_empty() || marked(&done.text) == parts);
    }

    #[test]
    fn values_in_any_text_are_never_expanded(text in any_text(), value in any_text()) {
        // A private character marks where values stand.
        const MARK: &str = "\u{e000}";
        let text = text.replace(MARK, "");
        let marked = render(&text, |_| Some(MARK.into())).unwrap();
        let filled = render(&text, |_| Some(value.clone())).unwrap();
        prop_assert_eq!(filled.text, marked.text.replace(MARK, &value));
        prop_assert_eq!(filled.missing, Vec::<String>::new());
    }

    #[test]
    fn any_text_is_read_in_linear_time(text in any_text()) {
        prop_assert!(looked_at(&text) <= most(text.len()));
    }
}

/// How many bytes are looked at to read a text as a template and as a configuration.
fn looked_at(text: &str) -> usize {
    let mut pieces = pieces(text);
    assert!(pieces.by_ref().map(|piece| piece.text.len()).sum::<usize>() == text.len());
    let mut scanner = Scanner::new(text);
    while placeholders::next(&mut scanner).is_some() {}
    pieces.0.looked_at + scanner.looked_at
}

/// A text that holds nothing but what begins something: a byte of it is looked at by a handful of
/// questions, however long the text.
fn most(len: usize) -> usize {
    16 * (len + 1)
}

#[test]
fn what_opens_and_never_closes_is_read_in_linear_time() {
    for part in [
        "{",
        "\\",
        "\\{",
        "{{a",
        "{{ ",
        "{{ \n",
        "{{import",
        "{{ import \"",
        "{{ import \"a@",
        "\"",
        "{{ import \"a\"",
        "{{a}",
        "$",
        "${",
        "${a",
        "a",
        " ",
    ] {
        let text = |len: usize| part.repeat(len / part.len());
        // The beginning once, and then much of the same.
        for begin in ["", "{{", "{{ import \"", "${"] {
            for len in [1_000, 64_000] {
                let text = format!("{begin}{}", text(len));
                assert!(
                    looked_at(&text) <= most(text.len()),
                    "{begin}{part}…: {}",
                    looked_at(&text)
                );
            }
        }
    }
}
