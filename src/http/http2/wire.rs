//! The bytes of a connection below hyper: where frames begin and end in them is recorded, and a client
//! that sends without a pause lets others have their turn.

use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::rt::TokioIo;

use crate::http::connection_state::ConnectionState;
use crate::http::frames::Frames;
use crate::http::transport::Transport;

/// How much is read at once.
const READ_BYTES: usize = 8 * 1024;

/// How much is read before other tasks of the thread have their turn.
const TURN_BYTES: usize = 64 * 1024;

/// What a frame counts besides its bytes: those of a few bytes cost more than they.
const FRAME_COST: usize = 256;

/// Limit of the frames at once that are of no request, and how many more there may be in a second. Clients
/// send a few when they connect, and then less than one a second.
const MAX_OF_NO_REQUEST: usize = 1000;
const MORE_PER_SEC: usize = 10;

/// The I/O of a connection.
pub struct FrameWire {
    stream: TokioIo<Transport>,
    progress: ConnectionState,
    frames: Frames,
    /// What was read in this turn.
    in_turn: usize,
    of_no_request: Excess,
}

/// How many frames of no request there were beyond those that time allows for.
struct Excess {
    count: usize,
    since: Instant,
}

impl Excess {
    /// Adds some; returns whether there may be as many.
    fn add(&mut self, count: usize) -> bool {
        if count > 0 {
            let passed = self.since.elapsed().as_secs();
            let allowed =
                usize::try_from(passed).unwrap_or(usize::MAX).saturating_mul(MORE_PER_SEC);
            self.count = self.count.saturating_sub(allowed) + count;
            self.since += Duration::from_secs(passed);
        }
        self.count <= MAX_OF_NO_REQUEST
    }
}

impl FrameWire {
    /// Wraps a connection with its state.
    pub fn new(stream: Transport, progress: ConnectionState) -> Self {
        FrameWire {
            stream: TokioIo::new(stream),
            progress,
            frames: Frames::new(),
            in_turn: 0,
            of_no_request: Excess { count: 0, since: Instant::now() },
        }
    }

    /// Records what was read.
    fn came(&mut self, read: &[u8]) -> io::Result<()> {
        if !read.is_empty() {
            let end = self.frames.follow(read);
            self.progress.read_frames(end);
        }
        let count = self.frames.take_count();
        self.in_turn += read.len() + count.all * FRAME_COST;
        if self.of_no_request.add(count.of_no_request) {
            return Ok(());
        }
        Err(io::Error::other("a client sends frames of no request without end"))
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
                self.came(read)?;
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
