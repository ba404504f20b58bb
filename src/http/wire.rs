//! The connection below hyper.
//!
//! It limits the time of request heads (hyper's own timer would also close idle connections),
//! tracks their framing, adds a JSON body to the responses that hyper itself gives to malformed
//! heads, and hides a half-close from hyper while the client may still read.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::framing::{Framing, Head};
use super::problem;
use crate::base::{Error, Kind, LogLimit};

/// Time limit of a head, from its first byte or from the start of the connection.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which a client must accept some of a response: as long as it may pause within a body that
/// it sends. Otherwise it would keep its connection, and the wakes of a stream, forever.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time after which an idle connection is closed: longer than common clients and proxies keep
/// theirs, so that they close it first.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Limit of path and query together.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Time after which an idle connection gives up its buffers: a client that sends request after
/// request is not delayed by allocating them again, and idle connections take them for moments only.
const RELEASE_AFTER: Duration = Duration::from_secs(1);

/// After a larger head the buffers are given up at once: they may be 200 KB.
const LARGE_HEAD_BYTES: usize = 8 * 1024;

/// The size of the read buffer: most requests are smaller.
const READ_BYTES: usize = 16 * 1024;

/// The state of a connection, shared by its I/O and its requests.
#[derive(Clone)]
pub struct ConnectionState(Arc<Mutex<State>>);

struct State {
    /// Whether a request is being handled; otherwise the next head is awaited.
    answering: bool,
    /// When the awaited head began, or may have begun.
    head_since: Option<Instant>,
    /// Since when the connection is idle.
    idle_since: Instant,
    framing: Framing,
    sent: Sent,
    /// Whether the request is a long poll or a stream.
    waiting: bool,
    /// Since when the client has accepted nothing of what is to be written.
    blocked_since: Option<Instant>,
    /// Set once the client has closed its side, if that is hidden from hyper: wakes the connection
    /// when it must be known.
    ended: Option<Waker>,
}

/// How far the last response is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Sent {
    /// Completely, as is what precedes the first one.
    Whole,
    /// It is complete, and hyper is about to write it.
    Nothing,
    /// hyper has begun to write it.
    Part,
}

impl ConnectionState {
    fn new() -> Self {
        let now = Instant::now();
        ConnectionState(Arc::new(Mutex::new(State {
            answering: false,
            head_since: Some(now),
            idle_since: now,
            framing: Framing::default(),
            sent: Sent::Whole,
            waiting: false,
            blocked_since: None,
            ended: None,
        })))
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no code panics while holding the lock")
    }

    /// A head has been read and its request is being handled; returns the framing of the head.
    pub fn begin(&self) -> Head {
        let mut state = self.state();
        state.answering = true;
        state.head_since = None;
        state.framing.next()
    }

    /// The response is complete: the next head may arrive, or has arrived.
    pub fn end(&self) {
        let mut state = self.state();
        let now = Instant::now();
        state.answering = false;
        state.waiting = false;
        state.sent = Sent::Nothing;
        state.idle_since = now;
        state.head_since = (!state.framing.head().is_empty()).then_some(now);
    }

    /// The request begins to wait, which is pointless once the client has disconnected.
    pub fn wait(&self) {
        let mut state = self.state();
        state.waiting = true;
        if let Some(ended) = state.ended.take() {
            ended.wake();
        }
    }

    /// Whether the client has closed its side.
    pub fn has_ended(&self) -> bool {
        self.state().ended.is_some()
    }

    /// Returns whether to hide from hyper that the client has closed its side, since hyper would
    /// cancel the request. A half-close looks the same as a disconnect, so requests that do not
    /// wait are still answered; the connection closes after them.
    fn hide_eof(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        let is_asked = (state.answering && !state.waiting) || state.framing.has_next();
        let is_hidden = is_asked && state.framing.is_between_requests();
        if is_hidden {
            state.ended = Some(cx.waker().clone());
        }
        is_hidden
    }

    /// Records received bytes.
    fn read(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.framing.follow(bytes);
        if !state.answering && !bytes.is_empty() {
            state.head_since.get_or_insert_with(Instant::now);
        }
    }

    /// Records the result of a write.
    fn wrote(&self, result: &Poll<io::Result<usize>>) {
        let mut state = self.state();
        if state.sent == Sent::Nothing {
            state.sent = Sent::Part;
        }
        match result {
            Poll::Ready(_) => state.blocked_since = None,
            Poll::Pending => {
                state.blocked_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Whether the awaited head begins with a line that is longer than the limit of a target
    /// allows.
    fn is_long_line(&self) -> bool {
        let longest = MAX_TARGET_BYTES + "OPTIONS  HTTP/1.1".len();
        let state = self.state();
        let line = state.framing.head().get(..=longest);
        line.is_some_and(|line| !line.contains(&b'\n'))
    }

    /// When to check the time limits again; `None` if one has passed.
    pub fn good_until(&self) -> Option<Instant> {
        let state = self.state();
        let now = Instant::now();
        let end = match (state.blocked_since, state.answering, state.head_since) {
            (Some(since), ..) => since + WRITE_TIMEOUT,
            (None, true, _) => now + HEAD_TIMEOUT,
            (None, false, Some(since)) => since + HEAD_TIMEOUT,
            // A head may begin at any moment; this checks its limit in time.
            (None, false, None) if now < state.idle_since + IDLE_TIMEOUT => now + HEAD_TIMEOUT / 2,
            (None, false, None) => state.idle_since + IDLE_TIMEOUT,
        };
        (end > now).then_some(end)
    }

    /// Everything that hyper has written is sent.
    fn flushed(&self) {
        let mut state = self.state();
        if state.sent == Sent::Part {
            state.sent = Sent::Whole;
        }
    }

    /// If the connection is idle, when its buffers may be given up: nothing of a request or response
    /// is in them.
    pub fn release_at(&self) -> Option<Instant> {
        let state = self.state();
        let is_idle = !state.answering
            && state.sent == Sent::Whole
            && state.ended.is_none()
            && state.framing.is_between_requests()
            && !state.framing.has_next();
        let is_large = state.framing.largest_head() > LARGE_HEAD_BYTES;
        let after = if is_large { Duration::ZERO } else { RELEASE_AFTER };
        is_idle.then(|| state.idle_since + after)
    }

    /// The buffers were given up.
    pub fn released(&self) {
        self.state().framing.forget_sizes();
    }

    /// Whether a head has begun but not ended.
    pub fn is_reading_head(&self) -> bool {
        let state = self.state();
        state.head_since.is_some() && !state.framing.head().is_empty()
    }
}

/// What a client speaks in place of HTTP/1.1 without TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OtherProtocol {
    Http2,
    Tls,
}

impl OtherProtocol {
    /// Recognizes it by the first bytes of a connection.
    fn of(bytes: &[u8]) -> Option<Self> {
        // A handshake, of whichever version.
        const TLS: [u8; 2] = [22, 3];
        if bytes.starts_with(b"PRI * HTTP/2.0\r\n") {
            Some(OtherProtocol::Http2)
        } else if bytes.starts_with(&TLS) {
            Some(OtherProtocol::Tls)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            OtherProtocol::Http2 => "HTTP/2",
            OtherProtocol::Tls => "TLS",
        }
    }

    /// The operator of a proxy looks into the log of the server, and its client into the answer.
    fn log(self, stream: &TcpStream) {
        static LIMIT: LogLimit = LogLimit::new();
        let Some(suppressed) = LIMIT.admit(Instant::now()) else { return };
        let peer = stream.peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
        let protocol = self.name();
        // Scanners try it everywhere: nothing is wrong with the server.
        tracing::info!(
            protocol,
            %peer,
            suppressed,
            "a client speaks another protocol than HTTP/1.1 without TLS"
        );
    }
}

/// The I/O of a connection.
pub struct Wire {
    stream: TokioIo<TcpStream>,
    progress: ConnectionState,
    /// Whether anything was read.
    has_begun: bool,
    other: Option<OtherProtocol>,
    /// A response that replaces one of hyper's, and how much of it is written.
    instead: Vec<u8>,
    written: usize,
}

impl Wire {
    /// Wraps a connection.
    pub fn new(stream: TcpStream) -> (Self, ConnectionState) {
        let progress = ConnectionState::new();
        let wire = Wire {
            stream: TokioIo::new(stream),
            progress: progress.clone(),
            has_begun: false,
            other: None,
            instead: Vec::new(),
            written: 0,
        };
        (wire, progress)
    }

    /// Waits until there are bytes to read, or the client has closed its side.
    pub async fn readable(&self) -> bool {
        self.stream.inner().readable().await.is_ok()
    }

    /// The connection itself.
    pub fn into_stream(self) -> TcpStream {
        self.stream.into_inner()
    }

    fn replace_output(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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

    /// Returns the response that replaces `bytes`, if hyper generated them itself.
    fn replacement(&self, bytes: &[u8]) -> Option<Vec<u8>> {
        // Every error response of the server itself has a body.
        let empty = b"\r\ncontent-length: 0\r\n";
        if !bytes.starts_with(b"HTTP/1.1 4") || !bytes.windows(empty.len()).any(|w| w == empty) {
            return None;
        }
        Some(raw_answer(&match bytes.get(9..12)? {
            b"431" if self.progress.is_long_line() => target_too_long(),
            b"431" => head_too_large(),
            b"414" => target_too_long(),
            _ if self.other.is_some() => Error::new(
                Kind::Invalid,
                "other_protocol",
                "this server speaks HTTP/1.1 without TLS: use http:// and HTTP/1.1, or a proxy in \
                 front that speaks TLS and HTTP/2",
            ),
            _ => Error::new(
                Kind::Invalid,
                "malformed_request",
                "this is not a request of HTTP/1.1; blanks, < and > in a path or query are sent \
                 percent-encoded",
            ),
        }))
    }
}

/// The error of a target over the limit (414).
pub fn target_too_long() -> Error {
    Error::new(Kind::TargetTooLong, "target_too_long", "path and query may have 16 KiB together")
}

/// The error of a head over the limit (431).
pub fn head_too_large() -> Error {
    Error::new(Kind::HeadTooLarge, "head_too_large", "the head may have 100 fields and 64 KiB")
}

/// The bytes of an error response after which the connection closes.
pub fn raw_answer(error: &Error) -> Vec<u8> {
    let id = uuid::Uuid::now_v7().to_string();
    let body = problem::body(error, &id);
    let retry = error.retry_after_secs().map(|secs| format!("retry-after: {secs}\r\n"));
    let head = format!(
        "HTTP/1.1 {}\r\ncontent-type: application/json\r\nx-request-id: {id}\r\n\
         content-length: {}\r\n{}connection: close\r\n\r\n",
        problem::status(error.kind()),
        body.len(),
        retry.unwrap_or_default()
    );
    [head.as_bytes(), &body].concat()
}

impl Read for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        let room = buf.remaining().min(bytes.len());
        let mut part = hyper::rt::ReadBuf::uninit(&mut bytes[..room]);
        match Pin::new(&mut self.stream).poll_read(cx, part.unfilled()) {
            Poll::Ready(Ok(())) => {
                let read = part.filled();
                if read.is_empty() && room > 0 && self.progress.hide_eof(cx) {
                    return Poll::Pending;
                }
                self.progress.read(read);
                if !self.has_begun && !read.is_empty() {
                    self.has_begun = true;
                    self.other = OtherProtocol::of(read);
                    if let Some(other) = self.other {
                        other.log(self.stream.inner());
                    }
                }
                match (self.other, read.split_first()) {
                    // hyper would close the connection without an answer. The text of one is what
                    // clients of HTTP/2 show or recognize, so this becomes a malformed head.
                    (Some(OtherProtocol::Http2), Some((_, rest))) => {
                        buf.put_slice(&[0]);
                        buf.put_slice(rest);
                    }
                    _ => buf.put_slice(read),
                }
                Poll::Ready(Ok(()))
            }
            other => other,
        }
    }
}

impl Write for Wire {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(bytes)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.instead.is_empty() {
            // A response that hyper generates itself is a head only, so it is in one part.
            match self.replacement(parts.first().map_or(&[], |part| part)) {
                Some(instead) => self.instead = instead,
                None => {
                    let written = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
                    self.progress.wrote(&written);
                    return written;
                }
            }
        }
        match self.replace_output(cx) {
            Poll::Ready(Ok(())) => Poll::Ready(Ok(parts.iter().map(|part| part.len()).sum())),
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => Poll::Pending,
        }
    }

    /// Otherwise hyper would copy every body behind its head, even one sent to thousands of
    /// clients.
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // hyper flushes once it has written all that it has.
        self.progress.flushed();
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
