//! Tracks where heads and bodies begin and end in the bytes of a connection.
//!
//! If a request has both `Content-Length` and `Transfer-Encoding`, hyper removes the former before
//! the application sees it, and it reads ahead into pipelined requests. The bytes are therefore
//! parsed here as well, so that every request with both can be refused. Invalid HTTP is not refused
//! here but by hyper, which closes the connection. What hyper may read in another way than most, such as
//! a line of a chunked body that ends without a carriage return, ends the tracking: the requests behind
//! it are refused.

use std::collections::VecDeque;

/// Limit of the bytes kept of a head, which is the limit of a head.
const MAX_HEAD_BYTES: usize = 64 * 1024;

/// The framing of a connection's bytes so far.
#[derive(Default)]
pub struct Framing {
    part: FrameState,
    /// The head that has begun but not ended.
    head: Vec<u8>,
    /// The complete heads that [`Framing::next`] has not returned yet.
    ended: VecDeque<Head>,
    /// The size of the largest head since [`Framing::forget_sizes`].
    largest_head: usize,
}

/// The result for a head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Head {
    /// No problem was found.
    Good,
    /// It has both `Content-Length` and `Transfer-Encoding`.
    BothLengths,
    /// It exceeds the limit of a head, which hyper checks only roughly.
    TooLarge,
}

/// What the next byte is part of.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
enum FrameState {
    #[default]
    Head,
    /// A body with this many bytes left.
    Body(u64),
    /// The line with a chunk's size: the size so far.
    Size { size: u64, part: SizePart },
    /// A chunk with this many bytes left, its line end included.
    Chunk(u64),
    /// The trailers after the last chunk: lines up to an empty one.
    Trailers { line_is_empty: bool, ends: bool },
    /// The bytes are not HTTP.
    Lost,
}

/// Where the next byte of a line with a chunk's size is.
#[derive(Clone, Copy, Debug, PartialEq)]
enum SizePart {
    /// Among the digits.
    Digits,
    /// Behind them, in extensions.
    Extensions,
    /// Behind the carriage return.
    End,
}

/// The state before the line of a chunk.
const SIZE: FrameState = FrameState::Size { size: 0, part: SizePart::Digits };

impl Framing {
    /// Tracks `bytes`.
    pub fn follow(&mut self, mut bytes: &[u8]) {
        while let Some((&byte, rest)) = bytes.split_first() {
            bytes = match self.part {
                FrameState::Head => self.follow_head(bytes),
                FrameState::Body(left) => {
                    let (rest, left) = skip(bytes, left);
                    self.part = if left == 0 { FrameState::Head } else { FrameState::Body(left) };
                    rest
                }
                FrameState::Chunk(left) => {
                    let (rest, left) = skip(bytes, left);
                    self.part = if left == 0 { SIZE } else { FrameState::Chunk(left) };
                    rest
                }
                FrameState::Size { size, part } => {
                    self.part = after_size_byte(size, part, byte);
                    rest
                }
                FrameState::Trailers { line_is_empty, ends } => {
                    self.part = after_trailer_byte(line_is_empty, ends, byte);
                    rest
                }
                FrameState::Lost => return,
            }
        }
    }

    /// The head that has begun but not ended.
    pub fn head(&self) -> &[u8] {
        &self.head
    }

    /// Whether the bytes so far are complete requests.
    pub fn is_between_requests(&self) -> bool {
        self.part == FrameState::Head && self.head.is_empty()
    }

    /// The size of the largest head since [`Framing::forget_sizes`].
    pub fn largest_head(&self) -> usize {
        self.largest_head
    }

    /// Starts again with [`Framing::largest_head`].
    pub fn forget_sizes(&mut self) {
        self.largest_head = 0;
    }

    /// Whether there is a complete head that was not returned yet.
    pub fn has_next(&self) -> bool {
        !self.ended.is_empty()
    }

    /// Returns the result for the next head that hyper has read. An untracked head may have both
    /// lengths.
    pub fn next(&mut self) -> Head {
        self.ended.pop_front().unwrap_or(Head::BothLengths)
    }

    fn follow_head<'a>(&mut self, bytes: &'a [u8]) -> &'a [u8] {
        // Empty lines before a request are skipped.
        if self.head.is_empty() && matches!(bytes[0], b'\r' | b'\n') {
            return &bytes[1..];
        }
        let line = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |at| at + 1);
        let (line, rest) = bytes.split_at(line);
        if self.head.len() + line.len() > MAX_HEAD_BYTES {
            let room = MAX_HEAD_BYTES - self.head.len();
            self.head.extend_from_slice(&line[..room]);
            self.ended.push_back(Head::TooLarge);
            self.part = FrameState::Lost;
            return &[];
        }
        self.head.extend_from_slice(line);
        if self.head.ends_with(b"\n\n") || self.head.ends_with(b"\n\r\n") {
            let lengths = Lengths::of(&self.head);
            self.largest_head = self.largest_head.max(self.head.len());
            self.head = Vec::new(); // The connection may be idle for long.
            self.ended.push_back(match lengths {
                Lengths { chunked: true, length: Some(_) } => Head::BothLengths,
                _ => Head::Good,
            });
            self.part = match lengths {
                Lengths { chunked: true, .. } => SIZE,
                Lengths { length: Some(length), .. } if length > 0 => FrameState::Body(length),
                _ => FrameState::Head,
            };
        }
        rest
    }
}

/// The headers of a head that determine the length of its body.
struct Lengths {
    chunked: bool,
    length: Option<u64>,
}

impl Lengths {
    fn of(head: &[u8]) -> Self {
        let mut lengths = Lengths { chunked: false, length: None };
        for line in head.split(|byte| *byte == b'\n').skip(1) {
            let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
            let (name, value) = (&line[..colon], &line[colon + 1..]);
            if name.eq_ignore_ascii_case(b"transfer-encoding") {
                lengths.chunked = true;
            } else if name.eq_ignore_ascii_case(b"content-length") {
                let value = std::str::from_utf8(value).unwrap_or_default();
                // hyper refuses a value that is not a number.
                let number = value.split(',').next().unwrap_or_default().trim().parse();
                lengths.length = Some(number.unwrap_or(0));
            }
        }
        lengths
    }
}

/// Skips up to `left` bytes; returns the remaining bytes and the number still to skip.
fn skip(bytes: &[u8], left: u64) -> (&[u8], u64) {
    let passed = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
    (&bytes[passed..], left - passed as u64)
}

/// The state after a byte of a chunk's size line: hexadecimal digits, then ignored extensions.
fn after_size_byte(size: u64, part: SizePart, byte: u8) -> FrameState {
    match (part, byte, char::from(byte).to_digit(16)) {
        (SizePart::End, b'\n', _) if size == 0 => {
            FrameState::Trailers { line_is_empty: true, ends: false }
        }
        // The line end after the chunk is skipped with it.
        (SizePart::End, b'\n', _) => {
            size.checked_add(2).map_or(FrameState::Lost, FrameState::Chunk)
        }
        // hyper does not end a line here.
        (SizePart::End, ..) | (_, b'\n', _) => FrameState::Lost,
        (_, b'\r', _) => FrameState::Size { size, part: SizePart::End },
        (SizePart::Digits, _, Some(digit)) => match size.checked_mul(16) {
            Some(size) => FrameState::Size { size: size + u64::from(digit), part },
            None => FrameState::Lost,
        },
        _ => FrameState::Size { size, part: SizePart::Extensions },
    }
}

/// The state after a byte of the trailers; `ends` is behind a carriage return.
fn after_trailer_byte(line_is_empty: bool, ends: bool, byte: u8) -> FrameState {
    match (ends, byte) {
        (true, b'\n') if line_is_empty => FrameState::Head,
        (true, b'\n') => FrameState::Trailers { line_is_empty: true, ends: false },
        // hyper takes a line feed alone for a part of the line, and would end the trailers elsewhere.
        (true, _) | (_, b'\n') => FrameState::Lost,
        (_, b'\r') => FrameState::Trailers { line_is_empty, ends: true },
        _ => FrameState::Trailers { line_is_empty: false, ends: false },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GET: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    const LENGTH: &str = "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nGET /";
    const CHUNKED: &str = "POST / HTTP/1.1\r\ntransfer-encoding:chunked\r\n\r\n\
                           A;x=\"y\"\r\nPOST / HTT\r\n05 \r\n\r\n\r\n\r\r\n0\r\nX: y\r\n\r\n";
    const BOTH: &str = "\r\nPOST / HTTP/1.1\r\nCONTENT-LENGTH: 4\r\nTransfer-Encoding: chunked\r\n\
                        X: y\r\n\r\n0\r\n\r\n";

    fn followed(bytes: &str, at_once: usize) -> Vec<Head> {
        let mut framing = Framing::default();
        bytes.as_bytes().chunks(at_once).for_each(|bytes| framing.follow(bytes));
        assert!(framing.is_between_requests(), "{bytes:?}");
        framing.ended.into()
    }

    #[test]
    fn a_request_with_both_lengths_is_found_in_any_context_and_fragmentation() {
        for before in [GET, LENGTH, CHUNKED, BOTH, "GET / HTTP/1.1\nHost: a\n\n"] {
            for at_once in [1, 2, 3, 7, 1000] {
                let first = if before == BOTH { Head::BothLengths } else { Head::Good };
                let found = followed(&[before, BOTH, GET].concat(), at_once);
                assert_eq!(found, [first, Head::BothLengths, Head::Good], "{before:?} {at_once}");
            }
        }
    }

    #[test]
    fn an_untracked_head_may_have_both_lengths() {
        let mut framing = Framing::default();
        assert_eq!(framing.next(), Head::BothLengths);
        framing.follow(GET.as_bytes());
        assert_eq!(framing.next(), Head::Good);
        assert_eq!(framing.next(), Head::BothLengths);
    }

    #[test]
    fn a_head_is_bounded() {
        for (bytes, expected) in
            [(MAX_HEAD_BYTES, Head::Good), (MAX_HEAD_BYTES + 1, Head::TooLarge)]
        {
            let (begin, end) = ("GET / HTTP/1.1\r\nX: ", "\r\n\r\n");
            let value = "x".repeat(bytes - begin.len() - end.len());
            let mut framing = Framing::default();
            framing.follow([begin, &value, end].concat().as_bytes());
            framing.follow(GET.as_bytes());
            assert_eq!(framing.next(), expected);
            assert!(framing.head().len() <= MAX_HEAD_BYTES);
        }
    }

    /// hyper reads on in the trailers of the first request, where a line feed alone once ended them
    /// here: what is in them was taken for the head of the next request, which could have both lengths.
    #[test]
    fn a_line_feed_alone_in_a_chunked_body_ends_tracking() {
        let chunked = "POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n";
        for body in ["0\r\n\n", "0\r\nX: y\n\r\n", "0\n\r\n", "0;x\n\r\n", "1\na\r\n0\r\n\r\n"] {
            let mut framing = Framing::default();
            framing.follow([chunked, body, GET, BOTH].concat().as_bytes());
            assert_eq!(framing.next(), Head::Good);
            assert_eq!(framing.part, FrameState::Lost, "{body:?}");
            assert_eq!(framing.next(), Head::BothLengths);
        }
    }

    #[test]
    fn invalid_chunk_sizes_end_tracking() {
        for size in ["fffffffffffffffff", "ffffffffffffffff"] {
            let mut framing = Framing::default();
            framing.follow(b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n");
            framing.follow(format!("{size}\r\n").as_bytes());
            assert_eq!(framing.part, FrameState::Lost, "{size}");
        }
    }
}
