//! Output of commands: results, errors, status lines, progress.

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

use super::failure::Failure;

/// Prints a result to stdout: `text`, or `value` as one JSON object.
pub fn print(json: bool, value: &impl Serialize, text: &str) -> Result<(), Failure> {
    print_text(json, value, text.strip_suffix('\n').unwrap_or(text))
}

/// Like [`print`], for a text whose line ends belong to it: one more is added at its end.
pub fn print_text(json: bool, value: &impl Serialize, text: &str) -> Result<(), Failure> {
    if !json {
        return line(text);
    }
    line(&serde_json::to_string(value).map_err(|e| Failure::Failed(e.to_string()))?)
}

/// Prints a line to stdout.
pub fn line(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    match writeln!(out, "{text}").and_then(|()| out.flush()) {
        // The reader has closed the pipe: `roadstead routes | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Prints an error to stderr.
pub fn error(message: &str) {
    let _ = writeln!(std::io::stderr(), "roadstead: {message}");
}

/// Prints a status line to stderr.
pub fn status(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Shows progress on one line of stderr, if it is a terminal. An empty text clears the line.
pub fn progress(text: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
    }
}
