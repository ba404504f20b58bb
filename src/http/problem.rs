//! From a kind of error to a status, in the one place where that is decided (contract §1).

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{HeaderValue, RETRY_AFTER};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::{Reply, json};
use crate::base::{Error, Issue, Kind};

/// The status of a kind.
pub fn status(kind: Kind) -> StatusCode {
    match kind {
        Kind::Invalid => StatusCode::BAD_REQUEST,
        Kind::Unauthenticated => StatusCode::UNAUTHORIZED,
        Kind::Forbidden => StatusCode::FORBIDDEN,
        Kind::NotFound => StatusCode::NOT_FOUND,
        Kind::Method => StatusCode::METHOD_NOT_ALLOWED,
        Kind::Timeout => StatusCode::REQUEST_TIMEOUT,
        Kind::Conflict => StatusCode::CONFLICT,
        Kind::Precondition => StatusCode::PRECONDITION_FAILED,
        Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        Kind::TargetTooLong => StatusCode::URI_TOO_LONG,
        Kind::Media => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        Kind::Limited => StatusCode::TOO_MANY_REQUESTS,
        Kind::HeadTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        Kind::Upstream => StatusCode::BAD_GATEWAY,
        Kind::Busy => StatusCode::SERVICE_UNAVAILABLE,
    }
}

/// The body of every error (shapes, `Problem`).
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem<'a> {
    message: &'a str,
    code: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    issues: Option<Vec<One<'a>>>,
}

#[derive(Serialize)]
struct One<'a> {
    path: &'a str,
    message: &'a str,
}

/// The bytes of an error's body.
pub fn body(error: &Error, request_id: &str) -> Vec<u8> {
    let all = error.issues().iter().map(|Issue { path, message }| One { path, message });
    let issues = Some(all.collect::<Vec<_>>()).filter(|issues| !issues.is_empty());
    let problem = Problem { message: error.message(), code: error.code(), request_id, issues };
    serde_json::to_vec(&problem).unwrap_or_default()
}

/// The answer to an error.
pub fn reply(error: &Error, request_id: &str) -> Response<Reply> {
    let mut response = json(Full::new(Bytes::from(body(error, request_id))));
    *response.status_mut() = status(error.kind());
    if let Some(secs) = error.retry_after_secs() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
    }
    response
}
