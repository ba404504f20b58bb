//! Text that a person supplies: in a file, or on stdin.

use std::fs::File;
use std::io::{self, Read};

use crate::base::lines;
use crate::cli::failure::Failure;

/// The longest text of a task, a message or a variable, in bytes: 100,000 characters.
const MAX_TEXT_BYTES: u64 = 400_000;

/// Returns a text, or what is on stdin for `-`.
pub fn text_or_stdin(text: &str) -> Result<String, Failure> {
    if text == "-" { read_text("-") } else { Ok(text.to_string()) }
}

/// Returns a text that may be absent, or what is on stdin for `-`.
pub fn text_if(text: Option<&str>) -> Result<Option<String>, Failure> {
    text.map(text_or_stdin).transpose()
}

/// Returns a text of at most 100,000 characters from a file, or from stdin for `-`: with line feeds,
/// without a byte order mark and without the line end at the end of the file.
pub fn read_text(path: &str) -> Result<String, Failure> {
    let text = read(path, MAX_TEXT_BYTES)?;
    let text = lines::of_file(&text);
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_string())
}

/// Returns the text of a file, or of stdin for `-`.
///
/// # Errors
/// Usage, if it cannot be read, is longer than `max_bytes`, or is not UTF-8. Of what is longer only
/// that much is read.
pub fn read(path: &str, max_bytes: u64) -> Result<String, Failure> {
    let shown = if path == "-" { "stdin" } else { path };
    let wrong = |why: String| Failure::Usage(format!("{shown}: {why}"));
    let cannot = |error: io::Error| wrong(format!("cannot be read: {error}"));
    let mut bytes = Vec::new();
    let mut read = |from: &mut dyn Read| from.take(max_bytes + 1).read_to_end(&mut bytes);
    if path == "-" {
        read(&mut io::stdin().lock()).map_err(cannot)?;
    } else {
        let mut file = File::open(path).map_err(cannot)?;
        if file.metadata().map_err(cannot)?.len() > max_bytes {
            return Err(wrong(format!("is longer than {max_bytes} bytes")));
        }
        read(&mut file).map_err(cannot)?;
    }
    if bytes.len() as u64 > max_bytes {
        return Err(wrong(format!("is longer than {max_bytes} bytes")));
    }
    String::from_utf8(bytes).map_err(|error| {
        let (line, column) = position(error.as_bytes(), error.utf8_error().valid_up_to());
        Failure::Usage(format!("{shown}:{line}:{column}: is not UTF-8 here"))
    })
}

/// Returns line and column of the byte at `at`, both from 1, columns in characters.
pub fn position(bytes: &[u8], at: usize) -> (usize, usize) {
    let before = String::from_utf8_lossy(&bytes[..at.min(bytes.len())]);
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    (line, column)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_counts_characters() {
        assert_eq!(position("ab".as_bytes(), 0), (1, 1));
        assert_eq!(position("é\nüx".as_bytes(), 5), (2, 2));
        assert_eq!(position(b"a\n", 2), (2, 1));
    }
}
