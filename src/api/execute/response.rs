//! Responses of the executor.

use bytes::Bytes;

use super::download::DownloadStream;
use super::etag::Etag;
use super::stream::TextStream;
use super::wait::ItemStream;

/// The response to a request that was not refused.
pub struct Response {
    pub body: Body,
    /// The entity tag, if it has one.
    pub etag: Option<Etag>,
    /// Whether it is the stored answer of an earlier identical request.
    pub is_replayed: bool,
    /// Whether only the fact that the request was executed is stored for repetitions, not this.
    pub is_not_stored: bool,
}

/// The body of a response.
pub enum Body {
    Json(Bytes),
    /// Plain text.
    Text(Bytes),
    /// None: the request asked for the headers of items that only reading would take, as an event
    /// stream or not.
    Untaken {
        is_stream: bool,
    },
    /// None: the client has the current representation.
    NotModified,
    /// An indefinite stream of items, as events of this name.
    Items(&'static str, Box<ItemStream>),
    /// What another server says, as it comes.
    TextStream(Box<TextStream>),
    /// Bytes of another media type, piece by piece.
    Download(DownloadStream),
}

impl Response {
    /// JSON without a tag.
    pub(super) fn json(body: impl Into<Bytes>) -> Self {
        Response {
            body: Body::Json(body.into()),
            etag: None,
            is_replayed: false,
            is_not_stored: false,
        }
    }

    /// A body with this tag; `None` if the client has it.
    pub(super) fn tagged(etag: Etag, body: Option<Body>) -> Self {
        let body = body.unwrap_or(Body::NotModified);
        Response { body, etag: Some(etag), is_replayed: false, is_not_stored: false }
    }

    /// Another body, without a tag.
    pub(super) fn of(body: Body) -> Self {
        Response { body, etag: None, is_replayed: false, is_not_stored: false }
    }
}
