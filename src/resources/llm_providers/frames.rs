//! Splits a stream of bytes into the payloads of its parts: server-sent events, or lines of JSON.

/// The longest line, and the longest payload of an event, in bytes: more than the longest answer in one
/// part.
const MAX_BYTES: usize = 1024 * 1024;

/// How parts are separated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Server-sent events, whose `data` are the parts.
    Events,
    /// A part a line.
    Lines,
}

/// A line or an event is too long.
#[derive(Debug, PartialEq, Eq)]
pub struct TooLong;

/// The parts of a stream, from pieces that may end anywhere.
pub struct Frames {
    framing: Framing,
    /// The beginning of the next line.
    line: Vec<u8>,
    /// Whether the last byte was a carriage return: a line feed after it ends no other line.
    is_after_return: bool,
    is_first: bool,
    /// The data of the event so far.
    data: Option<Vec<u8>>,
    complete: Vec<Vec<u8>>,
}

impl Frames {
    /// A stream of which nothing was read.
    pub fn new(framing: Framing) -> Self {
        Frames {
            framing,
            line: Vec::new(),
            is_after_return: false,
            is_first: true,
            data: None,
            complete: Vec::new(),
        }
    }

    /// Takes the next piece; returns the payloads that are complete with it.
    ///
    /// # Errors
    /// If one is too long.
    pub fn push(&mut self, piece: &[u8]) -> Result<Vec<Vec<u8>>, TooLong> {
        let mut rest = piece;
        while let Some(&first) = rest.first() {
            if std::mem::take(&mut self.is_after_return) && first == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let end = rest.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
            self.extend(&rest[..end.unwrap_or(rest.len())])?;
            let Some(end) = end else { break };
            self.is_after_return = rest[end] == b'\r';
            rest = &rest[end + 1..];
            self.end_of_line()?;
        }
        Ok(std::mem::take(&mut self.complete))
    }

    /// Returns what is left at the end: servers leave out the last end of a line.
    ///
    /// # Errors
    /// If it is too long.
    pub fn end(mut self) -> Result<Vec<Vec<u8>>, TooLong> {
        self.end_of_line()?;
        self.end_of_event();
        Ok(self.complete)
    }

    fn extend(&mut self, bytes: &[u8]) -> Result<(), TooLong> {
        if self.line.len() + bytes.len() > MAX_BYTES {
            return Err(TooLong);
        }
        self.line.extend_from_slice(bytes);
        Ok(())
    }

    /// An event whose data is empty is none: servers send it as a sign of life.
    fn end_of_event(&mut self) {
        let data = self.data.take();
        self.complete.extend(data.filter(|data| !data.trim_ascii().is_empty()));
    }

    fn end_of_line(&mut self) -> Result<(), TooLong> {
        let line = std::mem::take(&mut self.line);
        let is_first = std::mem::take(&mut self.is_first);
        let line =
            if is_first { line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(&line) } else { &line };
        match self.framing {
            Framing::Lines if line.trim_ascii().is_empty() => {}
            Framing::Lines => self.complete.push(line.to_vec()),
            Framing::Events if line.is_empty() => self.end_of_event(),
            Framing::Events => {
                // The other fields and comments say nothing that the data do not.
                let Some(data) = line.strip_prefix(b"data:") else { return Ok(()) };
                let data = data.strip_prefix(b" ").unwrap_or(data);
                let all = match &mut self.data {
                    Some(all) => {
                        all.push(b'\n');
                        all
                    }
                    None => self.data.insert(Vec::new()),
                };
                if all.len() + data.len() > MAX_BYTES {
                    return Err(TooLong);
                }
                all.extend_from_slice(data);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a stream has that comes in pieces of this size.
    fn all(framing: Framing, stream: &[u8], size: usize) -> Result<Vec<String>, TooLong> {
        let mut frames = Frames::new(framing);
        let mut all = Vec::new();
        for piece in stream.chunks(size) {
            all.extend(frames.push(piece)?);
        }
        all.extend(frames.end()?);
        Ok(all.into_iter().map(|one| String::from_utf8_lossy(&one).into_owned()).collect())
    }

    #[test]
    fn events_are_the_same_wherever_the_pieces_end_and_however_lines_do() {
        let plain = ": hello\n\nevent: a\ndata: {\"n\":1}\nid: 3\n\ndata:two\ndata: lines\n\n\ndata: ä€😀\n\n";
        for stream in [
            plain.to_string(),
            plain.replace('\n', "\r\n"),
            plain.replace('\n', "\r"),
            format!("\u{feff}{plain}"),
            plain.trim_end().to_string(),
        ] {
            for size in 1..=stream.len() {
                let all = all(Framing::Events, stream.as_bytes(), size).unwrap();
                assert_eq!(all, ["{\"n\":1}", "two\nlines", "ä€😀"], "{size} {stream:?}");
            }
        }
    }

    #[test]
    fn lines_are_the_same_wherever_the_pieces_end() {
        for stream in ["{\"a\":1}\n\n  \n{\"b\":\"ä\"}\n", "{\"a\":1}\r\n{\"b\":\"ä\"}"] {
            for size in 1..=stream.len() {
                let all = all(Framing::Lines, stream.as_bytes(), size).unwrap();
                assert_eq!(all, ["{\"a\":1}", "{\"b\":\"ä\"}"], "{size}");
            }
        }
    }

    #[test]
    fn a_line_or_an_event_that_does_not_end_is_given_up() {
        let line = vec![b'x'; MAX_BYTES + 1];
        for framing in [Framing::Events, Framing::Lines] {
            assert_eq!(all(framing, &line, 4096), Err(TooLong));
            assert!(all(framing, &line[..MAX_BYTES], 4096).is_ok());
        }
        let event = b"data: xxxxxxxxx\n".repeat(MAX_BYTES / 8);
        assert_eq!(all(Framing::Events, &event, 4096), Err(TooLong));
        // Empty data count, too.
        let event = b"data:\n".repeat(MAX_BYTES + 2);
        assert_eq!(all(Framing::Events, &event, 65_536), Err(TooLong));
    }

    #[test]
    fn comments_and_other_fields_are_no_parts() {
        for stream in [
            "",
            "\n\n\n",
            ": ping\n\n",
            "event: x\n\n",
            "retry: 1\nid: 2\n\n",
            "data\n\n",
            "data:\n\ndata: \ndata:",
        ] {
            assert_eq!(all(Framing::Events, stream.as_bytes(), 3), Ok(vec![]), "{stream:?}");
        }
    }
}
