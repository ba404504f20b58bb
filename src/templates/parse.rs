//! The lexer: splits a text into tokens in one pass. The tokens in a row are the text. It continues
//! after an invalid token, so that all problems are found.

use crate::base::{ArtifactName, Range};

use super::scanner::Scanner;

const INVALID: &str = "\"{{\" begins neither a variable such as {{NAME}} nor an import such as \
                       {{ import \"name@^1.0\" }}; for a literal {{ write \"\\{{\"";
const BRACE_BEFORE: &str = "\"{{\" begins neither a variable nor an import if a third brace follows; \
                            for a brace before a variable write {{ '{' }}{{NAME}}";
const NOT_A_NAME: &str = "\"{{\" begins neither a variable nor an import: the name of a variable has \
                          letters, digits and \"_\" only, and begins with no digit";
const UNCLOSED_QUOTE: &str = "a quoted text is written {{ '…' }} or {{ \"…\" }}, on one line and \
                              without the same quote in it";
const UNFINISHED: &str = "an import is written {{ import \"name\" }} or {{ import \"name@^1.0\" }}";
const LONG_NAME: &str = "the name of a variable has at most 128 characters";
const NO_RANGE: &str = "what follows \"@\" in an import must be a version such as 1.2.0, or a range \
                        such as 1, 1.2, ^1.2, ~1.2, >=1.2 or *";

/// The limit of all names of variables (reference: conventions, "Texts and names").
const MAX_NAME_LEN: usize = 128;

/// A token of a text.
#[derive(Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// Offset in bytes.
    pub offset: usize,
    /// As written.
    pub text: &'a str,
    pub kind: TokenKind<'a>,
}

/// The kind of a token.
#[derive(Debug, PartialEq, Eq)]
pub enum TokenKind<'a> {
    /// Plain text.
    Literal,
    /// `\{{`.
    Escape,
    /// `{{NAME}}`, with the name.
    Variable(&'a str),
    /// `{{ import "name@range" }}`; `written` is the range as written, `*` if there is none.
    Import { name: ArtifactName, range: Range, written: &'a str },
    /// `{{ '…' }}` or `{{ "…" }}`, with the text between the quotes.
    Quoted(&'a str),
    /// Anything else that begins with `{{`, with what is wrong.
    Invalid(String),
}

/// Returns the tokens of a text, none of them empty.
pub fn tokens(text: &str) -> Tokens<'_> {
    Tokens(Scanner::new(text))
}

/// Writes a text so that it stands for itself before and behind anything. It must have neither a `'`
/// nor a line end.
pub fn quoted(text: &str) -> String {
    format!("{{{{ '{text}' }}}}")
}

/// Returns the names of the promptlets that a text imports, in order, as often as it does.
pub fn imports(text: &str) -> impl Iterator<Item = ArtifactName> + '_ {
    tokens(text).filter_map(|token| match token.kind {
        TokenKind::Import { name, .. } => Some(name),
        _ => None,
    })
}

/// The iterator of [`tokens`].
pub struct Tokens<'a>(pub(super) Scanner<'a>);

impl<'a> Iterator for Tokens<'a> {
    type Item = Token<'a>;

    fn next(&mut self) -> Option<Token<'a>> {
        let scanner = &mut self.0;
        let offset = scanner.offset();
        let kind = if scanner.eat("{{") {
            inside_braces(scanner).unwrap_or_else(TokenKind::Invalid)
        } else if scanner.eat("\\{{") {
            TokenKind::Escape
        } else if !scanner.eat_until("{{", "\\").is_empty() {
            TokenKind::Literal
        } else {
            return None;
        };
        Some(Token { offset, text: scanner.since(offset), kind })
    }
}

/// Parses what follows `{{`. It never reads past another `{{`, which may begin a valid token, unless
/// that is quoted.
fn inside_braces<'a>(scanner: &mut Scanner<'a>) -> Result<TokenKind<'a>, String> {
    let is_third_brace = scanner.is_before('{');
    scanner.eat_while(is_whitespace);
    let word = scanner.eat_while(is_name_char);
    scanner.eat_while(is_whitespace);
    if word == "import" && scanner.eat("\"") {
        return import(scanner);
    }
    if word.is_empty() && scanner.eat("'") {
        return quoted_text(scanner, '\'');
    }
    if word.is_empty() && scanner.eat("\"") {
        return quoted_text(scanner, '"');
    }
    let is_closed = scanner.eat("}}");
    if is_closed && is_name(word) {
        Ok(TokenKind::Variable(word))
    } else if is_closed && word.len() > MAX_NAME_LEN {
        Err(LONG_NAME.into())
    } else if !is_closed && word == "import" {
        Err(UNFINISHED.into())
    } else if is_third_brace {
        Err(BRACE_BEFORE.into())
    } else if !word.is_empty() && (is_closed || scanner.is_before('-') || scanner.is_before('.')) {
        Err(NOT_A_NAME.into())
    } else {
        Err(INVALID.into())
    }
}

/// Parses what follows `{{ '` or `{{ "`. What is not closed is read no further than its quote, so that
/// problems behind it are found; a quote of one kind has at most one that misses it on its line, so
/// this takes linear time, too.
fn quoted_text<'a>(scanner: &mut Scanner<'a>, quote: char) -> Result<TokenKind<'a>, String> {
    let begin = scanner.offset();
    let text = scanner.eat_quoted(quote);
    scanner.eat_while(is_whitespace);
    match text {
        Some(text) if scanner.eat("}}") => Ok(TokenKind::Quoted(text)),
        _ => {
            scanner.go_back(begin);
            Err(UNCLOSED_QUOTE.into())
        }
    }
}

/// Parses what follows `{{ import "`.
fn import<'a>(scanner: &mut Scanner<'a>) -> Result<TokenKind<'a>, String> {
    let quoted = scanner.eat_while(|c| !matches!(c, '"' | '{' | '}' | '\n'));
    let is_closed = scanner.eat("\"");
    scanner.eat_while(is_whitespace);
    if !is_closed || !scanner.eat("}}") {
        return Err(UNFINISHED.into());
    }
    let (name, written) = quoted.split_once('@').unwrap_or((quoted, "*"));
    let name = ArtifactName::parse(name)
        .map_err(|phrase| format!("the name of an imported promptlet {phrase}"))?;
    let written = written.trim_matches(' ');
    let range = Range::parse(written).ok_or(NO_RANGE)?;
    Ok(TokenKind::Import { name, range, written })
}

/// Whether a character may be part of a variable name.
pub fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

/// Whether a word of name characters is a variable name.
pub fn is_name(word: &str) -> bool {
    word.starts_with(|c: char| !c.is_ascii_digit()) && word.len() <= MAX_NAME_LEN
}

fn is_whitespace(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Vec<TokenKind<'_>> {
        tokens(text).map(|token| token.kind).collect()
    }

    fn imported<'a>(name: &str, written: &'a str) -> TokenKind<'a> {
        let name = ArtifactName::parse(name).unwrap();
        TokenKind::Import { name, range: Range::parse(written).unwrap(), written }
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
            assert_eq!(of(text), [TokenKind::Variable(name)], "{text}");
        }
    }

    #[test]
    fn imports_have_a_name_and_optionally_a_range() {
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
    fn text_without_double_braces_is_literal() {
        use TokenKind::{Escape, Literal, Quoted, Variable};
        assert_eq!(of("{{ '\\' }}{{a}}"), [Quoted("\\"), Variable("a")]);
        assert_eq!(of("{{'{{a}}'}}{{\n\"it's\"\t}}"), [Quoted("{{a}}"), Quoted("it's")]);
        assert_eq!(of("{{''}}\\{{ 'a' }}"), [Quoted(""), Escape, Literal]);
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
    fn any_other_double_braces_are_invalid() {
        let long = format!("{{{{{}}}}}", "a".repeat(129));
        for (text, phrase) in [
            ("{{", "begins neither"),
            ("{{ }}", "begins neither"),
            ("{{}}", "begins neither"),
            ("{{1a}}", "begins neither"),
            ("{{a-b}}", "begins neither"),
            ("{{a-b}}", "letters, digits and \"_\" only"),
            ("{{a.b}}", "letters, digits and \"_\" only"),
            ("{{1a}}", "begins with no digit"),
            ("{{{a}}}", "for a brace before a variable write {{ '{' }}"),
            ("{{ 'a }}", "a quoted text is written"),
            ("{{ 'a\n' }}", "a quoted text is written"),
            ("{{ 'a\" }}", "a quoted text is written"),
            ("{{ \"a\" b }}", "a quoted text is written"),
            ("{{ 'a''b' }}", "a quoted text is written"),
            ("{{ a 'b' }}", "begins neither"),
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
            let TokenKind::Invalid(message) = of(text).remove(0) else { panic!("{text}") };
            assert!(message.contains(phrase), "{text}: {message}");
        }
    }

    #[test]
    fn lexing_continues_after_an_invalid_token() {
        let variables =
            |text| of(text).into_iter().filter(|kind| matches!(kind, TokenKind::Variable(_)));
        for text in [
            "{{ {{a}}",
            "{{{{a}}",
            "{{b {{a}}",
            "{{ '{{a}}",
            "{{ '{{a}}' b",
            "{{ import \"{{a}}\" }}",
            "{{1}} {{a}}",
        ] {
            assert!(variables(text).eq([TokenKind::Variable("a")]), "{text}");
        }
        assert_eq!(of("{{ \\{{").last(), Some(&TokenKind::Escape));
        assert_eq!(of("{{{{{{").len(), 3);
    }
}
