//! Properties that hold for any text.

use std::convert::Infallible;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::parse::{Token, TokenKind, tokens};
use super::scanner::Scanner;
use super::*;
use crate::base::{ArtifactName, Range, Version};

/// Texts of fragments of the language.
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
        "'",
        "{{ '",
        "' }}",
        "{{ '{' }}",
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
        "${DOLLAR}",
        "${DOLLAR_1}",
    ]);
    vec(prop_oneof![9 => near.prop_map(String::from), 1 => ".{0,4}"], 0..24)
        .prop_map(|parts| parts.concat())
}

/// Names of variables, often of those that are `$` without a value.
fn any_name() -> impl Strategy<Value = String> {
    prop_oneof!["DOLLAR", "DOLLAR_[0-9]{1,3}", "[A-Z_]{1,4}"]
}

/// Sources whose only problem is a third brace.
fn fair_source() -> impl Strategy<Value = String> {
    let good = select(vec!["{", "x", "\\{{", "{{a}}", "{{ b }}", "{{ '{' }}"]);
    let import = (0..3).prop_map(|number| format!("{{{{ import \"p{number}\" }}}}"));
    vec(prop_oneof![good.prop_map(String::from), import], 0..6).prop_map(|parts| parts.concat())
}

/// Texts of published promptlets: without problems or imports.
fn promptlets() -> impl Strategy<Value = Vec<String>> {
    let text = vec(select(vec!["{", "\\", "x", "\\{{", "{{b}}", "{{ '\\' }}"]), 0..3);
    let good =
        |text: &String| tokens(text).all(|token| !matches!(token.kind, TokenKind::Invalid(_)));
    vec(text.prop_map(|parts| parts.concat()).prop_filter("has a problem", good), 3)
}

/// Compiles with promptlets p0, p1 …; other imports do not resolve.
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

/// Renders with values that occur nowhere else.
fn marked(text: &str) -> String {
    render(text, |name| Some(format!("<{name}>"))).unwrap().text
}

proptest! {
    #[test]
    fn the_tokens_in_a_row_are_the_text(text in any_text()) {
        let mut written = String::new();
        for Token { offset, text, kind } in tokens(&text) {
            prop_assert_eq!(offset, written.len());
            written.push_str(text);
            let inside = || text.strip_prefix("{{")?.strip_suffix("}}").map(str::trim_ascii);
            let fits = match kind {
                TokenKind::Literal => !text.is_empty() && !text.contains("{{"),
                TokenKind::Escape => text == "\\{{",
                TokenKind::Variable(name) => inside() == Some(name),
                TokenKind::Import { .. } => inside().is_some_and(|inside| inside.starts_with("import")),
                TokenKind::Quoted(quoted) => inside().is_some_and(|inside| inside[1..].starts_with(quoted)),
                TokenKind::Invalid(_) => text.starts_with("{{") && !text[2..].contains("{{"),
            };
            prop_assert!(fits, "{}", text);
        }
        prop_assert_eq!(written, text);
    }

    #[test]
    fn every_problem_is_reported_where_braces_open(
        text in any_text(), promptlets in promptlets()
    ) {
        let wrong = tokens(&text).any(|token| matches!(token.kind, TokenKind::Invalid(_)));
        let done = compiled(&text, &promptlets);
        prop_assert!(!wrong || !done.problems.is_empty());
        for problem in &done.problems {
            let line = text.split('\n').nth(problem.line as usize - 1).unwrap();
            let there: String = line.chars().skip(problem.column as usize - 1).collect();
            prop_assert!(there.starts_with("{{"), "{problem}: {there}");
        }
    }

    #[test]
    fn compiling_is_idempotent(
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
    fn a_compiled_text_renders_as_its_parts_do(source in fair_source(), promptlets in promptlets()) {
        let done = compiled(&source, &promptlets);
        let mut parts = String::new();
        for token in tokens(&source) {
            parts.push_str(&match &token.kind {
                TokenKind::Import { name, .. } => marked(&promptlets[name[1..].parse::<usize>().unwrap()]),
                _ => marked(token.text),
            });
        }
        // They may differ only where a third brace is reported.
        prop_assert!(!done.problems.is_empty() || marked(&done.text) == parts);
    }

    #[test]
    fn every_text_can_be_written(parts in vec(any_text(), 1..5)) {
        // Whatever the parts are, with a variable between them.
        let written = |text: &String| -> String {
            // Line ends and quotes have no meaning of their own.
            text.split_inclusive(['\'', '\n', '\r']).map(|piece| {
                let end = piece.trim_end_matches(['\'', '\n', '\r']);
                quoted(end) + &piece[end.len()..]
            }).collect()
        };
        let source = parts.iter().map(written).collect::<Vec<_>>().join("{{v}}");
        let done = compiled(&source, &[]);
        prop_assert_eq!(done.problems, vec![]);
        prop_assert_eq!(marked(&done.text), parts.join("<v>"));
    }

    /// Whatever names the environment has, those of the dollar among them.
    #[test]
    fn every_text_of_a_tool_can_be_written(
        parts in vec(any_text(), 1..5), taken in 0..300_usize, others in vec(any_name(), 0..5)
    ) {
        let mut names: Vec<String> = dollars().take(taken).collect();
        names.extend(others);
        let dollar = dollars().find(|name| !names.contains(name)).unwrap();
        let written = |part: &String| part.replace('$', &format!("${{{dollar}}}"));
        let source = parts.iter().map(written).collect::<Vec<_>>().join("${v}");
        let value = |name: &str, filled: &mut String| -> Result<bool, Infallible> {
            match name {
                "v" => filled.push_str("<v>"),
                name if names.iter().any(|own| own == name) => filled.push_str("another value"),
                name if is_dollar(name) => filled.push('$'),
                _ => return Ok(false),
            }
            Ok(true)
        };
        let Ok(filled) = replace_placeholders(&source, value);
        prop_assert_eq!(filled, parts.join("<v>"));
    }

    #[test]
    fn values_in_any_text_are_never_expanded(text in any_text(), value in any_text()) {
        // A private-use character marks the values.
        const MARK: &str = "\u{e000}";
        let text = text.replace(MARK, "");
        let marked = render(&text, |_| Some(MARK.into())).unwrap();
        let filled = render(&text, |_| Some(value.clone())).unwrap();
        prop_assert_eq!(filled.text, marked.text.replace(MARK, &value));
        prop_assert_eq!(filled.missing, Vec::<String>::new());
    }

    #[test]
    fn any_text_is_read_in_linear_time(text in any_text()) {
        prop_assert!(bytes_examined(&text) <= max_examined(text.len()));
    }
}

/// The bytes examined to read a text as a template and as a tool configuration.
fn bytes_examined(text: &str) -> usize {
    let mut tokens = tokens(text);
    assert!(tokens.by_ref().map(|token| token.text.len()).sum::<usize>() == text.len());
    let mut scanner = Scanner::new(text);
    while placeholders::next(&mut scanner).is_some() {}
    tokens.0.bytes_examined + scanner.bytes_examined
}

/// The linear bound: every byte is examined by a constant number of checks, whatever the text.
fn max_examined(len: usize) -> usize {
    16 * (len + 1)
}

#[test]
fn unclosed_braces_are_read_in_linear_time() {
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
        "{{ '",
        "{{ \"",
        "{{ '\"",
        "{{ 'a' ",
        "{{ '\n",
        "{{a}",
        "$",
        "${",
        "${a",
        "a",
        " ",
    ] {
        let text = |len: usize| part.repeat(len / part.len());
        // One prefix, then repetitions.
        for begin in ["", "{{", "{{ import \"", "{{ '", "{{ ' {{ \" ", "${"] {
            for len in [1_000, 64_000] {
                let text = format!("{begin}{}", text(len));
                assert!(
                    bytes_examined(&text) <= max_examined(text.len()),
                    "{begin}{part}…: {}",
                    bytes_examined(&text)
                );
            }
        }
    }
}
