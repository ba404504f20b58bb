//! The connection below hyper: what hyper leaves to whoever uses it.
//!
//! It times request heads (hyper's own timer would also end idle connections), keeps the bytes of
//! the head so that a request with both `Content-Length` and `Transfer-Encoding` can be refused
//! (hyper takes the first away before anybody sees it), and puts a JSON body where hyper answers a
//! malformed head by itself with none.

use std::cell::RefCell;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::problem;
use crate::base::{Error, Kind};

/// A head may take 10 s to arrive, from its first byte, or from the connection's beginning.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// A connection on which nothing is asked is kept for two minutes: longer than the clients and
/// proxies of the day keep theirs, so that it is they who close it.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Path and query may have 16 KiB.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// What is kept of a head: as much as a head may have.
const MAX_KEPT: usize = 64 * 1024;

/// What is known about a connection, shared by its bytes and its requests.
#[derive(Clone)]
pub struct Progress(Arc<Mutex<State>>);

struct State {
    /// Whether a request is being answered; otherwise a head is awaited.
    answering: bool,
    /// When the head that is awaited began, or may have begun.
    head_since: Option<Instant>,
    /// Since when nothing happens.
    idle_since: Instant,
    /// The bytes read since the last request ended.
    head: Vec<u8>,
}

impl Progress {
    fn new() -> Self {
        let now = Instant::now();
        Progress(Arc::new(Mutex::new(State {
            answering: false,
            head_since: Some(now),
            idle_since: now,
            head: Vec::new(),
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics holding it")
    }

    /// A head has been read: its request is being answered from now on.
    pub fn begin(&self) {
        let mut state = self.state();
        state.answering = true;
        state.head_since = None;
    }

    /// The answer is complete, as far as we can tell: the next head may come.
    pub fn end(&self) {
        let mut state = self.state();
        state.answering = false;
        state.idle_since = Instant::now();
        state.head.clear();
    }

    /// Whether the head that is awaited begins with a line that is too long to hold a target.
    fn is_long_line(&self) -> bool {
        let longest = MAX_TARGET_BYTES + "OPTIONS  HTTP/1.1".len();
        !self.state().head.iter().take(longest + 1).any(|byte| *byte == b'\n')
    }

    /// Whether the head now being answered has a `Content-Length`, whatever hyper made of it.
    pub fn sent_length(&self) -> bool {
        let name = b"\ncontent-length:";
        let state = self.state();
        let end = state.head.windows(4).position(|window| window == b"\r\n\r\n");
        let head = &state.head[..end.unwrap_or(state.head.len())];
        head.windows(name.len()).any(|window| window.eq_ignore_ascii_case(name))
    }

    /// When to look again whether this connection has overstayed; `None` if it has.
    pub fn good_until(&self) -> Option<Instant> {
        let state = self.state();
        let now = Instant::now();
        let end = match (state.answering, state.head_since) {
            (true, _) => now + HEAD_TIMEOUT,
            (false, Some(since)) => since + HEAD_TIMEOUT,
            // A head may begin any moment, and is then looked at in time.
            (false, None) if now < state.idle_since + IDLE_TIMEOUT => now + HEAD_TIMEOUT / 2,
            (false, None) => state.idle_since + IDLE_TIMEOUT,
        };
        (end > now).then_some(end)
    }

    /// Whether a head has begun but not ended.
    pub fn in_head(&self) -> bool {
        let state = self.state();
        state.head_since.is_some() && !state.head.is_empty()
    }
}

thread_local! {
    /// Where bytes of a head pass through. hyper does not show what is read into its own buffer,
    /// and a new one would have to be filled with zeros for each read.
    static PASSING: RefCell<[u8; 8 * 1024]> = const { RefCell::new([0; 8 * 1024]) };
}

/// The bytes of a connection.
pub struct Wire {
    stream: TokioIo<TcpStream>,
    progress: Progress,
    /// Our own bytes in the place of an answer of hyper's, and how far they are written.
    instead: Vec<u8>,
    written: usize,
}

impl Wire {
    /// Watches a connection.
    pub fn new(stream: TcpStream) -> (Self, Progress) {
        let progress = Progress::new();
        let wire = Wire {
            stream: TokioIo::new(stream),
            progress: progress.clone(),
            instead: Vec::new(),
            written: 0,
        };
        (wire, progress)
    }

    /// The connection itself.
    pub fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    fn write_instead(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.written < self.instead.len() {
            let rest = &self.instead[self.written..];
            match Pin::new(&mut self.stream).poll_write(cx, rest) {
                Poll::Ready(Ok(0)) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                Poll::Ready(Ok(written)) => self.written += written,
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => return Poll::Pending,
            }
        }
        Poll::Ready(Ok(()))
    }

    /// The answer to put in the place of `bytes`, if hyper made them by itself.
    fn replacement(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        // Every error of ours has a body.
        let empty = b"\r\ncontent-length: 0\r\n";
        if !bytes.starts_with(b"HTTP/1.1 4") || !bytes.windows(empty.len()).any(|w| w == empty) {
            return None;
        }
        Some(raw_answer(&match bytes.get(9..12)? {
            b"431" if self.progress.is_long_line() => target_too_long(),
            b"431" => Error::new(
                Kind::HeadTooLarge,
                "head_too_large",
                "the head may have 100 fields and 64 KiB",
            ),
            b"414" => target_too_long(),
            _ => {
                Error::new(Kind::Invalid, "malformed_request", "this is not a request of HTTP/1.1")
            }
        }))
    }
}

/// 414.
pub fn target_too_long() -> Error {
    Error::new(Kind::TargetTooLong, "target_too_long", "path and query may have 16 KiB together")
}

/// The bytes of an answer after which the connection closes.
pub fn raw_answer(error: &Error) -> Vec<u8> {
    let id = uuid::Uuid::now_v7().to_string();
    let body = problem::body(error, &id);
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
         content-length: {}\r\nconnection: close\r\n\r\n",
        problem::status(error.kind()),
        body.len()
    );
    [head.as_bytes(), &body].concat()
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        // A request being answered: its body passes through.
        if self.progress.state().answering {
            return Pin::new(&mut self.stream).poll_read(cx, buf);
        }
        PASSING.with_borrow_mut(|bytes| {
            let room = buf.remaining().min(bytes.len());
            let mut part = hyper::rt::ReadBuf::new(&mut bytes[..room]);
            ready!(Pin::new(&mut self.stream).poll_read(cx, part.unfilled()))?;
            let read = part.filled();
            if !read.is_empty() {
                let mut state = self.progress.state();
                state.head_since.get_or_insert_with(Instant::now);
                let room = MAX_KEPT.saturating_sub(state.head.len()).min(read.len());
                state.head.extend_from_slice(&read[..room]);
            }
            buf.put_slice(read);
            Poll::Ready(Ok(()))
        })
    }
}

impl Write for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_empty() {
            match self.replacement(bytes) {
                Some(instead) => self.instead = instead,
                None => return Pin::new(&mut self.stream).poll_write(cx, bytes),
            }
        }
        match self.write_instead(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(bytes.len())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
