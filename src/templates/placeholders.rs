//! `${NAME}` in a tool's configuration: a secret or variable of the environment, substituted when
//! the tool is deployed (reference: registries-and-templates, "Placeholders of tools"). Anything
//! else is plain text.

use super::parse::{is_name, is_name_char};
use super::scanner::Scanner;

/// Returns the names in a text, in order, with repetitions.
pub fn placeholders(text: &str) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner::new(text);
    std::iter::from_fn(move || next(&mut scanner))
}

/// Returns the next name and moves the scanner past its `}`.
pub(super) fn next<'a>(scanner: &mut Scanner<'a>) -> Option<&'a str> {
    loop {
        scanner.eat_until("${", "");
        if !scanner.eat("${") {
            return None;
        }
        let name = scanner.eat_while(is_name_char);
        if scanner.eat("}") && is_name(name) {
            return Some(name);
        }
    }
}

/// Replaces every placeholder in a text by what `value` returns for its name.
///
/// # Errors
/// Those of `value`.
pub fn fill_placeholders<E>(
    text: &str,
    mut value: impl FnMut(&str) -> Result<String, E>,
) -> Result<String, E> {
    let mut filled = String::with_capacity(text.len());
    let (mut scanner, mut copied) = (Scanner::new(text), 0);
    while let Some(name) = next(&mut scanner) {
        let end = scanner.offset();
        // `${`, the name and `}`.
        filled.push_str(&text[copied..end - name.len() - 3]);
        filled.push_str(&value(name)?);
        copied = end;
    }
    filled.push_str(&text[copied..]);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_names_in_braces_after_a_dollar() {
        let long = format!("${{{}}} ${{{}}}", "a".repeat(128), "b".repeat(129));
        for (text, names) in [
            ("", vec![]),
            ("Bearer ${TOKEN}", vec!["TOKEN"]),
            ("${a}${_B9}${a}", vec!["a", "_B9", "a"]),
            ("$${a}", vec!["a"]),
            ("${${a}}${b${c}", vec!["a", "c"]),
            ("${} ${1a} ${ a } ${a-b} $a {a} ${a", vec![]),
            ("${é}${a}", vec!["a"]),
            (&long, vec![&long[2..130]]),
        ] {
            assert_eq!(placeholders(text).collect::<Vec<_>>(), names, "{text}");
        }
    }

    #[test]
    fn values_replace_placeholders_and_are_not_expanded_again() {
        let value = |name: &str| match name {
            "A" => Ok("1"),
            "B" => Ok("${A}"),
            other => Err(other.to_string()),
        };
        let filled = |text| fill_placeholders(text, |name| value(name).map(String::from));
        for (text, expected) in [
            ("", Ok("")),
            ("${A}", Ok("1")),
            ("x${A}y${A}z", Ok("x1y1z")),
            ("$${A}${${B}}", Ok("$1${${A}}")),
            ("${ A } $A é${A}é", Ok("${ A } $A é1é")),
            ("${A}${C}", Err("C")),
        ] {
            let expected = expected.map(String::from).map_err(String::from);
            assert_eq!(filled(text), expected, "{text}");
        }
    }
}
