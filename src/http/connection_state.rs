//! The state of a connection: how far its requests and responses are, and until when it may go on as it
//! does. Its I/O records it (`transport.rs`, `wire.rs`), and so do its requests.

use std::io;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::frames::{FramePart, FramesEnd};
use super::framing::{Framing, Head};

/// Time limit of a head, from its first byte or from the start of the connection.
pub const HEAD_TIMEOUT: Duration = Duration::from_secs(10);

/// Time in which a client must accept some of a response: as long as it may pause within a body that
/// it sends. Otherwise it would keep its connection, and the wakes of a stream, forever.
pub const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// Time after which an idle connection is closed: longer than common clients and proxies keep
/// theirs, so that they close it first.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(120);

/// Time limit of a frame of HTTP/2 that is not of a head: as long as a client may pause within a body.
const FRAME_TIMEOUT: Duration = Duration::from_secs(30);

/// Time to write the error response to a client whose head was too slow, and the end of TLS or HTTP/2.
pub const LAST_WORDS: Duration = Duration::from_secs(1);

/// Limit of path and query together.
pub const MAX_TARGET_BYTES: usize = 16 * 1024;

/// Time after which an idle connection gives up its buffers: a client that sends request after
/// request is not delayed by allocating them again, and idle connections take them for moments only.
const RELEASE_AFTER: Duration = Duration::from_secs(1);

/// After a larger head the buffers are given up at once: they may be 200 KB.
const LARGE_HEAD_BYTES: usize = 8 * 1024;

/// The state of a connection, shared by its I/O and its requests.
#[derive(Clone)]
pub struct ConnectionState(Arc<Mutex<State>>);

struct State {
    /// Whether a request is being handled; otherwise the next head is awaited.
    answering: bool,
    /// When the awaited head began, or may have begun; with HTTP/2, any frame.
    head_since: Option<Instant>,
    /// With HTTP/2: whether the frame that has begun is not of a head.
    is_other_frame: bool,
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
    /// The state of a connection that begins now.
    pub fn new() -> Self {
        let now = Instant::now();
        ConnectionState(Arc::new(Mutex::new(State {
            answering: false,
            head_since: Some(now),
            is_other_frame: false,
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

    /// The handshake is complete: from now on the first head has its time.
    pub fn secured(&self) {
        let mut state = self.state();
        let now = Instant::now();
        state.head_since = Some(now);
        state.idle_since = now;
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
    pub fn hide_eof(&self, cx: &Context<'_>) -> bool {
        let mut state = self.state();
        let is_asked = (state.answering && !state.waiting) || state.framing.has_next();
        let is_hidden = is_asked && state.framing.is_between_requests();
        if is_hidden {
            state.ended = Some(cx.waker().clone());
        }
        is_hidden
    }

    /// Records that bytes have arrived below TLS. Also those of a part of a record, which is nothing above
    /// it yet, begin a head: otherwise a client could leave such parts in memory as long as it likes.
    pub fn arrived(&self) {
        let mut state = self.state();
        if !state.answering {
            state.head_since.get_or_insert_with(Instant::now);
        }
    }

    /// Records received bytes.
    pub fn read(&self, bytes: &[u8]) {
        let mut state = self.state();
        state.framing.follow(bytes);
        if !state.answering && !bytes.is_empty() {
            state.head_since.get_or_insert_with(Instant::now);
        }
    }

    /// Records where the bytes of HTTP/2 end that were read.
    pub fn read_frames(&self, end: FramesEnd) {
        let mut state = self.state();
        let now = Instant::now();
        let FramesEnd { part, is_new } = end;
        state.is_other_frame = part != Some(FramePart::Head);
        state.head_since = match (part, state.head_since) {
            (None, _) => None,
            (Some(_), Some(since)) if !is_new => Some(since),
            (Some(_), _) => Some(now),
        };
    }

    /// With HTTP/2: until when a frame that has begun must have come, and until when some of what is
    /// written must be accepted.
    pub fn frames_good_until(&self) -> Option<Instant> {
        let state = self.state();
        let limit = if state.is_other_frame { FRAME_TIMEOUT } else { HEAD_TIMEOUT };
        let frame = state.head_since.map(|since| since + limit);
        let written = state.blocked_since.map(|since| since + WRITE_TIMEOUT);
        frame.into_iter().chain(written).min()
    }

    /// Whether the client has accepted nothing for too long.
    pub fn is_stuck(&self) -> bool {
        self.state().blocked_since.is_some_and(|since| since.elapsed() >= WRITE_TIMEOUT)
    }

    /// Records that something of a response is written.
    pub fn write(&self) {
        let mut state = self.state();
        if state.sent == Sent::Nothing {
            state.sent = Sent::Part;
        }
    }

    /// Records whether the client has accepted bytes. Below TLS: what that has taken is not sent yet.
    pub fn sent(&self, result: &Poll<io::Result<usize>>) {
        let mut state = self.state();
        match result {
            Poll::Ready(_) => state.blocked_since = None,
            Poll::Pending => {
                state.blocked_since.get_or_insert_with(Instant::now);
            }
        }
    }

    /// Whether the awaited head begins with a line that is longer than the limit of a target
    /// allows.
    pub fn is_long_line(&self) -> bool {
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
    pub fn flushed(&self) {
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
