//! The bodies of responses.

use std::fmt;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::body::{Body, Frame, SizeHint};
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;

/// A response body.
pub enum ResponseBody {
    /// Complete.
    Whole(Full<Bytes>),
    /// In pieces, as they become available.
    Stream(mpsc::Receiver<Result<Bytes, BodyAborted>>),
}

/// The rest of a body cannot be read: the connection is closed before its end.
#[derive(Debug)]
pub struct BodyAborted;

impl fmt::Display for BodyAborted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the rest of the body cannot be read")
    }
}

impl std::error::Error for BodyAborted {}

impl Default for ResponseBody {
    fn default() -> Self {
        ResponseBody::Whole(Full::default())
    }
}

impl ResponseBody {
    /// Whether it is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self, ResponseBody::Stream(_))
    }
}

impl Body for ResponseBody {
    type Data = Bytes;
    type Error = BodyAborted;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        match self.get_mut() {
            ResponseBody::Whole(whole) => {
                Pin::new(whole).poll_frame(cx).map_err(|never| match never {})
            }
            ResponseBody::Stream(pieces) => {
                pieces.poll_recv(cx).map(|piece| piece.map(|bytes| bytes.map(Frame::data)))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ResponseBody::Whole(whole) => whole.is_end_stream(),
            ResponseBody::Stream(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ResponseBody::Whole(whole) => whole.size_hint(),
            ResponseBody::Stream(_) => SizeHint::default(),
        }
    }
}

/// A JSON response.
pub fn json(body: Full<Bytes>) -> Response<ResponseBody> {
    let mut response = Response::new(ResponseBody::Whole(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Responses are private to the client, which can still revalidate them by their tags.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}
