//! What commands print.

use std::io::{IsTerminal as _, Write as _};

use serde::Serialize;

use super::Failure;

/// Prints a result: `text` for a person, or `value` as one JSON object.
pub fn print(json: bool, value: &impl Serialize, text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    let written = match json {
        true => {
            let line = serde_json::to_string(value).map_err(|e| Failure::Failed(e.to_string()))?;
            writeln!(out, "{line}")
        }
        false => write!(out, "{text}").and_then(|()| match text.ends_with('\n') {
            true => Ok(()),
            false => writeln!(out),
        }),
    };
    match written.and_then(|()| out.flush()) {
        // Whoever reads has seen enough: `roadstead routes | head`.
        Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe => Ok(()),
        written => Ok(written?),
    }
}

/// Says on stderr what went wrong.
pub fn complain(message: &str) {
    let _ = writeln!(std::io::stderr(), "roadstead: {message}");
}

/// Says something on stderr.
pub fn say(message: &str) {
    let _ = writeln!(std::io::stderr(), "{message}");
}

/// Says on one line of the terminal how far something is; nothing where stderr is no terminal. An
/// empty text clears the line.
pub fn progress(text: &str) {
    let mut err = std::io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[2K{text}").and_then(|()| err.flush());
    }
}
