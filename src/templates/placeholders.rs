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

/// Returns a text with its `${NAME}` replaced: `fill` appends the value of a name and returns whether
/// there is one; otherwise the placeholder stays. Values are not searched.
///
/// # Errors
/// What `fill` returns.
pub fn replace_placeholders<E>(
    text: &str,
    mut fill: impl FnMut(&str, &mut String) -> Result<bool, E>,
) -> Result<String, E> {
    let mut scanner = Scanner::new(text);
    let mut filled = String::with_capacity(text.len());
    let mut copied = 0;
    while let Some(name) = next(&mut scanner) {
        let start = scanner.offset() - name.len() - "${}".len();
        filled.push_str(&text[copied..start]);
        // What has no value is copied with the text after it.
        copied = if fill(name, &mut filled)? { scanner.offset() } else { start };
    }
    filled.push_str(&text[copied..]);
    Ok(filled)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_replace_names_and_are_not_searched() {
        let value = |name: &str, filled: &mut String| -> Result<bool, ()> {
            filled.push_str(if name == "A" { "${B}" } else { "" });
            Ok(matches!(name, "A" | "B"))
        };
        for (text, filled) in [
            ("", ""),
            ("${A}", "${B}"),
            ("x${B}y${A}${A}z", "xy${B}${B}z"),
            ("${NONE}${A}${NONE}ä", "${NONE}${B}${NONE}ä"),
            ("$${A} ${ A } ${${A}", "$${B} ${ A } ${${B}"),
        ] {
            assert_eq!(replace_placeholders(text, value).as_deref(), Ok(filled), "{text}");
        }
    }

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
}
