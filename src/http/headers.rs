//! The request headers that affect the execution of a route.

use hyper::header::{
    ACCEPT, AUTHORIZATION, HeaderMap, HeaderName, HeaderValue, IF_MATCH, IF_NONE_MATCH,
};

use crate::api::Method;
use crate::api::execute::Preconditions;
use crate::auth::RawCredential;
use crate::base::{Error, Result};

const API_KEY: HeaderName = HeaderName::from_static("x-api-key");
const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// The credential of a request.
pub fn raw_credential(headers: &HeaderMap) -> RawCredential {
    RawCredential::from_headers(
        headers.get_all(API_KEY).iter().map(HeaderValue::as_bytes),
        headers.get_all(AUTHORIZATION).iter().map(HeaderValue::as_bytes),
    )
}

/// `If-Match` and `If-None-Match`.
pub fn preconditions(headers: &HeaderMap) -> Preconditions<'_> {
    let all = |name: HeaderName| headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    Preconditions { if_match: all(IF_MATCH), if_none_match: all(IF_NONE_MATCH) }
}

/// Whether the client accepts a stream of server-sent events.
pub fn wants_stream(headers: &HeaderMap) -> bool {
    let accepts = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accepts.is_some_and(|accept| accept.contains("text/event-stream"))
}

/// The `Idempotency-Key` of a POST.
///
/// # Errors
/// 400 if it is malformed or sent twice.
pub fn idempotency_key(headers: &HeaderMap, method: Method) -> Result<Option<&[u8]>> {
    let mut sent = headers.get_all(IDEMPOTENCY_KEY).iter().map(HeaderValue::as_bytes);
    let (Some(key), true) = (sent.next(), method == Method::Post) else { return Ok(None) };
    let good = (1..=255).contains(&key.len()) && key.iter().all(|byte| (0x20..0x7F).contains(byte));
    if good && sent.next().is_none() {
        return Ok(Some(key));
    }
    Err(Error::invalid_at(
        "Idempotency-Key",
        "must be 1 to 255 printable ASCII characters, given once",
    ))
}
