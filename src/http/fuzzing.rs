//! The bytes of a connection, in which [`Framing`], httparse and hyper find heads.
//!
//! httparse says where heads and bodies of requests end that are in order. hyper takes more than
//! those: of what it passes on, each head that [`Framing`] calls good must be the one that it read.

use std::cell::RefCell;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use http_body_util::{BodyExt as _, Empty};
use httparse::{EMPTY_HEADER, Header, Request, Status};
use hyper::body::Incoming;
use hyper::http::request::Parts;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1;
use hyper::service::service_fn;

use super::framing::{Framing, Head};

/// Longer heads are refused, as are those with more lines than hyper takes.
const MAX_HEAD_BYTES: usize = 64 * 1024;
const MAX_LINES: usize = 100;

/// A head that [`Framing`] found.
struct Found {
    head: Vec<u8>,
    result: Head,
    /// Where it ends.
    end: usize,
}

/// The first byte says how many bytes are read at once, the others are those of the connection.
///
/// # Panics
/// If heads are found elsewhere than httparse finds them, or elsewhere in other fragments; if hyper
/// passes a request on as good that has both lengths, or that was not found.
pub fn framing(input: &[u8]) {
    let Some((at_once, bytes)) = input.split_first() else { return };
    let at_once = match at_once {
        0 => bytes.len().max(1),
        count => usize::from(*count),
    };
    let found = found(bytes);
    assert_same_in_fragments(bytes, at_once, &found);
    let ends = assert_found_by_httparse(bytes, &found);
    assert_safe_with_hyper(bytes, at_once, &found, ends);
}

fn found(bytes: &[u8]) -> Vec<Found> {
    let mut framing = Framing::default();
    let mut found = Vec::new();
    for (at, byte) in bytes.iter().enumerate() {
        let mut head = framing.head().to_vec();
        framing.follow(&[*byte]);
        assert!(framing.head().len() <= MAX_HEAD_BYTES);
        if framing.has_next() {
            head.push(*byte);
            found.push(Found { head, result: framing.next(), end: at + 1 });
        }
    }
    found
}

fn assert_same_in_fragments(bytes: &[u8], at_once: usize, found: &[Found]) {
    let (mut whole, mut in_parts) = (Framing::default(), Framing::default());
    whole.follow(bytes);
    bytes.chunks(at_once).for_each(|part| in_parts.follow(part));
    for framing in [&mut whole, &mut in_parts] {
        let heads: Vec<Head> = found.iter().map(|one| one.result).collect();
        let again: Vec<Head> = heads.iter().map(|_| framing.next()).collect();
        assert!(again == heads && !framing.has_next());
    }
    assert_eq!(whole.head(), in_parts.head());
    assert_eq!(whole.is_between_requests(), in_parts.is_between_requests());
}

/// How a part of the bytes is read.
enum Part {
    /// It ends here.
    Ends(usize),
    /// Not all of it is there yet.
    IsOpen,
    /// It is not HTTP, or not as it is usually written: hyper may read on or not.
    IsWrong,
}

/// Compares the heads with those that httparse finds, as far as the bytes are HTTP. Returns how many
/// those are.
fn assert_found_by_httparse(bytes: &[u8], found: &[Found]) -> usize {
    let mut at = 0;
    for nth in 0.. {
        let mut lines = [EMPTY_HEADER; MAX_LINES];
        let mut request = Request::new(&mut lines);
        let end = match request.parse(&bytes[at..]) {
            Ok(Status::Complete(len)) if len <= MAX_HEAD_BYTES => at + len,
            Ok(Status::Partial) if bytes.len() - at <= MAX_HEAD_BYTES => {
                assert_eq!(found.len(), nth, "a head is found that has no end");
                return nth;
            }
            _ => return nth,
        };
        let one = found.get(nth).expect("each head is found");
        assert_eq!(one.end, end, "head {nth} ends elsewhere");
        let expected = if has_both(request.headers) { Head::BothLengths } else { Head::Good };
        assert_eq!(one.result, expected, "head {nth}");
        let is_new = request.version == Some(1);
        at = match after_body(bytes, end, request.headers, is_new) {
            Part::Ends(at) => at,
            Part::IsOpen => {
                assert_eq!(found.len(), nth + 1, "a head is found within a body");
                return nth + 1;
            }
            Part::IsWrong => return nth + 1,
        };
    }
    0
}

fn values<'a>(headers: &'a [Header<'_>], name: &str) -> Vec<&'a str> {
    let of_name = headers.iter().filter(|header| header.name.eq_ignore_ascii_case(name));
    of_name.map(|header| std::str::from_utf8(header.value).unwrap_or_default()).collect()
}

fn has_both(headers: &[Header<'_>]) -> bool {
    let has = |name: &str| !values(headers, name).is_empty();
    has("content-length") && has("transfer-encoding")
}

fn after_body(bytes: &[u8], at: usize, headers: &[Header<'_>], is_new: bool) -> Part {
    let codings = values(headers, "transfer-encoding");
    if let Some(last) = codings.last() {
        let last = last.rsplit(',').next().unwrap_or_default().trim();
        let is_chunked = last.eq_ignore_ascii_case("chunked");
        return if is_chunked && is_new { after_chunks(bytes, at) } else { Part::IsWrong };
    }
    let lengths = values(headers, "content-length");
    let Some(first) = lengths.first() else { return Part::Ends(at) };
    let is_number = first.bytes().all(|byte| byte.is_ascii_digit());
    match first.parse::<u64>() {
        Ok(len) if is_number && lengths.iter().all(|other| other == first) => {
            match usize::try_from(len).ok().and_then(|len| at.checked_add(len)) {
                Some(end) if end <= bytes.len() => Part::Ends(end),
                _ => Part::IsOpen,
            }
        }
        _ => Part::IsWrong,
    }
}

fn after_chunks(bytes: &[u8], mut at: usize) -> Part {
    loop {
        let size = match httparse::parse_chunk_size(&bytes[at..]) {
            Ok(Status::Complete((len, size))) => {
                let line = &bytes[at..at + len - 2];
                if line.contains(&b'\n') || !line.first().is_some_and(u8::is_ascii_hexdigit) {
                    return Part::IsWrong;
                }
                at += len;
                size
            }
            Ok(Status::Partial) if !bytes[at..].contains(&b'\n') => return Part::IsOpen,
            _ => return Part::IsWrong,
        };
        if size == 0 {
            return after_trailers(bytes, at);
        }
        let end = usize::try_from(size).ok().and_then(|size| at.checked_add(size));
        let Some(end) = end.filter(|end| *end <= bytes.len()) else { return Part::IsOpen };
        at = match &bytes[end..] {
            [b'\r', b'\n', ..] => end + 2,
            [] | [b'\r'] => return Part::IsOpen,
            _ => return Part::IsWrong,
        };
    }
}

fn after_trailers(bytes: &[u8], at: usize) -> Part {
    let rest = &bytes[at..];
    match httparse::parse_headers(rest, &mut [EMPTY_HEADER; MAX_LINES]) {
        Ok(Status::Complete((len, _))) => {
            let lines = rest[..len].split(|byte| *byte == b'\n').rev().skip(1);
            let mut lines = lines.map(|line| line.ends_with(b"\r"));
            if lines.all(|is_whole| is_whole) { Part::Ends(at + len) } else { Part::IsWrong }
        }
        Ok(Status::Partial) if !rest.contains(&b'\n') => Part::IsOpen,
        _ => Part::IsWrong,
    }
}

/// A connection that sends bytes, and takes whatever is answered.
struct Sending<'a> {
    rest: &'a [u8],
    at_once: usize,
    framing: &'a RefCell<Framing>,
}

impl Read for Sending<'_> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
        mut buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let len = self.rest.len().min(self.at_once).min(buffer.remaining());
        let (part, rest) = self.rest.split_at(len);
        self.framing.borrow_mut().follow(part);
        buffer.put_slice(part);
        self.rest = rest;
        Poll::Ready(Ok(()))
    }
}

impl Write for Sending<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Has hyper read the bytes; returns each request with what [`Framing`] says of it.
fn read_by_hyper(bytes: &[u8], at_once: usize) -> Vec<(Head, Parts)> {
    let (framing, read) = (RefCell::new(Framing::default()), RefCell::new(Vec::new()));
    let service = service_fn(|request: hyper::Request<Incoming>| {
        let (head, body) = request.into_parts();
        read.borrow_mut().push((framing.borrow_mut().next(), head));
        async move {
            // hyper closes the connection after a body that it cannot read.
            let _ = body.collect().await;
            Ok::<_, Infallible>(hyper::Response::new(Empty::<Bytes>::new()))
        }
    });
    let mut builder = http1::Builder::new();
    builder.header_read_timeout(None).max_buf_size(MAX_HEAD_BYTES);
    {
        let sending = Sending { rest: bytes, at_once, framing: &framing };
        let mut connection = pin!(builder.serve_connection(sending, service));
        let mut context = Context::from_waker(Waker::noop());
        // It never waits for anything: it is pending only to let others work.
        let polls = 1000 + 10 * bytes.len();
        let ended = (0..polls).any(|_| connection.as_mut().poll(&mut context).is_ready());
        assert!(ended, "the connection does not end");
    }
    read.into_inner()
}

fn assert_safe_with_hyper(bytes: &[u8], at_once: usize, found: &[Found], in_order: usize) {
    for (nth, (known, head)) in read_by_hyper(bytes, at_once).into_iter().enumerate() {
        if known != Head::Good {
            let is_refused_rightly = nth >= in_order || found[nth].result == known;
            assert!(is_refused_rightly, "request {nth} is refused, and is in order");
            continue;
        }
        let one = found.get(nth).expect("a good head was found");
        let mut lines = [EMPTY_HEADER; MAX_LINES];
        let mut request = Request::new(&mut lines);
        let parsed = request.parse(&one.head);
        assert_eq!(parsed, Ok(Status::Complete(one.head.len())), "request {nth} is no head");
        assert!(!has_both(request.headers), "request {nth} has both lengths and is good");
        assert_eq!(request.method, Some(head.method.as_str()), "request {nth} is another");
        let mut sent: Vec<(String, &[u8])> = request
            .headers
            .iter()
            .map(|header| (header.name.to_ascii_lowercase(), header.value))
            .collect();
        let mut read: Vec<(String, &[u8])> =
            head.headers.iter().map(|(name, value)| (name.to_string(), value.as_bytes())).collect();
        // hyper keeps one of several equal lengths.
        for headers in [&mut sent, &mut read] {
            headers.sort();
            headers.dedup_by(|a, b| a.0 == "content-length" && b.0 == "content-length");
        }
        assert_eq!(sent, read, "request {nth} is another");
    }
}
