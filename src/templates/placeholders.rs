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
}
