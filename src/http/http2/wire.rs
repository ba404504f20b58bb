//! The bytes of a connection below hyper: where frames begin and end in them is recorded, and a client
//! that sends without a pause lets others have their turn.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use crate::http::connection_state::ConnectionState;
use crate::http::frames::Frames;
use crate::http::transport::Transport;

/// How much is read at once: a record of TLS.
const READ_BYTES: usize = 16 * 1024;

/// How much is read before other tasks of the thread have their turn: frames of nine bytes that say
/// nothing take some milliseconds then.
const TURN_BYTES: usize = 64 * 1024;

/// The I/O of a connection.
pub struct FrameWire {
    stream: TokioIo<Transport>,
    progress: ConnectionState,
    frames: Frames,
    /// How much was read in this turn.
    in_turn: usize,
}

impl FrameWire {
    /// Wraps a connection with its state.
    pub fn new(stream: Transport, progress: ConnectionState) -> Self {
        FrameWire { stream: TokioIo::new(stream), progress, frames: Frames::new(), in_turn: 0 }
    }
}

impl Read for FrameWire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if self.in_turn >= TURN_BYTES {
            self.in_turn = 0;
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let mut bytes = [const { MaybeUninit::uninit() }; READ_BYTES];
        let room = buf.remaining().min(bytes.len());
        let mut part = hyper::rt::ReadBuf::uninit(&mut bytes[..room]);
        match Pin::new(&mut self.stream).poll_read(cx, part.unfilled()) {
            Poll::Ready(Ok(())) => {
                let read = part.filled();
                if !read.is_empty() {
                    let end = self.frames.follow(read);
                    self.progress.read_frames(end);
                }
                self.in_turn += read.len();
                buf.put_slice(read);
                Poll::Ready(Ok(()))
            }
            Poll::Pending => {
                self.in_turn = 0;
                Poll::Pending
            }
            failed => failed,
        }
    }
}

impl Write for FrameWire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, parts)
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
