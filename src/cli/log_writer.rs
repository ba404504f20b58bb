//! Where log lines go: stderr, with each event on one line and nothing in it that is not seen.

use std::io::{self, Write};

use tracing_subscriber::fmt::MakeWriter;

use super::output;

/// Writes events to stderr with characters escaped that are not seen, so that a text of somebody else's (a
/// reason that a server gave, a path) cannot begin a line of its own.
#[derive(Clone, Copy)]
pub struct OneLineEach {
    /// Whether the escape character passes: it begins the colors of a terminal. In the values of
    /// events it is escaped before.
    pub has_colors: bool,
}

impl<'a> MakeWriter<'a> for OneLineEach {
    type Writer = Self;
    fn make_writer(&'a self) -> Self {
        *self
    }
}

impl Write for OneLineEach {
    /// Writes an event, which comes as a whole, with its line feed.
    fn write(&mut self, event: &[u8]) -> io::Result<usize> {
        let text = String::from_utf8_lossy(event);
        io::stderr().lock().write_all(one_line(&text, self.has_colors).as_bytes())?;
        Ok(event.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        io::stderr().lock().flush()
    }
}

/// Escapes what is not seen of an event but the line feed at its end: also an escape of JSON, whose writer
/// lets some of them pass.
fn one_line(event: &str, has_colors: bool) -> String {
    let line = event.strip_suffix('\n').unwrap_or(event);
    format!("{}\n", output::escaped(line, |c| has_colors && c == '\x1b'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_one_line_whatever_its_values_contain() {
        let event = "INFO a reason: nothing\r\nINFO sign-in failed \u{85} \x1b[31m\n";
        let expected =
            "INFO a reason: nothing\\u000d\\u000aINFO sign-in failed \\u0085 \\u001b[31m\n";
        assert_eq!(one_line(event, false), expected);
        assert_eq!(one_line("INFO a\nINFO b\tc\n", false), "INFO a\\u000aINFO b\\u0009c\n");
        let hidden = "INFO \u{202e}\u{e0069} ##[error]\n";
        assert_eq!(one_line(hidden, false), "INFO \\u202e\\udb40\\udc69 \\u0023#[error]\n");
        assert_eq!(one_line("\x1b[32mINFO\x1b[0m é\n", true), "\x1b[32mINFO\x1b[0m é\n");
    }
}
