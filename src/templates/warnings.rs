//! What a text says that its author may have meant otherwise.

use super::compile::{Diagnostic, Position};
use super::parse::{TokenKind, tokens};

/// Warnings of one text; there may be more.
pub const MAX_WARNINGS: usize = 20;

/// Marks of other template languages, which are plain text here.
const FOREIGN: [(&str, &str, &str); 2] = [
    ("{%", "%}", "\"{%\" to \"%}\" is plain text: there are no conditions and no loops"),
    ("{#", "#}", "\"{#\" to \"#}\" is plain text: there are no comments"),
];

/// Returns what looks like a mistake in a source that can be published all the same, in order of
/// position, the first 20: a variable or import that is escaped, marks and line ends of a file, that it is
/// empty, and where a statement or comment of another template language first is.
pub fn warnings(source: &str) -> Vec<Diagnostic> {
    let mut foreign = FOREIGN.to_vec();
    let mut found = of_files(source);
    let mut position = Position::FIRST;
    for token in tokens(source) {
        if found.len() >= MAX_WARNINGS {
            break;
        }
        match token.kind {
            TokenKind::Literal => {
                let mut here: Vec<(usize, &str)> = Vec::new();
                foreign.retain(|(open, close, message)| {
                    let Some(at) = token.text.find(open) else { return true };
                    let is_closed = source[token.offset + at + open.len()..].contains(close);
                    here.extend(is_closed.then_some((at, *message)));
                    false
                });
                here.sort_unstable();
                for (at, message) in here {
                    found.push(diagnostic(message.into(), position.after(&token.text[..at])));
                }
            }
            TokenKind::Escape => {
                let message = escaped(&source[token.offset + 1..]);
                found.extend(message.map(|message| diagnostic(message, position)));
            }
            _ => {}
        }
        position = position.after(token.text);
    }
    found.sort_by_key(|found| (found.line, found.column));
    found
}

/// What a text has of the file that it was in, where files that are published have none of it.
fn of_files(source: &str) -> Vec<Diagnostic> {
    let mark = source.starts_with('\u{feff}').then(|| {
        let message = "the text begins with a byte order mark, which belongs to a file";
        diagnostic(message.into(), Position::FIRST)
    });
    let line_end = source.find('\r').map(|at| {
        let message = "the line ends with CR, which is kept: prompts in files are published with LF \
                       alone, as another text";
        diagnostic(message.into(), Position::FIRST.after(&source[..at]))
    });
    let empty = source.trim().is_empty().then(|| {
        let message = "the text is empty: it tells a model nothing";
        diagnostic(message.into(), Position::FIRST)
    });
    mark.into_iter().chain(line_end).chain(empty).collect()
}

/// What is said of an escape if what it escapes would be a variable or an import.
fn escaped(text: &str) -> Option<String> {
    match tokens(text).next()?.kind {
        TokenKind::Variable(name) => Some(format!(
            "\\{{{{{name}}}}} is the text {{{{{name}}}}} and no variable; for a backslash before the \
             variable write {{{{ '\\' }}}}{{{{{name}}}}}"
        )),
        TokenKind::Quoted(_) => Some(
            "what is in quotation marks is plain text behind \\; for a backslash write {{ '\\' }} in its \
             place, not behind it"
                .into(),
        ),
        TokenKind::Import { name, .. } => Some(format!(
            "the import of \"{name}\" is plain text behind \\; for a backslash before it write \
             {{{{ '\\' }}}}"
        )),
        _ => None,
    }
}

fn diagnostic(message: String, Position { line, column }: Position) -> Diagnostic {
    Diagnostic { message, line, column }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(source: &str) -> Vec<String> {
        warnings(source).iter().map(Diagnostic::to_string).collect()
    }

    #[test]
    fn what_looks_like_a_mistake_is_told_where_it_is() {
        assert_eq!(
            of("a\nC:\\Users\\{{ USER }}\\x"),
            [
                "\\{{USER}} is the text {{USER}} and no variable; for a backslash before the variable \
              write {{ '\\' }}{{USER}} (line 2, column 9)"
            ]
        );
        assert!(
            of("\\{{ import \"tone\" }}")[0].starts_with("the import of \"tone\" is plain text")
        );
        assert!(of(r"C:\Users\{{ '\' }}{{USER}}")[0].starts_with("what is in quotation marks"));
        let jinja = of("{# x #} \\{{a}}\n{{b}}{% if b %}x{% endif %}");
        assert!(
            jinja[0].starts_with("\"{#\"") && jinja[0].ends_with("(line 1, column 1)"),
            "{jinja:?}"
        );
        assert!(jinja[1].starts_with("\\{{a}} is the text"), "{jinja:?}");
        assert!(
            jinja[2].starts_with("\"{%\"") && jinja[2].ends_with("(line 2, column 6)"),
            "{jinja:?}"
        );
        assert_eq!(jinja.len(), 3);
    }

    #[test]
    fn what_can_only_be_meant_is_told_nothing_of() {
        for source in [
            "{{a}} {b} %} {%",
            "\\{{",
            "\\{{ a b }}",
            "{{ '\\' }}{{a}}",
            "#} {#",
            "{#id}",
            "{{ '{% x %}' }}",
        ] {
            assert_eq!(of(source), Vec::<String>::new(), "{source}");
        }
    }

    #[test]
    fn what_a_text_has_of_its_file_is_told_once() {
        let told = of("\u{feff}a\r\nb\r\n");
        assert!(told[0].ends_with("which belongs to a file (line 1, column 1)"), "{told:?}");
        assert!(told[1].ends_with("as another text (line 1, column 3)"), "{told:?}");
        assert_eq!(told.len(), 2);
    }

    #[test]
    fn a_text_without_a_word_is_told_of() {
        for source in ["", "\n \t\n"] {
            let told = of(source);
            assert!(told.len() == 1 && told[0].starts_with("the text is empty"), "{told:?}");
        }
    }

    #[test]
    fn warnings_are_bounded() {
        assert_eq!(of(&"\\{{a}}".repeat(100_000)).len(), MAX_WARNINGS);
    }
}
