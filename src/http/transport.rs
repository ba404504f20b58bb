//! The bytes of a connection: a socket, with TLS over it or not.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::server::TlsStream;

use super::connection_state::ConnectionState;

/// How much is read until a handshake is done. It has some 2 KB, and a whole record of 16 KB may come
/// right behind it. TLS itself would keep 64 KB.
const MAX_HANDSHAKE_BYTES: usize = 32 * 1024;

/// A socket, which records whether the client accepts what is sent: TLS has a buffer of its own, so
/// above it that would not be seen.
pub struct Socket {
    stream: TcpStream,
    progress: ConnectionState,
    /// How much may be read until the handshake is done, if there is one.
    handshake_bytes: Option<usize>,
}

impl Socket {
    /// A socket whose connection has this state.
    pub fn new(stream: TcpStream, progress: ConnectionState) -> Self {
        Socket { stream, progress, handshake_bytes: None }
    }

    /// The same before a handshake, of which it reads a bounded number of bytes.
    pub fn before_handshake(stream: TcpStream, progress: ConnectionState) -> Self {
        let handshake_bytes = Some(MAX_HANDSHAKE_BYTES);
        Socket { handshake_bytes, ..Socket::new(stream, progress) }
    }

    /// The handshake is done.
    pub fn secured(&mut self) {
        self.handshake_bytes = None;
        self.progress.secured();
    }

    /// The address of the client.
    ///
    /// # Errors
    /// If the socket is closed.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.stream.peer_addr()
    }
}

/// A connection for HTTP.
pub enum Transport {
    /// Without TLS.
    Plain(Socket),
    /// With TLS, after its handshake. Boxed: most of an idle connection without TLS would be room for
    /// it.
    Tls(Box<TlsStream<Socket>>),
}

impl Transport {
    /// Whether it is encrypted.
    pub fn is_tls(&self) -> bool {
        matches!(self, Transport::Tls(_))
    }

    /// The socket.
    pub fn socket(&self) -> &Socket {
        match self {
            Transport::Plain(socket) => socket,
            Transport::Tls(stream) => stream.get_ref().0,
        }
    }

    /// Waits until there are bytes to read, or the client has closed its side; returns false if the
    /// socket has failed.
    pub async fn readable(&self) -> bool {
        // What came with the last message of the handshake is decrypted already.
        if let Transport::Tls(stream) = self
            && !stream.get_ref().1.wants_read()
        {
            return true;
        }
        self.socket().stream.readable().await.is_ok()
    }
}

impl AsyncRead for Socket {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Socket { stream, progress, handshake_bytes } = self.get_mut();
        // A request may come with the last message: what is read with that is not too much.
        if *handshake_bytes == Some(0) {
            return Poll::Ready(Err(io::Error::other("the handshake has more than 32 KB")));
        }
        let before = buffer.filled().len();
        let read = Pin::new(stream).poll_read(cx, buffer);
        match (handshake_bytes, buffer.filled().len() - before) {
            (Some(left), count) => *left = left.saturating_sub(count),
            (None, 0) => {}
            (None, _) => progress.arrived(),
        }
        read
    }
}

impl AsyncWrite for Socket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.progress.sent(&sent);
        sent
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let sent = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.progress.sent(&sent);
        sent
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(socket) => Pin::new(socket).poll_read(cx, buffer),
            Transport::Tls(stream) => match Pin::new(stream).poll_read(cx, buffer) {
                // Many clients close without a word of TLS about it. A request says itself where it ends,
                // so that one that was cut off is known as such.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    Poll::Ready(Ok(()))
                }
                read => read,
            },
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(socket) => Pin::new(socket).poll_write(cx, bytes),
            Transport::Tls(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Transport::Plain(socket) => Pin::new(socket).poll_write_vectored(cx, parts),
            Transport::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, parts),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Transport::Plain(socket) => socket.is_write_vectored(),
            Transport::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(socket) => Pin::new(socket).poll_flush(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Transport::Plain(socket) => Pin::new(socket).poll_shutdown(cx),
            Transport::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
