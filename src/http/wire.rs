//! The connection below hyper.
//!
//! It limits the time of request heads (hyper's own timer would also close idle connections),
//! tracks their framing, adds a JSON body to the responses that hyper itself gives to malformed
//! heads, and hides a half-close from hyper while the client may still read.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use super::connection_state::ConnectionState;
use super::problem;
use super::transport::Transport;
use crate::base::{Error, Kind, LogLimit};

/// The size of the read buffer: most requests are smaller.
const READ_BYTES: usize = 16 * 1024;

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
    fn log(self, stream: &Transport) {
        static LIMIT: LogLimit = LogLimit::new();
        let Some(suppressed) = LIMIT.admit(Instant::now()) else { return };
        let peer = stream.socket().peer_addr().map(|peer| peer.to_string()).unwrap_or_default();
        let protocol = self.name();
        // Scanners try it everywhere: nothing is wrong with the server.
        tracing::info!(
            protocol,
            %peer,
            suppressed,
            "a client speaks another protocol than this address"
        );
    }
}

/// The I/O of a connection.
pub struct Wire {
    stream: TokioIo<Transport>,
    progress: ConnectionState,
    /// Whether anything was read.
    has_begun: bool,
    other: Option<OtherProtocol>,
    /// A response that replaces one of hyper's, and how much of it is written.
    instead: Vec<u8>,
    written: usize,
}

impl Wire {
    /// Wraps a connection with its state.
    pub fn new(stream: Transport, progress: ConnectionState) -> Self {
        Wire {
            stream: TokioIo::new(stream),
            progress,
            has_begun: false,
            other: None,
            instead: Vec::new(),
            written: 0,
        }
    }

    /// Waits until there are bytes to read, or the client has closed its side.
    pub async fn readable(&self) -> bool {
        self.stream.inner().readable().await
    }

    /// The connection itself.
    pub fn into_transport(self) -> Transport {
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
            _ if self.other.is_some() && self.stream.inner().is_tls() => Error::new(
                Kind::Invalid,
                "other_protocol",
                "HTTP/2 is spoken with clients that ask for it in the handshake of TLS (ALPN h2); this \
                 one has not, and speaks HTTP/1.1",
            ),
            _ if self.other.is_some() => Error::new(
                Kind::Invalid,
                "other_protocol",
                "this server speaks HTTP/1.1 without TLS: use http:// and HTTP/1.1, serve with TLS, \
                 or use a proxy in front that speaks TLS and HTTP/2",
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

/// The error of plain HTTP where TLS is spoken.
pub fn https_expected() -> Error {
    Error::new(
        Kind::Invalid,
        "other_protocol",
        "this address speaks TLS: use https:// in place of http://",
    )
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
                    self.progress.write();
                    return Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
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
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        // hyper flushes once it has written all that it has.
        if matches!(flushed, Poll::Ready(Ok(()))) {
            self.progress.flushed();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
