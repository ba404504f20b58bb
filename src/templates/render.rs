//! Filling a compiled text with values.

use std::collections::HashSet;

use super::MAX_TEXT_BYTES;
use super::parse::{What, pieces};

/// A filled text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendering {
    /// The text. What had no value stands in it as it was written.
    pub text: String,
    /// The variables without a value, each once, in order of first appearance.
    pub missing: Vec<String>,
}

/// Fills a compiled text (contract §3). Values are put in as they are and never expanded again;
/// `\{{` becomes `{{`. What a compiled text cannot hold stays as it is written.
///
/// Few variables can stand in a text many times, so the values bound nothing: the error is a phrase
/// that follows what gave them ("must not fill the text to more than 1 MiB").
pub fn render(compiled: &str, value: impl Fn(&str) -> Option<String>) -> Result<Rendering, String> {
    let mut text = String::with_capacity(compiled.len());
    let mut missing = Vec::new();
    let mut known = HashSet::new();
    for piece in pieces(compiled) {
        let filled = match piece.what {
            What::Variable(name) => {
                let value = value(name);
                if value.is_none() && known.insert(name) {
                    missing.push(name.to_owned());
                }
                value
            }
            What::Escape => Some("{{".into()),
            What::Literal | What::Import { .. } | What::Wrong(_) => None,
        };
        let filled = filled.as_deref().unwrap_or(piece.text);
        if text.len() + filled.len() > MAX_TEXT_BYTES {
            return Err("must not fill the text to more than 1 MiB".into());
        }
        text.push_str(filled);
    }
    Ok(Rendering { text, missing })
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
    fn values_are_put_in_as_they_are_and_never_expanded_again() {
        for (compiled, text) in [
            ("", ""),
            ("{{a}}{{ a }} {{b}}", "11 {{a}} \\{{ $1"),
            ("\\{{a}}", "{{a}}"),
            ("\\\\{{a}}", "\\{{a}}"),
            ("{{\ta\n}}", "1"),
            ("\\{{{{a}}", "{{1"),
            ("{ {a} } }}", "{ {a} } }}"),
        ] {
            assert_eq!(filled(compiled), (text.into(), vec![]), "{compiled}");
        }
    }

    #[test]
    fn what_has_no_value_stays_as_written_and_is_listed_once() {
        let (text, missing) = filled("{{ y }}{{a}}{{x}}{{y}}");
        assert_eq!(text, "{{ y }}1{{x}}{{y}}");
        assert_eq!(missing, ["y", "x"]);
    }

    #[test]
    fn what_no_compiled_text_holds_is_left_alone() {
        for text in ["{{", "{{ import \"a\" }}", "{{1}}", "a\\", "{{ import \"", "{{{"] {
            assert_eq!(filled(text), (text.into(), vec![]));
        }
    }

    #[test]
    fn a_filled_text_is_bounded() {
        let long = |_: &str| Some("ä".repeat(MAX_TEXT_BYTES / 4));
        assert_eq!(render("{{a}}{{a}}", long).unwrap().text.len(), MAX_TEXT_BYTES);
        assert!(render("{{a}}.{{a}}", long).is_err());
    }
}
