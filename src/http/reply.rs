//! The bodies of answers.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;

/// A body: whole, or events as they come.
pub enum Reply {
    /// All of it.
    Whole(Full<Bytes>),
    /// Events.
    Events(mpsc::Receiver<Bytes>),
}

impl Default for Reply {
    fn default() -> Self {
        Reply::Whole(Full::default())
    }
}

impl Reply {
    /// A body of events.
    pub fn events(events: mpsc::Receiver<Bytes>) -> Self {
        Reply::Events(events)
    }

    /// Whether it ends only when somebody hangs up.
    pub fn is_endless(&self) -> bool {
        matches!(self, Reply::Events(_))
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            Reply::Whole(whole) => Pin::new(whole).poll_frame(cx),
            Reply::Events(events) => {
                events.poll_recv(cx).map(|event| event.map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Reply::Whole(whole) => whole.is_end_stream(),
            Reply::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Reply::Whole(whole) => whole.size_hint(),
            Reply::Events(_) => SizeHint::default(),
        }
    }
}

/// An answer of JSON.
pub fn json(body: Full<Bytes>) -> Response<Reply> {
    let mut response = Response::new(Reply::Whole(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Answers are for whoever asked; a tag still lets them ask whether theirs is current.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}

/// The same from bytes.
pub fn json_bytes(body: Vec<u8>) -> Response<Reply> {
    json(Full::new(Bytes::from(body)))
}
