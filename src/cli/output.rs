//! Output of commands: results, errors, status lines, progress. It is the one place that prints what
//! others may have written.
//!
//! Whatever goes to a terminal or into the log of a pipeline goes through [`shown`]: nothing in it is
//! obeyed by a terminal, unseen by a reader, or taken for a command by what runs the pipeline. What
//! a command is asked to hand over as it is, such as the text of a prompt, is [`content`].

use std::borrow::Cow;
use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

use super::failure::Failure;
use crate::base::visible;

/// Begins and ends bold text.
const BOLD: (&str, &str) = ("\x1b[1m", "\x1b[0m");

/// A result for people.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Text {
    /// The first line, in bold on a terminal.
    pub heading: Option<String>,
    /// The lines below it.
    pub body: String,
}

impl<T: Into<String>> From<T> for Text {
    fn from(body: T) -> Self {
        Text { heading: None, body: body.into() }
    }
}

/// Prints a result to stdout: `text`, or `value` as one JSON object.
pub fn print(json: bool, value: &impl Serialize, text: impl Into<Text>) -> Result<(), Failure> {
    if json {
        return line(&to_json(value)?);
    }
    let Text { heading, body } = text.into();
    let body = shown(body.strip_suffix('\n').unwrap_or(&body));
    let Some(heading) = heading else { return line(&body) };
    let (begin, end) = if has_colors() { BOLD } else { ("", "") };
    line(&format!("{begin}{}{end}\n{body}", shown(&heading)))
}

/// Prints what somebody wrote as it is, with one line end more, or `value` as one JSON object. On a
/// terminal it is [`shown`] as everything else.
pub fn content(json: bool, value: &impl Serialize, text: &str) -> Result<(), Failure> {
    match (json, std::io::stdout().is_terminal()) {
        (true, _) => line(&to_json(value)?),
        (false, true) => line(&shown(text)),
        (false, false) => line(text),
    }
}

/// Whether stdout is a terminal.
pub fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Prints a part of a text to the terminal, which shows it at once; what is not seen has marks.
pub fn part(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let text = visible::block(text);
    write!(out, "{text}").and_then(|()| out.flush()).map_err(Failure::io("stdout"))
}

/// Prints an error to stderr.
pub fn error(message: &str) {
    let _ = writeln!(std::io::stderr(), "{}", one_message(&format!("roadstead: {message}")));
}

/// Prints a status line to stderr.
pub fn status(message: &str) {
    let _ = writeln!(std::io::stderr(), "{}", one_message(message));
}

/// Prints lines to stderr, for a person to read: why a command line is refused, or what is asked about.
/// What others wrote is on one line each.
pub fn lines(text: &str) {
    let _ = writeln!(std::io::stderr(), "{}", shown(text.trim_end()));
}

/// Shows progress on one line of stderr, if it is a terminal. An empty text clears the line.
pub fn progress(text: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[2K{}", visible::line(text)).and_then(|()| err.flush());
    }
}

/// Prints a line to stdout.
fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has closed the pipe: `roadstead routes | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => written.map_err(Failure::io("stdout")),
    }
}

/// Whether stdout is a terminal whose user wants colors (<https://no-color.org>).
fn has_colors() -> bool {
    let is_set = |name| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    std::io::stdout().is_terminal() && !is_set("NO_COLOR") && !is_dumb
}

/// Returns a text for a terminal or a log: what is not seen has marks, and so has the beginning of
/// what the services that run pipelines take for a command to them. These are a line that begins
/// with `::`, whatever blanks are before it, and `##[…]`, `##vso[…]` and the like anywhere in a line.
pub fn shown(text: &str) -> String {
    let text = visible::block(text);
    if !text.contains("::") && !text.contains("##") {
        return text.into_owned();
    }
    let mut shown = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let mut rest = line;
        if let Some(command) = line.trim_start().strip_prefix(':').filter(|c| c.starts_with(':')) {
            shown.push_str(&line[..line.len() - command.len() - 1]);
            shown.push_str(&visible::mark(':'));
            rest = command;
        }
        while let Some(at) = logging_command(rest) {
            shown.push_str(&rest[..at]);
            shown.push_str(&visible::mark('#'));
            rest = &rest[at + 1..];
        }
        shown.push_str(rest);
    }
    shown
}

/// Returns where the first `##word[` of a text begins.
fn logging_command(text: &str) -> Option<usize> {
    let is_command = |at: &usize| {
        let word = text[at + 2..].trim_start_matches(|c: char| c.is_ascii_alphanumeric());
        word.starts_with('[')
    };
    // Those in `###` overlap.
    let signs = text.match_indices('#').map(|(at, _)| at);
    signs.filter(|at| text[at + 1..].starts_with('#')).find(is_command)
}

/// Returns a message of which every line but the first is indented, so that no text in it can begin
/// a line that looks like one of its own.
fn one_message(message: &str) -> String {
    let indented = |line: &str| match line {
        line if line.starts_with("  ") => line.to_string(),
        line => format!("  {line}"),
    };
    let message = message.replace('\r', &visible::mark('\r'));
    let mut lines = message.trim_end_matches('\n').split('\n');
    let first = lines.next().unwrap_or_default().to_string();
    let lines = std::iter::once(first).chain(lines.map(indented));
    shown(&lines.collect::<Vec<_>>().join("\n"))
}

/// Returns a value as one line of JSON, in which what is not seen is escaped: it is the same value.
fn to_json(value: &impl Serialize) -> Result<String, Failure> {
    let json = serde_json::to_string(value).map_err(|e| Failure::Failed(e.to_string()))?;
    Ok(escaped(&json, |_| false).into_owned())
}

/// Returns a line of JSON or of a log as it is printed: what is not seen is escaped, but for what `passes`,
/// and so is the beginning of what runs a pipeline takes for a command, wherever it is in a line.
pub fn escaped(text: &str, passes: impl Fn(char) -> bool) -> Cow<'_, str> {
    // A text of several lines is none: who wrote it could forge the next one.
    if visible::is_plain_ascii(text) && !text.contains(['\n', '\t']) && !text.contains("##") {
        return Cow::Borrowed(text);
    }
    let mut escaped = String::with_capacity(text.len());
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        let begins_command = c == '#' && chars.peek() == Some(&'#');
        if begins_command || visible::is_invisible(c) && !passes(c) {
            for unit in c.encode_utf16(&mut [0; 2]) {
                escaped.push_str(&format!("\\u{unit:04x}"));
            }
        } else {
            escaped.push(c);
        }
    }
    Cow::Owned(escaped)
}

/// Of a list of which a person sees the beginning, so many lines are shown.
pub const MAX_SHOWN: usize = 20;

/// Returns the first lines of a list, each indented.
pub fn first_lines(lines: &[String]) -> String {
    lines.iter().take(MAX_SHOWN).map(|line| format!("  {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn nothing_that_is_printed_controls_a_terminal_or_hides() {
        assert_eq!(
            shown("a\x1b[2Jb\r\u{202e}c\td\r\n\u{9b}\u{e0069}"),
            "a⟨U+001B⟩[2Jb⟨U+000D⟩⟨U+202E⟩c\td\r\n⟨U+009B⟩⟨U+E0069⟩"
        );
    }

    #[test]
    fn nothing_that_is_printed_is_a_command_of_a_pipeline() {
        for (text, expected) in [
            ("::error file=a::x", "⟨U+003A⟩:error file=a::x"),
            ("a\n \t\u{3000}::set-env name=A::b\n", "a\n \t\u{3000}⟨U+003A⟩:set-env name=A::b\n"),
            ("a ##[error]b", "a ⟨U+0023⟩#[error]b"),
            ("###[error]b", "#⟨U+0023⟩#[error]b"),
            (
                "##vso[task.setvariable]##teamcity[x",
                "⟨U+0023⟩#vso[task.setvariable]⟨U+0023⟩#teamcity[x",
            ),
            ("## heading\na::b [::1]", "## heading\na::b [::1]"),
            (":", ":"),
        ] {
            assert_eq!(shown(text), expected);
        }
    }

    #[test]
    fn no_text_begins_a_line_of_its_own_in_a_message() {
        assert_eq!(
            one_message("roadstead: a\nroadstead: done\n  b\n::error::c\n"),
            "roadstead: a\n  roadstead: done\n  b\n  ⟨U+003A⟩:error::c"
        );
    }

    #[test]
    fn json_is_the_same_value_without_what_is_not_seen() {
        let value = json!({"a": "\u{9b}\u{202e}\u{e0069}\n\u{1b} ❤️ ##[error] é"});
        let printed = to_json(&value).ok().unwrap();
        assert!(printed.contains(r"\u009b\u202e\udb40\udc69\n\u001b ❤\ufe0f \u0023#[error] é"));
        assert_eq!(serde_json::from_str::<Value>(&printed).unwrap(), value);
    }
}
