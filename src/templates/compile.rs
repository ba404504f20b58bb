//! Compiles a source: imports are replaced by the texts of promptlets, everything else is kept as
//! written.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::{ArtifactName, Range, Version};

use super::MAX_TEXT_BYTES;
use super::parse::{TokenKind, quoted, tokens};

/// Problems reported of one text; the others are seen once these are fixed.
pub const MAX_PROBLEMS: usize = 100;
/// Different imports, and different variables, of one text: each becomes a row in the transaction
/// that publishes it.
pub const MAX_IMPORTS: usize = 1_000;
/// See [`MAX_IMPORTS`].
pub const MAX_VARIABLES: usize = 1_000;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "TemplateProblem")]
pub struct Diagnostic {
    /// A sentence without a final full stop.
    pub message: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Diagnostic {
    /// The form used in issues of errors (reference: registries-and-templates, "Compiling"): "…
    /// (line 1, column 2)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}, column {})", self.message, self.line, self.column)
    }
}

/// The published version of a promptlet that an import resolves to.
#[derive(Clone, Debug)]
pub struct Imported {
    pub version: Version,
    /// Its compiled text, which holds no import and no problem.
    pub text: String,
    /// The variables of that text, in order of first appearance.
    pub variables: Vec<String>,
}

/// An import and the version it was resolved to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The promptlet.
    pub name: ArtifactName,
    /// The range as written, without blanks around it; `*` where there was none.
    pub range: String,
    pub version: Version,
}

/// The result of compiling. If there are problems the text is only a preview: invalid parts are
/// kept as written, and parts beyond the size limit are missing.
#[derive(Clone, Debug, Default)]
pub struct Compilation {
    /// The compiled text, at most 1 MiB. Compiling it again does not change it.
    pub text: String,
    /// Its variables in order of first appearance, those of imports included.
    pub variables: Vec<String>,
    /// Each different pair of name and range, in order of first appearance.
    pub imports: Vec<Import>,
    /// The first 100 problems, in order of position.
    pub problems: Vec<Diagnostic>,
}

/// Compiles a source (reference: registries-and-templates, "Compiling"). `resolve` is called once
/// for each different pair of name and range; its `Ok(Err(message))` is a problem at every position
/// of that import.
///
/// # Errors
/// The first `Err` of `resolve`, which ends the compilation.
pub fn compile<E>(
    source: &str,
    mut resolve: impl FnMut(&ArtifactName, &Range) -> Result<Result<Imported, String>, E>,
) -> Result<Compilation, E> {
    let mut compiler = Compiler::default();
    let mut resolved: BTreeMap<(ArtifactName, &str), Result<Imported, String>> = BTreeMap::new();
    let mut position = Position::FIRST;
    for token in tokens(source) {
        match token.kind {
            TokenKind::Literal => compiler.append(token.text, position),
            TokenKind::Escape | TokenKind::Quoted(_) => compiler.append_token(token.text, position),
            TokenKind::Variable(name) => {
                compiler.add_variable(name, position);
                compiler.append_token(token.text, position);
            }
            TokenKind::Invalid(message) => {
                compiler.report(message, position);
                compiler.append_token(token.text, position);
            }
            TokenKind::Import { name, range, written } => {
                let is_full = resolved.len() == MAX_IMPORTS;
                let import = match resolved.entry((name, written)) {
                    Entry::Occupied(entry) => Some(entry.into_mut()),
                    Entry::Vacant(_) if is_full => None,
                    Entry::Vacant(entry) => {
                        let mut import = resolve(&entry.key().0, &range)?;
                        if let Ok(imported) = &mut import {
                            compiler.add_import(&entry.key().0, written, imported, position);
                        }
                        Some(entry.insert(import))
                    }
                };
                match import {
                    Some(Ok(imported)) => compiler.append_import(&imported.text, position),
                    Some(Err(message)) => {
                        compiler.report(message.clone(), position);
                        compiler.append(token.text, position);
                    }
                    None => {
                        compiler.report_once(TOO_MANY_IMPORTS, position);
                        compiler.append(token.text, position);
                    }
                }
            }
        }
        position = position.after(token.text);
    }
    let mut compilation = compiler.output;
    compilation.problems.sort_by_key(|problem| (problem.line, problem.column));
    Ok(compilation)
}

const TOO_MANY_IMPORTS: &str = "a text has at most 1,000 different imports";
const TOO_MANY_VARIABLES: &str =
    "a text has at most 1,000 different variables, those of its imports included";
const TOO_LONG: &str = "the compiled text has at most 1 MiB; here it becomes longer";

/// The position of a token in the source.
#[derive(Clone, Copy)]
pub(super) struct Position {
    pub line: u32,
    pub column: u32,
}

impl Position {
    /// That of the first character.
    pub const FIRST: Position = Position { line: 1, column: 1 };

    /// The position behind `text`.
    pub fn after(self, text: &str) -> Position {
        text.chars().fold(self, |position, c| match c {
            '\n' => Position { line: position.line.saturating_add(1), column: 1 },
            _ => Position { column: position.column.saturating_add(1), ..position },
        })
    }
}

/// The state of a compilation.
#[derive(Default)]
struct Compiler {
    output: Compilation,
    known_variables: HashSet<String>,
    /// Where the plain text begins in which the output ends.
    plain_from: usize,
    is_too_long: bool,
}

impl Compiler {
    fn report(&mut self, message: impl Into<String>, position: Position) {
        if self.output.problems.len() < MAX_PROBLEMS {
            let Position { line, column } = position;
            self.output.problems.push(Diagnostic { message: message.into(), line, column });
        }
    }

    /// Reports a problem of the whole text, at the first position where it occurs.
    fn report_once(&mut self, message: &str, position: Position) {
        if !self.output.problems.iter().any(|problem| problem.message == message) {
            self.report(message, position);
        }
    }

    fn add_variable(&mut self, variable: &str, position: Position) {
        if self.known_variables.contains(variable) {
            return;
        }
        if self.known_variables.len() == MAX_VARIABLES {
            return self.report_once(TOO_MANY_VARIABLES, position);
        }
        self.known_variables.insert(variable.to_owned());
        self.output.variables.push(variable.to_owned());
    }

    /// Adds an import, with its variables, that did not occur before.
    fn add_import(
        &mut self,
        name: &ArtifactName,
        range: &str,
        imported: &mut Imported,
        position: Position,
    ) {
        self.output.imports.push(Import {
            name: name.clone(),
            range: range.to_owned(),
            version: imported.version.clone(),
        });
        for variable in &imported.variables {
            self.add_variable(variable, position);
        }
        if self.is_too_long {
            imported.text = String::new(); // Not part of the output: 1,000 such texts take memory.
        }
    }

    /// Appends the text of an import.
    fn append_import(&mut self, text: &str, position: Position) {
        if !self.has_room(text.len()) {
            return self.append(text, position); // A long text may be there many times.
        }
        let plain = tokens(text).last().filter(|token| token.kind == TokenKind::Literal);
        match plain.map(|token| token.offset) {
            Some(0) => self.append(text, position),
            Some(offset) => {
                self.append_token(&text[..offset], position);
                self.append(&text[offset..], position);
            }
            None => self.append_token(text, position),
        }
    }

    /// Appends something that does not end in plain text.
    fn append_token(&mut self, text: &str, position: Position) {
        self.append(text, position);
        if !text.is_empty() {
            self.plain_from = self.output.text.len();
        }
    }

    fn append(&mut self, text: &str, position: Position) {
        let quoted = self.quoted_before(text);
        self.is_too_long |= !self.has_room(text.len() + quoted.as_ref().map_or(0, String::len));
        if self.is_too_long {
            return self.report_once(TOO_LONG, position);
        }
        if let Some(quoted) = quoted {
            self.output.text.truncate(self.open_end());
            self.output.text.push_str(&quoted);
            self.plain_from = self.output.text.len();
        }
        self.output.text.push_str(text);
    }

    fn has_room(&self, bytes: usize) -> bool {
        !self.is_too_long && self.output.text.len() + bytes <= MAX_TEXT_BYTES
    }

    /// What stands for the braces and backslashes at the end of the output, if they would join with
    /// `text` to something that nobody wrote. Only an import ends in such: in a source
    /// `\{{ import "a" }}` is no import, and `{{{` is a problem.
    fn quoted_before(&self, text: &str) -> Option<String> {
        let plain = &self.output.text[self.plain_from..];
        let joins = plain.ends_with('{') && text.starts_with('{')
            || plain.ends_with('\\') && text.starts_with("{{");
        joins.then(|| quoted(&self.output.text[self.open_end()..]))
    }

    /// Where the braces and backslashes begin in which the output ends.
    fn open_end(&self) -> usize {
        let plain = &self.output.text[self.plain_from..];
        self.plain_from + plain.trim_end_matches(['{', '\\']).len()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Compiles with these promptlets, each of version 1.0.0 with the variable `v`; without a range
    /// the version is 2.0.0.
    fn compiled(source: &str, promptlets: &[(&str, &str)]) -> Compilation {
        let find = |name: &ArtifactName, range: &Range| -> Result<_, Infallible> {
            let Some((_, text)) = promptlets.iter().find(|(one, _)| *one == name.as_str()) else {
                return Ok(Err("there is no such promptlet".to_owned()));
            };
            let version = if *range == Range::ANY { "2.0.0" } else { "1.0.0" };
            let version = Version::parse(version).unwrap();
            Ok(Ok(Imported { version, text: (*text).to_owned(), variables: vec!["v".into()] }))
        };
        let Ok(done) = compile(source, find);
        done
    }

    /// The problems as text.
    fn problems(source: &str, promptlets: &[(&str, &str)]) -> Vec<String> {
        compiled(source, promptlets).problems.iter().map(Diagnostic::to_string).collect()
    }

    #[test]
    fn variables_and_escapes_are_kept_and_imports_are_replaced() {
        let done = compiled(
            "\\{{x}} {{ b }}{{ import \"p@1\" }}{{a}}{{b}}{{ import \"p@1\" }}",
            &[("p", "<{{ v }}\\{{>")],
        );
        assert_eq!(done.text, "\\{{x}} {{ b }}<{{ v }}\\{{>{{a}}{{b}}<{{ v }}\\{{>");
        assert_eq!(done.variables, ["b", "v", "a"]);
        assert_eq!((done.imports.len(), done.problems.len()), (1, 0));
    }

    #[test]
    fn each_pair_of_name_and_range_is_resolved_once() {
        let source = "{{ import \"p@1\" }}{{ import \"p\" }}{{ import \"p@ 1\" }}{{ import \"p@*\" }}\
                      {{ import \"q\" }}{{ import \"q\" }}";
        let mut asked = Vec::new();
        let done = compile(source, |name, range| {
            asked.push((name.to_string(), *range));
            let text = "x".to_owned();
            let version = Version::parse("1.0.0").unwrap();
            Ok::<_, Infallible>(Ok(Imported { version, text, variables: vec![] }))
        });
        let one = Range::parse("1").unwrap();
        let expected = [("p".into(), one), ("p".into(), Range::ANY), ("q".into(), Range::ANY)];
        assert_eq!(asked, expected);
        assert_eq!(done.unwrap().text, "xxxxxx");
    }

    #[test]
    fn one_promptlet_may_be_imported_in_two_versions() {
        let done = compiled("{{ import \"p@~1.0\" }}{{ import \"p\" }}", &[("p", "")]);
        let seen: Vec<_> =
            done.imports.iter().map(|i| (i.range.as_str(), i.version.as_str())).collect();
        assert_eq!(seen, [("~1.0", "1.0.0"), ("*", "2.0.0")]);
    }

    #[test]
    fn all_problems_are_reported_with_line_and_column_in_characters() {
        let reported = problems("ä🚢{{1}}\n{{a}}\r\n {{ import \"no\" }}\n{{", &[]);
        let ends: Vec<_> = reported.iter().filter_map(|one| one.split_once(" (")).collect();
        assert!(ends[0].0.starts_with("\"{{\" begins neither") && ends[0].1 == "line 1, column 3)");
        assert_eq!(ends[1], ("there is no such promptlet", "line 3, column 2)"));
        assert_eq!(ends[2].1, "line 4, column 1)");
        assert_eq!(reported.len(), 3);
        assert_eq!(problems(&"{{ ".repeat(1_000), &[]).len(), MAX_PROBLEMS);
    }

    #[test]
    fn a_missing_promptlet_is_reported_at_each_position() {
        assert_eq!(problems("{{ import \"no\" }}{{ import \"no\" }}", &[]).len(), 2);
    }

    #[test]
    fn an_error_of_resolve_ends_the_compilation() {
        assert_eq!(compile("{{ import \"p\" }}", |_, _| Err(7)).unwrap_err(), 7);
    }

    #[test]
    fn what_an_import_ends_in_joins_with_nothing_that_follows() {
        let promptlets = [
            ("brace", "a{"),
            ("one", "{"),
            ("slash", "a\\"),
            ("open", "{b"),
            ("var", "{{v}}"),
            ("escape", "\\{{"),
            ("twice", "\\{{{"),
            ("empty", ""),
        ];
        for (names, text) in [
            ("brace {", "a{{ '{' }}{"),
            ("brace {x}", "a{{ '{' }}{x}"),
            ("brace {{v}}", "a{{ '{' }}{{v}}"),
            ("brace open", "a{{ '{' }}{b"),
            ("brace var", "a{{ '{' }}{{v}}"),
            ("brace empty empty open", "a{{ '{' }}{b"),
            ("slash var", "a{{ '\\' }}{{v}}"),
            ("slash empty var", "a{{ '\\' }}{{v}}"),
            ("slash one {{v}}", "a{{ '\\{' }}{{v}}"),
            ("slash one one one var", "a{{ '\\{' }}{{ '{' }}{{ '{' }}{{v}}"),
            ("twice open", "\\{{{{ '{' }}{b"),
            // Nothing would join here.
            ("brace x", "a{x"),
            ("brace", "a{"),
            ("slash {x", "a\\{x"),
            ("slash open", "a\\{b"),
            ("slash escape", "a\\\\{{"),
            ("escape var", "\\{{{{v}}"),
            ("brace escape", "a{\\{{"),
            ("twice x", "\\{{{x"),
            ("\\{{ open", "\\{{{b"),
        ] {
            let source = names.split(' ').map(|name| {
                let is_promptlet = promptlets.iter().any(|p| p.0 == name);
                if is_promptlet { format!("{{{{ import \"{name}\" }}}}") } else { name.into() }
            });
            let done = compiled(&source.collect::<String>(), &promptlets);
            assert_eq!((done.text.as_str(), done.problems.len()), (text, 0), "{names}");
        }
    }

    #[test]
    fn imports_and_variables_are_bounded() {
        let source = |of: &dyn Fn(usize) -> String, count| (0..count).map(of).collect::<String>();
        let variables = |count| source(&|number| format!("{{{{a{number}}}}}"), count);
        let imports = |count| source(&|number| format!("{{{{ import \"p@{number}\" }}}}"), count);
        assert_eq!(compiled(&variables(1_000), &[]).variables.len(), MAX_VARIABLES);
        let reported = problems(&(variables(1_002) + "{{a1}}"), &[]);
        assert!(reported.len() == 1 && reported[0].contains("variables"), "{reported:?}");
        let reported = problems(&(variables(1_000) + "\n{{ import \"p\" }}"), &[("p", "{{v}}")]);
        assert!(reported.len() == 1 && reported[0].ends_with("(line 2, column 1)"), "{reported:?}");
        assert_eq!(compiled(&imports(1_000), &[("p", "")]).imports.len(), MAX_IMPORTS);
        let reported = problems(&imports(1_002), &[("p", "")]);
        assert!(reported.len() == 1 && reported[0].contains("imports"), "{reported:?}");
        assert_eq!(problems(&"{{ import \"p\" }}".repeat(2_000), &[("p", "")]).len(), 0);
    }

    #[test]
    fn a_long_import_that_is_there_often_is_read_seldom() {
        let long = "\\{{".repeat(MAX_TEXT_BYTES / 3);
        let source = "{{import\"p\"}}".repeat(20_000);
        let begin = std::time::Instant::now();
        assert_eq!(problems(&source, &[("p", &long)]).len(), 1);
        assert!(begin.elapsed().as_secs() < 20, "{:?}", begin.elapsed());
    }

    #[test]
    fn a_compiled_text_is_bounded() {
        let quarter = "x".repeat(MAX_TEXT_BYTES / 4);
        let promptlets = [("p", quarter.as_str()), ("q", quarter.as_str())];
        let four = "{{ import \"p\" }}".repeat(4);
        assert_eq!(compiled(&four, &promptlets).text.len(), MAX_TEXT_BYTES);
        let done = compiled(&format!("{four}\n.{{{{ import \"q\" }}}}{{{{a b}}}}"), &promptlets);
        let reported: Vec<String> = done.problems.iter().map(Diagnostic::to_string).collect();
        assert!(done.text.len() <= MAX_TEXT_BYTES);
        assert!(
            reported[0].contains("1 MiB") && reported[0].ends_with("(line 1, column 65)"),
            "{reported:?}"
        );
        assert!(reported.len() == 2 && reported[1].contains("begins neither"), "{reported:?}");
    }
}
