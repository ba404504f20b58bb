//! Renders a compiled text: variables are replaced by their values.

use std::borrow::Cow;
use std::collections::HashSet;

use super::MAX_TEXT_BYTES;
use super::parse::{TokenKind, tokens};

/// The result of rendering.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// The text. Variables without a value are kept as written.
    pub text: String,
    /// The variables without a value, each once, in order of first appearance.
    pub missing: Vec<String>,
}

/// Renders a compiled text (reference: registries-and-templates, "Rendering"). Values are inserted
/// verbatim and never expanded again;
/// `\{{` becomes `{{`, `{{ '…' }}` what is quoted. Tokens that no compiled text contains are kept as written.
///
/// # Errors
/// If the result is longer than 1 MiB: a short text can repeat a variable many times. The error is
/// a phrase to follow the name of the field with the values ("must not fill …").
pub fn render(compiled: &str, value: impl Fn(&str) -> Option<String>) -> Result<Rendering, String> {
    let mut text = String::with_capacity(compiled.len());
    let mut missing = Vec::new();
    let mut known = HashSet::new();
    for token in tokens(compiled) {
        let filled = match token.kind {
            TokenKind::Variable(name) => match value(name) {
                Some(value) => Cow::Owned(value),
                None => {
                    if known.insert(name) {
                        missing.push(name.to_owned());
                    }
                    Cow::Borrowed(token.text)
                }
            },
            TokenKind::Escape => Cow::Borrowed("{{"),
            TokenKind::Quoted(text) => Cow::Borrowed(text),
            TokenKind::Literal | TokenKind::Import { .. } | TokenKind::Invalid(_) => {
                Cow::Borrowed(token.text)
            }
        };
        if text.len() + filled.len() > MAX_TEXT_BYTES {
            return Err("must not fill the text to more than 1 MiB".into());
        }
        text.push_str(&filled);
    }
    Ok(Rendering { text, missing })
}

/// A compiled text with what is quoted in place of its quotes: what it says, for who reads it and does
/// not render it.
pub fn unquoted(compiled: &str) -> Cow<'_, str> {
    if !tokens(compiled).any(|token| matches!(token.kind, TokenKind::Quoted(_))) {
        return Cow::Borrowed(compiled);
    }
    let said = tokens(compiled).map(|token| match token.kind {
        TokenKind::Quoted(text) => text,
        _ => token.text,
    });
    Cow::Owned(said.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `a` and `b` have values, the others none.
    fn filled(compiled: &str) -> (String, Vec<String>) {
        let value = |name: &str| match name {
            "a" => Some("1".to_owned()),
            "b" => Some("{{a}} \\{{ $1".to_owned()),
            _ => None,
        };
        let Rendering { text, missing } = render(compiled, value).unwrap();
        (text, missing)
    }

    #[test]
    fn values_are_inserted_verbatim_and_never_expanded() {
        for (compiled, text) in [
            ("", ""),
            ("{{a}}{{ a }} {{b}}", "11 {{a}} \\{{ $1"),
            ("\\{{a}}", "{{a}}"),
            ("\\\\{{a}}", "\\{{a}}"),
            ("{{\ta\n}}", "1"),
            ("\\{{{{a}}", "{{1"),
            ("{{ '\\' }}{{a}}{{ \"{'\" }}{{a}}{{''}}", "\\1{'1"),
            ("{{ '{{a}}' }}", "{{a}}"),
            ("{ {a} } }}", "{ {a} } }}"),
        ] {
            assert_eq!(filled(compiled), (text.into(), vec![]), "{compiled}");
        }
    }

    #[test]
    fn a_variable_without_a_value_is_kept_and_listed_once() {
        let (text, missing) = filled("{{ y }}{{a}}{{x}}{{y}}");
        assert_eq!(text, "{{ y }}1{{x}}{{y}}");
        assert_eq!(missing, ["y", "x"]);
    }

    #[test]
    fn tokens_that_no_compiled_text_contains_are_kept() {
        for text in ["{{", "{{ import \"a\" }}", "{{1}}", "a\\", "{{ import \"", "{{{"] {
            assert_eq!(filled(text), (text.into(), vec![]));
        }
    }

    #[test]
    fn a_rendered_text_is_bounded() {
        let long = |_: &str| Some("ä".repeat(MAX_TEXT_BYTES / 4));
        assert_eq!(render("{{a}}{{a}}", long).unwrap().text.len(), MAX_TEXT_BYTES);
        assert!(render("{{a}}.{{a}}", long).is_err());
    }
}
