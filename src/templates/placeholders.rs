//! `${NAME}` in a tool's configuration: a secret or variable of the environment, substituted when
//! the tool is deployed (reference: registries-and-templates, "Placeholders of tools"). Anything
//! else is plain text.
//!
//! `${DOLLAR}`, `${DOLLAR_1}`, `${DOLLAR_2}` … are `$` where the environment has no value of that name.
//! An environment has fewer names than these are, so every text can be written for it. All of them were
//! errors without a value: no stored text reads otherwise.

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

/// The first name that stands for `$`. The others are the same with `_` and a number.
const DOLLAR: &str = "DOLLAR";

/// What is longer between the braces is not taken for a name that was meant.
const MAX_INSIDE: usize = 200;

/// Returns the names that stand for `$` where they have no value, in the order in which one is chosen.
pub fn dollars() -> impl Iterator<Item = String> {
    (0_u32..).map(|number| match number {
        0 => DOLLAR.to_string(),
        number => format!("{DOLLAR}_{number}"),
    })
}

/// Whether a name stands for `$` where it has no value.
pub fn is_dollar(name: &str) -> bool {
    let Some(rest) = name.strip_prefix(DOLLAR) else { return false };
    let is_number = |digits: &str| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    rest.is_empty() || rest.strip_prefix('_').is_some_and(is_number)
}

/// Returns what looks like a mistake in a text that can be deployed all the same: what is no name, and
/// an escape whose name has another value than `$`, which `is_other` says of a name.
pub fn placeholder_warnings(
    text: &str,
    is_other: impl Fn(&str) -> bool,
) -> impl Iterator<Item = String> {
    let starts = text.match_indices("${").map(|(at, open)| at + open.len());
    starts.filter_map(move |start| {
        let rest = &text[start..];
        let end = rest.bytes().take(MAX_INSIDE).position(|b| b == b'}')?;
        let (inside, after) = (&rest[..end], &rest[end + 1..]);
        if is_whole_name(inside) {
            let next = after.strip_prefix('{')?.split_once('}')?.0;
            let is_taken = is_dollar(inside) && is_whole_name(next) && is_other(inside);
            return is_taken.then(|| {
                format!(
                    "${{{inside}}} is not $ here but the value that the environment has for \
                     {inside}; for the text ${{{next}}} take another of ${{DOLLAR}}, ${{DOLLAR_1}}, \
                     ${{DOLLAR_2}} …"
                )
            });
        }
        looks_like_a_name(inside).then(|| {
            format!(
                "${{{inside}}} is plain text: a name has only letters, digits and \"_\", without \
                 blanks and defaults; if it is meant as it is, write ${{DOLLAR}}{{{inside}}}"
            )
        })
    })
}

fn is_whole_name(word: &str) -> bool {
    is_name(word) && word.chars().all(is_name_char)
}

/// `" NAME "`, and what begins with a name: `NAME:-default`, `user-name`.
fn looks_like_a_name(inside: &str) -> bool {
    let inside = inside.trim_matches([' ', '\t']);
    let end = inside.find(|c| !is_name_char(c)).unwrap_or(inside.len());
    is_name(&inside[..end]) && (end == inside.len() || inside[end..].starts_with([':', '-']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_dollar_are_names() {
        let first: Vec<_> = dollars().take(3).collect();
        assert_eq!(first, ["DOLLAR", "DOLLAR_1", "DOLLAR_2"]);
        assert!(dollars().take(2_000).all(|name| is_dollar(&name) && is_whole_name(&name)));
        for name in ["", "DOLLARS", "DOLLAR_", "DOLLAR_A", "DOLLAR1", "dollar", "MY_DOLLAR"] {
            assert!(!is_dollar(name), "{name}");
        }
    }

    #[test]
    fn what_is_nearly_a_placeholder_is_told() {
        let told =
            |text: &str| placeholder_warnings(text, |name| name == "DOLLAR").collect::<Vec<_>>();
        for text in ["${ HOME }", "${HOME:-/root}", "a ${user-name}", "${HOME }", "${HOME:?}"] {
            let told = told(text);
            assert!(told.len() == 1 && told[0].contains("is plain text"), "{text}: {told:?}");
        }
        let taken = told("x ${DOLLAR}{HOME}");
        assert!(taken.len() == 1 && taken[0].contains("is not $ here"), "{taken:?}");
        let long = format!("${{A:{}}}", "a".repeat(MAX_INSIDE));
        for text in [
            "",
            "${A}",
            "$${A}",
            "\\${A}",
            "${",
            "${A",
            "${}",
            "${1a}",
            "${a.b}",
            "${f(x)}",
            "${{ a }}",
            "${DOLLAR_1}{HOME}",
            "${DOLLAR}{ HOME }",
            "${DOLLAR} 5",
            "${DOLLAR}{",
            "${\u{e9}}",
            &long,
        ] {
            assert_eq!(told(text), Vec::<String>::new(), "{text}");
        }
    }

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
