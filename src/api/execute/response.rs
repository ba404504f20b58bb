//! What came of a request.

use bytes::Bytes;

use super::download::DownloadStream;
use super::etag::Etag;
use super::wait::ItemStream;

/// What came of a request that was not refused.
pub struct Response {
    /// The answer.
    pub body: Body,
    /// The tag of an answer that has one.
    pub etag: Option<Etag>,
    /// Whether it is what the same request was answered before.
    pub is_replayed: bool,
}

/// An answer.
pub enum Body {
    /// JSON, whole.
    Json(Bytes),
    /// The caller has it already.
    NotModified,
    /// Items as they come, without end; the name is that of their events.
    Items(&'static str, ItemStream),
    /// Bytes of another media type, piece by piece.
    Download(DownloadStream),
}

impl Response {
    /// JSON without a tag.
    pub(super) fn json(body: impl Into<Bytes>) -> Self {
        Response { body: Body::Json(body.into()), etag: None, is_replayed: false }
    }

    /// JSON with this tag; none of it if the caller has it.
    pub(super) fn tagged(etag: Etag, body: Option<Bytes>) -> Self {
        let body = body.map_or(Body::NotModified, Body::Json);
        Response { body, etag: Some(etag), is_replayed: false }
    }

    /// An answer of another kind.
    pub(super) fn of(body: Body) -> Self {
        Response { body, etag: None, is_replayed: false }
    }
}
