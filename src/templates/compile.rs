//! From a source to a compiled text: imports are replaced by what the promptlets say, everything
//! else stays as it is written.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::base::{ArtifactName, Range, Version};

use super::MAX_TEXT_BYTES;
use super::parse::{What, pieces};

/// Problems told of one text. Who has mended these will see the others.
pub const MAX_PROBLEMS: usize = 100;
/// Different imports, and different variables, of one text: each becomes a row in the transaction
/// that publishes it.
pub const MAX_IMPORTS: usize = 1_000;
/// See [`MAX_IMPORTS`].
pub const MAX_VARIABLES: usize = 1_000;

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "TemplateProblem")]
pub struct Problem {
    /// A sentence without a final full stop.
    pub message: String,
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
}

impl fmt::Display for Problem {
    /// As an issue tells it (contract §3): "… (line 1, column 2)".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (line {}, column {})", self.message, self.line, self.column)
    }
}

/// What an import leads to: a promptlet's version as it was published.
#[derive(Clone, Debug)]
pub struct Imported {
    /// The version.
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
    /// The version.
    pub version: Version,
}

/// What compiling gives. With problems the text is for looking at only: what was wrong stands in it
/// as written, and what made it too long is left out.
#[derive(Clone, Debug, Default)]
pub struct Compilation {
    /// The compiled text, at most 1 MiB. Compiled again it stays the same.
    pub text: String,
    /// Its variables in order of first appearance, those of imports included.
    pub variables: Vec<String>,
    /// Each different pair of name and range, in order of first appearance.
    pub imports: Vec<Import>,
    /// The first 100 problems, in order of their places.
    pub problems: Vec<Problem>,
}

/// Compiles a source (contract §3). `find` is asked once for each different pair of name and range;
/// `Ok(Err(message))` of it is a problem at each place of that import, `Err` ends the compiling.
pub fn compile<E>(
    source: &str,
    mut find: impl FnMut(&ArtifactName, &Range) -> Result<Result<Imported, String>, E>,
) -> Result<Compilation, E> {
    let mut work = Work::default();
    let mut asked: BTreeMap<(ArtifactName, &str), Result<Imported, String>> = BTreeMap::new();
    let mut place = Place { line: 1, column: 1 };
    for piece in pieces(source) {
        match piece.what {
            What::Literal | What::Escape => work.push(piece.text, place),
            What::Variable(name) => {
                work.mention(name, place);
                work.push(piece.text, place);
            }
            What::Wrong(message) => {
                work.tell(message, place);
                work.push(piece.text, place);
            }
            What::Import { name, range, written } => {
                let has_room = asked.len() < MAX_IMPORTS;
                let answer = match asked.entry((name, written)) {
                    Entry::Occupied(known) => Some(known.into_mut()),
                    Entry::Vacant(unknown) if has_room => {
                        let mut answer = find(&unknown.key().0, &range)?;
                        if let Ok(imported) = &mut answer {
                            work.note(&unknown.key().0, written, imported, place);
                        }
                        Some(unknown.insert(answer))
                    }
                    Entry::Vacant(_) => None,
                };
                match answer {
                    Some(Ok(imported)) => work.bring_in(&imported.text, place),
                    Some(Err(message)) => {
                        work.tell(message.clone(), place);
                        work.push(piece.text, place);
                    }
                    None => {
                        work.tell_once(TOO_MANY_IMPORTS, place);
                        work.push(piece.text, place);
                    }
                }
            }
        }
        place = place.after(piece.text);
    }
    let mut done = work.done;
    done.problems.sort_by_key(|problem| (problem.line, problem.column));
    Ok(done)
}

const TOO_MANY_IMPORTS: &str = "a text has at most 1,000 different imports";
const TOO_MANY_VARIABLES: &str =
    "a text has at most 1,000 different variables, those of its imports included";
const TOO_LONG: &str = "the compiled text has at most 1 MiB; here it becomes longer";

/// Where a piece begins in the source.
#[derive(Clone, Copy)]
struct Place {
    line: u32,
    column: u32,
}

impl Place {
    /// The place behind `text`.
    fn after(self, text: &str) -> Place {
        text.chars().fold(self, |place, c| match c {
            '\n' => Place { line: place.line.saturating_add(1), column: 1 },
            _ => Place { column: place.column.saturating_add(1), ..place },
        })
    }
}

/// A compilation as it grows.
#[derive(Default)]
struct Work {
    done: Compilation,
    known: HashSet<String>,
    /// The import whose text ends what is compiled so far, where that end could join with what
    /// follows into something that nobody wrote: the end, and the place of the import.
    loose_end: Option<(LooseEnd, Place)>,
    is_too_long: bool,
}

/// A literal character that means something else before braces. A source itself has none before an
/// import: `\{{ import "a" }}` is no import, and `{{{` is a problem.
#[derive(Clone, Copy)]
enum LooseEnd {
    Brace,
    Backslash,
}

impl LooseEnd {
    /// How a compiled text ends. The brace that ends `\{{` is not loose.
    fn of(text: &str) -> Option<LooseEnd> {
        let last = pieces(text).last().filter(|piece| piece.what == What::Literal)?;
        match last.text.chars().next_back()? {
            '{' => Some(LooseEnd::Brace),
            '\\' => Some(LooseEnd::Backslash),
            _ => None,
        }
    }

    fn joins(self, text: &str) -> bool {
        text.starts_with(match self {
            LooseEnd::Brace => "{",
            LooseEnd::Backslash => "{{",
        })
    }

    fn message(self) -> &'static str {
        match self {
            LooseEnd::Brace => {
                "the imported text ends in \"{\" and would join with the \"{\" that follows it; \
                 put something between them"
            }
            LooseEnd::Backslash => {
                "the imported text ends in \"\\\" and would join with the \"{{\" that follows it; \
                 put something between them"
            }
        }
    }
}

impl Work {
    fn tell(&mut self, message: impl Into<String>, place: Place) {
        if self.done.problems.len() < MAX_PROBLEMS {
            let Place { line, column } = place;
            self.done.problems.push(Problem { message: message.into(), line, column });
        }
    }

    /// For what is true of the whole text, and told at the first place where it is.
    fn tell_once(&mut self, message: &str, place: Place) {
        if !self.done.problems.iter().any(|problem| problem.message == message) {
            self.tell(message, place);
        }
    }

    fn mention(&mut self, variable: &str, place: Place) {
        if self.known.contains(variable) {
            return;
        }
        if self.known.len() == MAX_VARIABLES {
            return self.tell_once(TOO_MANY_VARIABLES, place);
        }
        self.known.insert(variable.to_owned());
        self.done.variables.push(variable.to_owned());
    }

    /// Notes an import that was not there before.
    fn note(&mut self, name: &ArtifactName, range: &str, imported: &mut Imported, place: Place) {
        self.done.imports.push(Import {
            name: name.clone(),
            range: range.to_owned(),
            version: imported.version.clone(),
        });
        for variable in &imported.variables {
            self.mention(variable, place);
        }
        if self.is_too_long {
            imported.text = String::new(); // Nobody will see it: 1,000 such texts would be a lot.
        }
    }

    /// Adds an import's text.
    fn bring_in(&mut self, text: &str, place: Place) {
        self.push(text, place);
        if self.is_too_long {
            return;
        }
        if let Some(end) = LooseEnd::of(text) {
            self.loose_end = Some((end, place));
        }
    }

    fn push(&mut self, text: &str, place: Place) {
        if text.is_empty() {
            return; // An empty import leaves a loose end before it loose.
        }
        if let Some((end, import)) = self.loose_end.take().filter(|(end, _)| end.joins(text)) {
            self.tell(end.message(), import);
        }
        self.is_too_long |= self.done.text.len() + text.len() > MAX_TEXT_BYTES;
        match self.is_too_long {
            true => self.tell_once(TOO_LONG, place),
            false => self.done.text.push_str(text),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use super::*;

    /// Compiles with these promptlets, each of version 1.0.0 with the variable `v`; without a range
    /// 2.0.0 is found.
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

    /// The places of problems and how they begin.
    fn problems(source: &str, promptlets: &[(&str, &str)]) -> Vec<String> {
        compiled(source, promptlets).problems.iter().map(Problem::to_string).collect()
    }

    #[test]
    fn variables_and_escapes_stay_as_written_and_imports_are_replaced() {
        let done = compiled(
            "\\{{x}} {{ b }}{{ import \"p@1\" }}{{a}}{{b}}{{ import \"p@1\" }}",
            &[("p", "<{{ v }}\\{{>")],
        );
        assert_eq!(done.text, "\\{{x}} {{ b }}<{{ v }}\\{{>{{a}}{{b}}<{{ v }}\\{{>");
        assert_eq!(done.variables, ["b", "v", "a"]);
        assert_eq!((done.imports.len(), done.problems.len()), (1, 0));
    }

    #[test]
    fn each_pair_of_name_and_range_is_asked_for_once() {
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
    fn all_problems_are_told_with_line_and_column_in_characters() {
        let told = problems("ä🚢{{1}}\n{{a}}\r\n {{ import \"no\" }}\n{{", &[]);
        let ends: Vec<_> = told.iter().filter_map(|one| one.split_once(" (")).collect();
        assert!(ends[0].0.starts_with("\"{{\" begins neither") && ends[0].1 == "line 1, column 3)");
        assert_eq!(ends[1], ("there is no such promptlet", "line 3, column 2)"));
        assert_eq!(ends[2].1, "line 4, column 1)");
        assert_eq!(told.len(), 3);
        assert_eq!(problems(&"{{ ".repeat(1_000), &[]).len(), MAX_PROBLEMS);
    }

    #[test]
    fn a_missing_promptlet_is_told_at_each_place() {
        assert_eq!(problems("{{ import \"no\" }}{{ import \"no\" }}", &[]).len(), 2);
    }

    #[test]
    fn what_ends_the_looking_ends_the_compiling() {
        assert_eq!(compile("{{ import \"p\" }}", |_, _| Err(7)).unwrap_err(), 7);
    }

    #[test]
    fn no_text_around_an_import_joins_with_it() {
        let promptlets = [
            ("brace", "a{"),
            ("slash", "a\\"),
            ("open", "{b"),
            ("var", "{{v}}"),
            ("escape", "\\{{"),
            ("twice", "\\{{{"),
            ("empty", ""),
            ("plain", "b"),
        ];
        let of = |names: &str| {
            let source =
                names.split(' ').map(|name| match promptlets.iter().any(|p| p.0 == name) {
                    true => format!("{{{{ import \"{name}\" }}}}"),
                    false => name.to_owned(),
                });
            problems(&source.collect::<String>(), &promptlets)
        };
        for joined in [
            "brace {",
            "brace {x}",
            "brace {{v}}",
            "brace open",
            "brace var",
            "brace empty open",
            "slash var",
            "slash {{v}}",
            "slash empty var",
            "twice open",
            "brace empty empty {",
        ] {
            let told = of(joined);
            assert_eq!(told.len(), 1, "{joined}: {told:?}");
            assert!(told[0].ends_with("(line 1, column 1)"), "{joined}: {told:?}");
        }
        assert!(of("plain brace open")[0].ends_with("(line 1, column 21)"));
        for apart in [
            "brace plain open",
            "brace x",
            "brace escape",
            "slash open",
            "slash escape",
            "slash {",
            "escape var",
            "escape open",
            "escape {",
            "x open",
            "} var",
            "brace",
            "slash \\{{",
            "open open",
            "brace \\{{",
            "twice x",
            "\\{{ open",
        ] {
            assert_eq!(of(apart), Vec::<String>::new(), "{apart}");
        }
    }

    #[test]
    fn a_text_has_so_many_imports_and_variables() {
        let source = |of: &dyn Fn(usize) -> String, count| (0..count).map(of).collect::<String>();
        let variables = |count| source(&|number| format!("{{{{a{number}}}}}"), count);
        let imports = |count| source(&|number| format!("{{{{ import \"p@{number}\" }}}}"), count);
        assert_eq!(compiled(&variables(1_000), &[]).variables.len(), MAX_VARIABLES);
        let told = problems(&(variables(1_002) + "{{a1}}"), &[]);
        assert!(told.len() == 1 && told[0].contains("variables"), "{told:?}");
        let told = problems(&(variables(1_000) + "\n{{ import \"p\" }}"), &[("p", "{{v}}")]);
        assert!(told.len() == 1 && told[0].ends_with("(line 2, column 1)"), "{told:?}");
        assert_eq!(compiled(&imports(1_000), &[("p", "")]).imports.len(), MAX_IMPORTS);
        let told = problems(&imports(1_002), &[("p", "")]);
        assert!(told.len() == 1 && told[0].contains("imports"), "{told:?}");
        assert_eq!(problems(&"{{ import \"p\" }}".repeat(2_000), &[("p", "")]).len(), 0);
    }

    #[test]
    fn a_compiled_text_is_bounded() {
        let quarter = "x".repeat(MAX_TEXT_BYTES / 4);
        let promptlets = [("p", quarter.as_str()), ("q", quarter.as_str())];
        let four = "{{ import \"p\" }}".repeat(4);
        assert_eq!(compiled(&four, &promptlets).text.len(), MAX_TEXT_BYTES);
        let done = compiled(&format!("{four}\n.{{{{ import \"q\" }}}}{{{{a b}}}}"), &promptlets);
        let told: Vec<String> = done.problems.iter().map(Problem::to_string).collect();
        assert!(done.text.len() <= MAX_TEXT_BYTES);
        assert!(told[0].contains("1 MiB") && told[0].ends_with("(line 1, column 65)"), "{told:?}");
        assert!(told.len() == 2 && told[1].contains("begins neither"), "{told:?}");
    }
}
