//! Translates the executor's responses to statuses, headers and bytes.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue};
use hyper::{Response, StatusCode};
use tokio::sync::mpsc;

use super::response_body::{BodyAborted, ResponseBody, json};
use super::sse;
use crate::api::execute::{self, Body, DownloadStream};

/// Limit of the pieces of a download buffered for a slow client.
const MAX_UNREAD: usize = 1;
/// A client that takes no piece of a download for this long is considered gone.
const MAX_STALL: Duration = Duration::from_secs(30);

/// The HTTP response for a response of the executor.
pub fn response(response: execute::Response) -> Response<ResponseBody> {
    let mut answer = match response.body {
        Body::Json(body) => json(Full::new(body)),
        Body::NotModified => not_modified(),
        Body::Text(text) => plain(text),
        Body::Untaken { is_stream: true } => sse::empty_stream(),
        Body::Untaken { is_stream: false } => json_of_unknown_length(),
        Body::Items(event, items) => sse::stream(event, *items),
        Body::TextStream(text) => sse::text_stream(*text),
        Body::Download(stream) => download(stream),
    };
    let headers = answer.headers_mut();
    if let Some(etag) = response.etag
        && let Ok(etag) = HeaderValue::from_bytes(etag.as_bytes())
    {
        headers.insert(ETAG, etag);
    }
    if response.is_replayed {
        headers.insert("idempotency-replayed", HeaderValue::from_static("true"));
    }
    if response.is_not_stored {
        headers.insert("idempotency-stored", HeaderValue::from_static("false"));
    }
    answer
}

fn plain(text: Bytes) -> Response<ResponseBody> {
    let mut response = json(Full::new(text));
    let media_type = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, media_type);
    response
}

fn json_of_unknown_length() -> Response<ResponseBody> {
    json(Full::default()).map(|_| ResponseBody::Stream(mpsc::channel(1).1))
}

/// A response without a body, for a client that has it.
pub fn not_modified() -> Response<ResponseBody> {
    let mut response = json(Full::default());
    *response.status_mut() = StatusCode::NOT_MODIFIED;
    response.headers_mut().remove(CONTENT_TYPE);
    response
}

/// Pieces are read as fast as the client takes them. An error breaks the response off, so that a
/// client cannot take a part for the whole.
fn download(mut stream: DownloadStream) -> Response<ResponseBody> {
    let media_type = HeaderValue::from_static(stream.media_type);
    let (pieces, body) = mpsc::channel::<Result<Bytes, BodyAborted>>(MAX_UNREAD);
    tokio::spawn(async move {
        loop {
            let piece = match stream.next().await {
                Ok(Some(piece)) => Ok(piece),
                Ok(None) => return,
                Err(error) => {
                    tracing::debug!(%error, "a download broke off");
                    Err(BodyAborted)
                }
            };
            let is_last = piece.is_err();
            if pieces.send_timeout(piece, MAX_STALL).await.is_err() || is_last {
                return;
            }
        }
    });
    let mut response = Response::new(ResponseBody::Stream(body));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, media_type);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("private, no-cache"));
    response
}
