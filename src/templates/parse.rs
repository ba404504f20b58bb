//! From a text to its pieces: one pass, which loses nothing, so that the pieces in a row are the
//! text. It goes on after a problem, to tell the others too.

use crate::base::{ArtifactName, Range};

use super::scanner::Scanner;

/// What `{{` is for, wherever it begins nothing.
const NOTHING: &str = "\"{{\" begins neither a variable such as {{NAME}} nor an import such as \
                       {{ import \"name@^1.0\" }}; where it means itself, write \"\\{{\"";
const UNFINISHED: &str = "an import is written {{ import \"name\" }} or {{ import \"name@^1.0\" }}";
const LONG_NAME: &str = "the name of a variable has at most 128 characters";
const NO_RANGE: &str = "what follows \"@\" in an import must be a version such as 1.2.0, or a range \
                        such as 1, 1.2, ^1.2, ~1.2, >=1.2 or *";

/// As all names of variables (contract §1, "Text").
const MAX_NAME_LEN: usize = 128;

/// A stretch of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Where it begins, in bytes.
    pub at: usize,
    /// As it is written.
    pub text: &'a str,
    pub what: What<'a>,
}

/// What a piece is.
#[derive(Debug, PartialEq, Eq)]
pub enum What<'a> {
    /// Text that stands for itself.
    Literal,
    /// `\{{`.
    Escape,
    /// `{{NAME}}`, with the name.
    Variable(&'a str),
    /// `{{ import "name@range" }}`; `written` is the range, `*` where there is none.
    Import { name: ArtifactName, range: Range, written: &'a str },
    /// Something that begins with `{{`, and what is wrong with it.
    Wrong(String),
}

/// The pieces of a text, none of them empty.
pub fn pieces(text: &str) -> Pieces<'_> {
    Pieces(Scanner::new(text))
}

/// See [`pieces`].
pub struct Pieces<'a>(pub(super) Scanner<'a>);

impl<'a> Iterator for Pieces<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        let scanner = &mut self.0;
        let at = scanner.at();
        let what = if scanner.eat("{{") {
            inside_braces(scanner).unwrap_or_else(What::Wrong)
        } else if scanner.eat("\\{{") {
            What::Escape
        } else if !scanner.eat_until("{{", "\\").is_empty() {
            What::Literal
        } else {
            return None;
        };
        Some(Piece { at, text: scanner.since(at), what })
    }
}

/// What stands after `{{`. It never reads past another `{{`, which may begin something good.
fn inside_braces<'a>(scanner: &mut Scanner<'a>) -> Result<What<'a>, String> {
    scanner.eat_while(is_blank);
    let word = scanner.eat_while(in_name);
    scanner.eat_while(is_blank);
    if word == "import" && scanner.eat("\"") {
        return import(scanner);
    }
    match scanner.eat("}}") {
        true if is_name(word) => Ok(What::Variable(word)),
        true if word.len() > MAX_NAME_LEN => Err(LONG_NAME.into()),
        false if word == "import" => Err(UNFINISHED.into()),
        _ => Err(NOTHING.into()),
    }
}

/// What stands after `{{ import "`.
fn import<'a>(scanner: &mut Scanner<'a>) -> Result<What<'a>, String> {
    let quoted = scanner.eat_while(|c| !matches!(c, '"' | '{' | '}' | '\n'));
    let is_closed = scanner.eat("\"");
    scanner.eat_while(is_blank);
    if !is_closed || !scanner.eat("}}") {
        return Err(UNFINISHED.into());
    }
    let (name, written) = quoted.split_once('@').unwrap_or((quoted, "*"));
    let name = ArtifactName::parse(name)
        .map_err(|phrase| format!("the name of an imported promptlet {phrase}"))?;
    let written = written.trim_matches(' ');
    let range = Range::parse(written).ok_or(NO_RANGE)?;
    Ok(What::Import { name, range, written })
}

/// What names of variables are made of.
pub fn in_name(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a word of such characters is the name of a variable.
pub fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| !c.is_ascii_digit()) && word.len() <= MAX_NAME_LEN
}

fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<What<'_>> {
        pieces(text).map(|piece| piece.what).collect()
    }

    fn imported<'a>(name: &str, written: &'a str) -> What<'a> {
        let name = ArtifactName::parse(name).unwrap();
        What::Import { name, range: Range::parse(written).unwrap(), written }
    }

    #[test]
    fn variables_are_names_in_double_braces() {
        let long = "a".repeat(128);
        for (text, name) in [
            ("{{a}}", "a"),
            ("{{_9}}", "_9"),
            ("{{ A_b }}", "A_b"),
            ("{{\t\r\n a\n}}", "a"),
            ("{{import}}", "import"),
            ("{{ imports }}", "imports"),
            (&format!("{{{{{long}}}}}"), &long),
        ] {
            assert_eq!(of(text), [What::Variable(name)], "{text}");
        }
    }

    #[test]
    fn imports_have_a_name_and_perhaps_a_range() {
        for (text, name, written) in [
            (r#"{{ import "tone-of-voice@^1.0" }}"#, "tone-of-voice", "^1.0"),
            (r#"{{import"a"}}"#, "a", "*"),
            ("{{\nimport\t\"a.b_C-9\"\n}}", "a.b_C-9", "*"),
            (r#"{{ import "a@1" }}"#, "a", "1"),
            (r#"{{ import "a@1.2.3" }}"#, "a", "1.2.3"),
            (r#"{{ import "a@ >= 1.2 " }}"#, "a", ">= 1.2"),
            (r#"{{ import "import@*" }}"#, "import", "*"),
        ] {
            assert_eq!(of(text), [imported(name, written)], "{text}");
        }
    }

    #[test]
    fn what_braces_do_not_open_stands_for_itself() {
        use What::{Escape, Literal, Variable};
        for text in
            ["a", "{", "}", "{a}", "}}", "{ {a}}", "\\", "\\{a", "import \"a\"", "{\\{", "é"]
        {
            assert_eq!(of(text), [Literal], "{text}");
        }
        assert_eq!(of(""), []);
        assert_eq!(of("\\{{"), [Escape]);
        assert_eq!(of("\\{{a}}"), [Escape, Literal]);
        assert_eq!(of("\\\\{{a}}"), [Literal, Escape, Literal]);
        assert_eq!(of("\\{{{{a}}"), [Escape, Variable("a")]);
        assert_eq!(of("{{a}}\\{{{{b}}}"), [Variable("a"), Escape, Variable("b"), Literal]);
        assert_eq!(of("\\ {{a}}"), [Literal, Variable("a")]);
    }

    #[test]
    fn any_other_braces_are_a_problem() {
        let long = format!("{{{{{}}}}}", "a".repeat(129));
        for (text, phrase) in [
            ("{{", "begins neither"),
            ("{{ }}", "begins neither"),
            ("{{}}", "begins neither"),
            ("{{1a}}", "begins neither"),
            ("{{a-b}}", "begins neither"),
            ("{{a b}}", "begins neither"),
            ("{{a}", "begins neither"),
            ("{{ä}}", "begins neither"),
            ("{{#if a}}", "begins neither"),
            ("{{{a}}}", "begins neither"),
            ("{{ Import \"a\" }}", "begins neither"),
            ("{{\u{a0}a}}", "begins neither"),
            (&long, "128 characters"),
            ("{{ import a }}", "is written"),
            ("{{ import 'a' }}", "is written"),
            ("{{ import \"a }}", "is written"),
            ("{{ import \"a", "is written"),
            ("{{ import \"a\" ", "is written"),
            ("{{ import \"a\" b }}", "is written"),
            ("{{ import \"a\nb\" }}", "is written"),
            ("{{ import \"\" }}", "name of an imported promptlet must"),
            ("{{ import \"a b\" }}", "name of an imported promptlet must"),
            ("{{ import \" a\" }}", "name of an imported promptlet must"),
            ("{{ import \"..\" }}", "name of an imported promptlet must"),
            ("{{ import \"@1\" }}", "name of an imported promptlet must"),
            ("{{ import \"a@\" }}", "or a range"),
            ("{{ import \"a@latest\" }}", "or a range"),
            ("{{ import \"a@1.2.3-rc\" }}", "or a range"),
            ("{{ import \"a@>=1, <2\" }}", "or a range"),
            ("{{ import \"a@1@2\" }}", "or a range"),
        ] {
            let What::Wrong(message) = of(text).remove(0) else { panic!("{text}") };
            assert!(message.contains(phrase), "{text}: {message}");
        }
    }

    #[test]
    fn reading_goes_on_after_a_problem() {
        let good = |text| of(text).into_iter().filter(|what| matches!(what, What::Variable(_)));
        for text in ["{{ {{a}}", "{{{{a}}", "{{b {{a}}", "{{ import \"{{a}}\" }}", "{{1}} {{a}}"] {
            assert!(good(text).eq([What::Variable("a")]), "{text}");
        }
        assert_eq!(of("{{ \\{{").last(), Some(&What::Escape));
        assert_eq!(of("{{{{{{").len(), 3);
    }
}
