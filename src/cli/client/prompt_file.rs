//! Files with a prompt: its text below a front matter in TOML (reference: command-line, "Prompts as
//! files").

use serde::Deserialize;
use serde_json::{Map, Value};

use super::table::one_line;
use super::text_file::{self, position};
use super::toml_json::{self, NotJson};
use crate::base::lines;
use crate::cli::failure::Failure;
use crate::cli::output;

/// The longest file: a prompt of 300 KiB, and what may be said about it.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// The line before and after the front matter.
pub const FENCE: &str = "+++";

/// A prompt as it is in a file.
#[derive(Debug)]
pub struct PromptFile {
    /// How the file is called in messages.
    pub path: String,
    /// The text, with line feeds, and without the line end at the end of the file.
    pub source: String,
    pub artifact_type: Option<String>,
    pub version: Option<String>,
    pub model: Option<String>,
    pub metadata: Map<String, Value>,
    /// What changed in the version and why.
    pub message: Option<String>,
    /// Labels that belong on the version.
    pub labels: Vec<String>,
    /// The tags of the artifact, if the file says any.
    pub tags: Option<Vec<String>>,
    /// What the file says is not all that is in it: a clause that says what was changed.
    pub changes: Option<&'static str>,
    /// Lines before the text.
    lines_before: usize,
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct FrontMatter {
    #[serde(rename = "type")]
    artifact_type: Option<String>,
    version: Option<String>,
    model: Option<String>,
    /// For `apply`.
    #[serde(default)]
    labels: Vec<String>,
    tags: Option<Vec<String>>,
    metadata: Option<toml::Table>,
    /// Metadata that TOML cannot express, as JSON.
    metadata_json: Option<String>,
    message: Option<String>,
    /// A message with a line like a fence, as JSON.
    message_json: Option<String>,
}

/// A problem at a place of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileProblem {
    pub path: String,
    /// From 1; 0 for the file as a whole.
    pub line: usize,
    /// From 1, in characters.
    pub column: usize,
    pub message: String,
}

impl std::fmt::Display for FileProblem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (path, message) = (one_line(&self.path), one_line(&self.message));
        match self.line {
            0 => write!(f, "{path}: {message}"),
            line => write!(f, "{path}:{line}:{}: {message}", self.column),
        }
    }
}

impl PromptFile {
    /// Reads a file, or stdin for `-`.
    ///
    /// # Errors
    /// Usage, with line and column where the file is wrong, or if there is nothing in it: a pipeline may have
    /// lost what was.
    pub fn read(path: &str) -> Result<Self, Failure> {
        let text = text_file::read(path, MAX_FILE_BYTES)?;
        let shown = if path == "-" { "stdin" } else { path };
        if lines::of_file(&text).trim().is_empty() {
            return Err(Failure::Usage(format!(
                "{shown}: is empty; a prompt without a text is a file with a front matter alone, two \
                 lines of {FENCE}"
            )));
        }
        PromptFile::parse(shown, &text).map_err(|problem| Failure::Usage(problem.to_string()))
    }

    /// Parses the content of a file.
    ///
    /// # Errors
    /// Where its front matter is wrong.
    pub fn parse(path: &str, text: &str) -> Result<Self, FileProblem> {
        let changes = lines::changed(text);
        let text = &*lines::of_file(text);
        let at = |line: usize, column: usize, message: String| FileProblem {
            path: path.into(),
            line,
            column,
            message,
        };
        let (front, body, lines_before) = match split(text) {
            Some(Ok(parts)) => parts,
            Some(Err(message)) => return Err(at(1, 1, message.into())),
            None => ("", text, 0),
        };
        let front: FrontMatter = toml::from_str(front).map_err(|error| {
            let (line, column) = position(front.as_bytes(), error.span().map_or(0, |s| s.start));
            at(line + 1, column, all_problems(front, &error))
        })?;
        let metadata = match (front.metadata, front.metadata_json) {
            (Some(_), Some(_)) => {
                return Err(at(1, 1, "has both metadata and metadataJson; keep one".into()));
            }
            (Some(table), None) => toml_json::object(table)
                .map_err(|NotJson(why)| at(1, 1, format!("metadata {why}")))?,
            (None, Some(text)) => serde_json::from_str(&text)
                .map_err(|error| at(1, 1, format!("metadataJson is no JSON object: {error}")))?,
            (None, None) => Map::new(),
        };
        let message = match (front.message, front.message_json) {
            (Some(_), Some(_)) => {
                return Err(at(1, 1, "has both message and messageJson; keep one".into()));
            }
            (None, Some(text)) => serde_json::from_str(&text)
                .map_err(|error| at(1, 1, format!("messageJson is no JSON text: {error}")))?,
            (message, None) => message,
        };
        Ok(PromptFile {
            path: path.into(),
            source: body.strip_suffix('\n').unwrap_or(body).to_string(),
            artifact_type: front.artifact_type,
            version: front.version,
            model: front.model,
            metadata,
            message,
            labels: front.labels,
            tags: front.tags,
            changes,
            lines_before,
        })
    }

    /// Tells the user what the file has and the text has not.
    pub fn tell_changes(&self) {
        if let Some(changes) = self.changes {
            output::status(&format!("{}: {changes}", self.path));
        }
    }

    /// A problem at a line and column of the text, both from 1.
    pub fn problem_in_text(&self, line: usize, column: usize, message: &str) -> FileProblem {
        let (path, message) = (self.path.clone(), message.to_string());
        FileProblem { path, line: self.lines_before + line, column, message }
    }

    /// A problem or warning that the server found in the text, at its place in the file.
    pub fn found_in_text(&self, found: &Value) -> FileProblem {
        let number = |field: &str| {
            found[field].as_u64().and_then(|number| usize::try_from(number).ok()).unwrap_or(1)
        };
        let message = found["message"].as_str().unwrap_or_default();
        self.problem_in_text(number("line"), number("column"), message)
    }

    /// A problem of the file as a whole.
    pub fn problem(&self, message: String) -> FileProblem {
        FileProblem { path: self.path.clone(), line: 0, column: 0, message }
    }

    /// A problem that the server found at `path` of a request: of the text at its place in the file.
    pub fn problem_of_issue(&self, path: &str, message: &str) -> FileProblem {
        if !matches!(path, "source" | "body" | "text") {
            return self.problem(format!("{path} {message}"));
        }
        match place_in_message(message) {
            Some((said, line, column)) => self.problem_in_text(line, column, said),
            None => self.problem(message.to_string()),
        }
    }
}

/// What is wrong with the fields of a front matter, of which `first` has been found.
fn all_problems(front: &str, first: &toml::de::Error) -> String {
    let said = |error: &toml::de::Error| error.message().trim().replace('\n', ", ");
    let table: toml::Table = toml::from_str(front).unwrap_or_default();
    let alone = |(name, value): (String, toml::Value)| {
        let read = toml::Table::from_iter([(name.clone(), value)]).try_into::<FrontMatter>();
        read.err().map(|error| format!("{name}: {}", said(&error)))
    };
    let all: Vec<String> = table.into_iter().filter_map(alone).collect();
    if all.len() > 1 { all.join("; ") } else { said(first) }
}

/// Splits a file into front matter, text, and the number of lines before the text. `None` if it has
/// no front matter.
///
/// # Errors
/// What is wrong with the lines around it.
pub fn split(text: &str) -> Option<Result<(&str, &str, usize), &'static str>> {
    let first = text.split_inclusive('\n').next()?;
    if !is_fence(first) {
        return looks_like_yaml(text).then_some(Err("the front matter is TOML between lines of \
                                                    +++ here (name = \"value\"), not YAML between \
                                                    lines of ---"));
    }
    let rest = &text[first.len()..];
    let (mut end, mut lines) = (0, 1);
    for line in rest.split_inclusive('\n') {
        lines += 1;
        if is_fence(line) {
            return Some(Ok((&rest[..end], &rest[end + line.len()..], lines)));
        }
        end += line.len();
    }
    Some(Err("the front matter has no end: a line with +++ alone"))
}

fn is_fence(line: &str) -> bool {
    line.trim_end() == FENCE
}

/// Returns these fields as a front matter, with its fences. A message or metadata that would end it, a
/// text with a fence among its lines, is written as JSON.
pub fn front_matter(mut fields: Map<String, Value>) -> String {
    for name in ["metadata", "message"] {
        let Some(mut value) = fields.get(name).cloned() else { continue };
        let alone = Map::from_iter([(name.to_string(), value.clone())]);
        if toml_json::text(&alone, "Json").lines().any(is_fence) {
            fields.remove(name);
            value.sort_all_objects();
            fields.insert(format!("{name}Json"), format!("{value:#}").into());
        }
    }
    format!("{FENCE}\n{}{FENCE}\n", toml_json::text(&fields, "Json"))
}

/// Whether a text begins with what is a front matter elsewhere. A text may also begin with a rule.
fn looks_like_yaml(text: &str) -> bool {
    let mut lines = text.lines();
    let begins = lines.next().is_some_and(|line| line.trim_end() == "---");
    let fields: Vec<&str> = lines.by_ref().take_while(|line| line.trim_end() != "---").collect();
    let has_end = text.lines().skip(1).any(|line| line.trim_end() == "---");
    begins && has_end && !fields.is_empty() && fields.iter().all(|line| line.contains(':'))
}

/// Splits a message that ends in `(line 2, column 3)`.
fn place_in_message(message: &str) -> Option<(&str, usize, usize)> {
    let (said, place) = message.rsplit_once(" (line ")?;
    let (line, column) = place.strip_suffix(')')?.split_once(", column ")?;
    Some((said, line.parse().ok()?, column.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_has_a_front_matter_and_a_text_or_the_text_alone() {
        let text =
            "+++\nversion = \"1.2.0\"\nmodel = \"m\"\n[metadata]\nowner = \"ada\"\n+++\nHi\n";
        let file = PromptFile::parse("a.md", text).unwrap();
        assert_eq!((file.source.as_str(), file.lines_before), ("Hi", 6));
        assert_eq!(file.version.as_deref(), Some("1.2.0"));
        assert_eq!(json!(file.metadata), json!({"owner": "ada"}));
        assert_eq!(PromptFile::parse("a.md", "Hi\n\n").unwrap().source, "Hi\n");
        assert_eq!(PromptFile::parse("a.md", "Hi").unwrap().source, "Hi");
        assert_eq!(PromptFile::parse("a.md", "").unwrap().source, "");
        assert_eq!(PromptFile::parse("a.md", "---\nA rule above.\n").unwrap().lines_before, 0);
    }

    #[test]
    fn metadata_with_a_line_like_a_fence_comes_back_from_its_file() {
        for note in ["above\n+++\nbelow", "+++", "\n+++  \n", "a +++\n++++"] {
            let fields = json!({"version": "1.0.0", "metadata": {"note": note, "a": [note]}});
            let front = front_matter(fields.as_object().unwrap().clone());
            let file = PromptFile::parse("a.md", &format!("{front}Hi\n")).unwrap();
            assert_eq!((file.source.as_str(), &json!(file.metadata)), ("Hi", &fields["metadata"]));
        }
    }

    #[test]
    fn a_message_comes_back_from_its_file_whatever_it_says() {
        for message in ["Shorter.", "above\n+++\nbelow", "+++", "\"quoted\" \\ and 'so'\r\n"] {
            let fields = json!({"version": "1.0.0", "message": message, "metadata": {"a": "+++"}});
            let front = front_matter(fields.as_object().unwrap().clone());
            let file = PromptFile::parse("a.md", &format!("{front}Hi\n")).unwrap();
            assert_eq!((file.source.as_str(), file.message.as_deref()), ("Hi", Some(message)));
            assert_eq!(json!(file.metadata), fields["metadata"]);
        }
    }

    #[test]
    fn only_what_would_end_the_front_matter_is_json_in_it() {
        let (plain, fence) = ("one\ntwo", "one\n+++\ntwo");
        for (message, note, expected) in [
            (plain, plain, [false, false]),
            (plain, fence, [false, true]),
            (fence, plain, [true, false]),
            (fence, fence, [true, true]),
        ] {
            let fields = json!({"message": message, "metadata": {"note": note}});
            let front = front_matter(fields.as_object().unwrap().clone());
            let is_json = ["messageJson", "metadataJson"].map(|name| front.contains(name));
            assert_eq!(is_json, expected, "{front}");
            let file = PromptFile::parse("a.md", &front).unwrap();
            assert_eq!(file.message.as_deref(), Some(message));
            assert_eq!(json!(file.metadata), fields["metadata"]);
        }
    }

    #[test]
    fn a_byte_order_mark_belongs_to_neither_front_matter_nor_text() {
        let file =
            PromptFile::parse("a.md", "\u{feff}+++\nversion = \"1.0.0\"\n+++\nHello\n").unwrap();
        assert_eq!((file.version.as_deref(), file.source.as_str()), (Some("1.0.0"), "Hello"));
        assert_eq!(PromptFile::parse("a.md", "\u{feff}Hello").unwrap().source, "Hello");
    }

    #[test]
    fn a_file_is_the_same_prompt_from_any_checkout() {
        let unix = "+++\nversion = \"1.0.0\"\n[metadata]\nnote = '''\na\nb'''\n+++\nHello\n\nyou\n";
        let expected = PromptFile::parse("a.md", unix).unwrap();
        assert_eq!((expected.source.as_str(), expected.changes), ("Hello\n\nyou", None));
        for other in
            [unix.replace('\n', "\r\n"), unix.replace('\n', "\r"), format!("\u{feff}{unix}")]
        {
            let file = PromptFile::parse("a.md", &other).unwrap();
            assert_eq!((&file.source, &file.metadata), (&expected.source, &expected.metadata));
            assert_eq!(file.lines_before, expected.lines_before);
            assert!(file.changes.is_some());
        }
        // As a prompt of Windows has it: nothing of its last line end is text.
        assert_eq!(PromptFile::parse("a.md", "Hello\r\n").unwrap().source, "Hello");
    }

    #[test]
    fn problems_of_the_front_matter_have_line_and_column() {
        for (text, place, why) in [
            ("+++\nversion = 1.2\n+++\n", "a.md:2:11:", "string"),
            ("+++\nmodel = \"a\"\nversoin = \"1.2.0\"\n+++\n", "a.md:3:1:", "versoin"),
            ("+++\nmodel = \"a\n+++\n", "a.md:2:", ""),
            ("+++\nmodel = \"a\"\n", "a.md:1:1:", "no end"),
            ("---\nversion: 1\n---\nHi", "a.md:1:1:", "TOML"),
            ("+++\nmodel = \"a\"\nmodel = \"b\"\n+++\n", "a.md:3:1:", "duplicate"),
            ("+++\nmetadata.a = 2020-01-01\n+++\n", "a.md:1:1:", "quotation marks"),
            ("+++\nmetadataJson = \"[]\"\n+++\n", "a.md:1:1:", "no JSON object"),
            ("+++\nmessageJson = \"1\"\n+++\n", "a.md:1:1:", "no JSON text"),
            ("+++\nmessage = 1\n+++\n", "a.md:2:11:", "string"),
        ] {
            let problem = PromptFile::parse("a.md", text).unwrap_err().to_string();
            assert!(problem.starts_with(place) && problem.contains(why), "{text}: {problem}");
        }
    }

    #[test]
    fn all_fields_that_are_wrong_are_named() {
        let text = "+++\nversion = 1\nmodle = \"x\"\nlabels = [\"a\"]\n+++\nHi\n";
        let problem = PromptFile::parse("a.md", text).unwrap_err().to_string();
        for part in ["a.md:", "version: invalid type", "modle: unknown field"] {
            assert!(problem.contains(part), "{problem}");
        }
        assert!(!problem.contains("labels: "), "{problem}");
    }

    #[test]
    fn a_problem_of_the_server_is_shown_at_its_line_of_the_file() {
        let file = PromptFile::parse("a.md", "+++\n+++\none\n{{ x y }}\n").unwrap();
        let problem = file.problem_of_issue("source", "is no variable (line 2, column 1)");
        assert_eq!(problem.to_string(), "a.md:4:1: is no variable");
        let problem = file.problem_of_issue("source", "breaks the policy \"short\"");
        assert_eq!(problem.to_string(), "a.md: breaks the policy \"short\"");
        let problem = file.problem_of_issue("metadata.owner", "is required");
        assert_eq!(problem.to_string(), "a.md: metadata.owner is required");
    }
}
