//! How far the response of a stream is sent. hyper takes a whole body at once and then waits for its
//! client to accept it, without a limit of time; a client can say of each stream that it accepts nothing.

use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use bytes::{Buf, Bytes};
use hyper::body::{Body, Frame, SizeHint};

use crate::http::connection_state::WRITE_TIMEOUT;
use crate::http::response_body::{BodyAborted, ResponseBody};

/// How much of a body a connection takes ahead of what its client accepts. What is larger stays with its
/// stream until it is sent, so that the stream alone can be reset if its client does not read.
pub const MAX_UNSENT_BYTES: usize = 16 * 1024;

/// How far the response of a stream is sent, shared by its parts and its task.
#[derive(Default)]
pub struct Sending(Mutex<State>);

#[derive(Default)]
struct State {
    /// The part of a body that is not accepted: since when nothing of it was.
    stopped_since: Option<Instant>,
    /// Who waits until it is.
    task: Option<Waker>,
}

impl Sending {
    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is no part that is not accepted.
    pub fn poll_sent(&self, cx: &Context<'_>) -> Poll<()> {
        let mut state = self.state();
        if state.stopped_since.is_none() {
            return Poll::Ready(());
        }
        if !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
            state.task = Some(cx.waker().clone());
        }
        Poll::Pending
    }

    /// When to look next whether its client reads.
    pub fn look_at(&self) -> Instant {
        self.state().stopped_since.unwrap_or_else(Instant::now) + WRITE_TIMEOUT
    }

    /// Whether its client does not read.
    pub fn is_stuck(&self) -> bool {
        self.state().stopped_since.is_some_and(|since| since.elapsed() >= WRITE_TIMEOUT)
    }
}

/// A part of a body on its way to the client.
pub struct Part {
    bytes: Bytes,
    sending: Arc<Sending>,
}

impl Part {
    fn new(bytes: Bytes, sending: &Arc<Sending>) -> Self {
        sending.state().stopped_since = Some(Instant::now());
        Part { bytes, sending: sending.clone() }
    }
}

impl Buf for Part {
    fn remaining(&self) -> usize {
        self.bytes.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.bytes
    }

    fn advance(&mut self, count: usize) {
        self.bytes.advance(count);
        self.sending.state().stopped_since = Some(Instant::now());
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let mut state = self.sending.state();
        state.stopped_since = None;
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

/// The body of a response, of which the next part follows once the one before is accepted.
pub struct Outgoing {
    body: ResponseBody,
    sending: Arc<Sending>,
    /// Whether it ends with its last part: otherwise behind it, so that the stream is there until then.
    ends_with_last: bool,
}

impl Outgoing {
    /// The body of a response.
    pub fn new(body: ResponseBody, sending: Arc<Sending>) -> Self {
        let small = |bytes| bytes <= MAX_UNSENT_BYTES as u64;
        let ends_with_last = body.size_hint().exact().is_some_and(small);
        Outgoing { body, sending, ends_with_last }
    }
}

impl Body for Outgoing {
    type Data = Part;
    type Error = BodyAborted;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Part>, BodyAborted>>> {
        if self.sending.poll_sent(cx).is_pending() {
            return Poll::Pending;
        }
        let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
        let sending = &self.sending;
        let part = |frame: Frame<Bytes>| frame.map_data(|bytes| Part::new(bytes, sending));
        Poll::Ready(frame.map(|frame| frame.map(part)))
    }

    fn is_end_stream(&self) -> bool {
        self.ends_with_last && self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::Full;

    use super::*;

    fn poll(body: &mut Outgoing) -> Poll<Option<Part>> {
        let mut cx = Context::from_waker(Waker::noop());
        let frame = Pin::new(body).poll_frame(&mut cx);
        frame.map(|frame| frame.map(|frame| frame.unwrap().into_data().ok().unwrap()))
    }

    fn whole(bytes: usize) -> (Outgoing, Arc<Sending>) {
        let sending = Arc::<Sending>::default();
        let body = ResponseBody::Whole(Full::from(vec![b'x'; bytes]));
        (Outgoing::new(body, sending.clone()), sending)
    }

    #[test]
    fn a_small_body_ends_with_its_bytes_and_a_large_one_once_they_are_accepted() {
        for (bytes, is_small) in
            [(1, true), (MAX_UNSENT_BYTES, true), (MAX_UNSENT_BYTES + 1, false)]
        {
            let (mut body, sending) = whole(bytes);
            assert!(!body.is_end_stream());
            let Poll::Ready(Some(part)) = poll(&mut body) else { panic!("it is there") };
            assert_eq!(part.remaining(), bytes);
            assert_eq!(body.is_end_stream(), is_small);
            assert!(poll(&mut body).is_pending(), "the part is not accepted yet");
            drop(part);
            assert!(sending.poll_sent(&Context::from_waker(Waker::noop())).is_ready());
            assert!(matches!(poll(&mut body), Poll::Ready(None)));
        }
        assert!(whole(0).0.is_end_stream());
    }

    #[test]
    fn what_waits_for_more_to_send_does_not_count_as_unread() {
        let (mut body, sending) = whole(100);
        let before = Instant::now();
        assert!(sending.look_at() >= before + WRITE_TIMEOUT);
        let Poll::Ready(Some(mut part)) = poll(&mut body) else { panic!("it is there") };
        let begun = sending.look_at();
        while Instant::now() == begun - WRITE_TIMEOUT {}
        part.advance(10);
        assert!(sending.look_at() > begun, "some of it was accepted");
        assert!(!sending.is_stuck());
    }
}
