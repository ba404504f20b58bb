//! Error responses, and the one mapping from kinds of errors to statuses
//! (reference: conventions, "Statuses").

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ALLOW, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Response, StatusCode};
use serde::Serialize;

use super::response_body::{ResponseBody, json};
use crate::base::{Error, Issue, Kind, ReachedLimit};

/// The status of a kind of error.
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

/// The body of every error (reference: conventions, "Errors").
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Problem<'a> {
    message: &'a str,
    code: &'a str,
    request_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    issues: Option<Vec<One<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    challenge: Option<&'a str>,
}

#[derive(Serialize)]
struct One<'a> {
    path: &'a str,
    message: &'a str,
}

/// The body of an error response.
pub fn body(error: &Error, request_id: &str) -> Vec<u8> {
    let all = error.issues().iter().map(|Issue { path, message }| One { path, message });
    let issues = Some(all.collect::<Vec<_>>()).filter(|issues| !issues.is_empty());
    let problem = Problem {
        message: error.message(),
        code: error.code(),
        request_id,
        path: error.path(),
        issues,
        challenge: error.continuation(),
    };
    serde_json::to_vec(&problem).unwrap_or_default()
}

/// How to authenticate, as a 401 says: by a session or, in the same way, an API key, unless its error
/// asks for another scheme.
fn challenge(error: &Error) -> HeaderValue {
    let scheme = error.challenge().unwrap_or("Bearer");
    let challenge = format!("{scheme} realm=\"roadstead\"");
    HeaderValue::try_from(challenge).unwrap_or(HeaderValue::from_static("Bearer"))
}

/// The response to an error.
pub fn reply(error: &Error, request_id: &str) -> Response<ResponseBody> {
    let mut response = json(Full::new(Bytes::from(body(error, request_id))));
    mark(error, &mut response);
    response
}

/// Sets the status and the headers of a response to an error.
pub fn mark(error: &Error, response: &mut Response<ResponseBody>) {
    *response.status_mut() = status(error.kind());
    if let Some(secs) = error.retry_after_secs() {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(secs));
    }
    if error.kind() == Kind::Unauthenticated {
        response.headers_mut().insert(WWW_AUTHENTICATE, challenge(error));
    }
    add_limit_headers(error, response.headers_mut());
}

/// The response to a method that a path does not support; `allowed` are those that it does.
pub fn method_not_allowed(allowed: &str, request_id: &str) -> Response<ResponseBody> {
    let error = Error::new(
        Kind::Method,
        "method_not_allowed",
        "the path does not support this method; see the Allow header",
    );
    let mut response = reply(&error, request_id);
    if let Ok(allowed) = HeaderValue::from_str(allowed) {
        response.headers_mut().insert(ALLOW, allowed);
    }
    response
}

/// Adds the headers of a reached rate limit (`RateLimit`, `RateLimit-Policy`).
fn add_limit_headers(error: &Error, headers: &mut HeaderMap) {
    let Some(ReachedLimit { name, quota, window_secs }) = error.reached() else { return };
    let reset_secs = error.retry_after_secs().unwrap_or(1);
    let rate_limit = [
        ("ratelimit-policy", format!("\"{name}\";q={quota};w={window_secs}")),
        ("ratelimit", format!("\"{name}\";r=0;t={reset_secs}")),
    ];
    for (name, value) in rate_limit {
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(name, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;
    use crate::api::execute::RateLimits;
    use crate::base::Result;

    #[test]
    fn a_429_names_the_limit_that_was_reached() {
        let limits = RateLimits::new(1);
        let policy = |refused: Error| {
            let mut headers = HeaderMap::new();
            add_limit_headers(&refused, &mut headers);
            ["ratelimit-policy", "ratelimit"]
                .map(|name| headers[name].to_str().unwrap().to_string())
        };
        let refused = |ask: &dyn Fn() -> Result<()>| (0..20).find_map(|_| ask().err()).unwrap();
        let usual = refused(&|| limits.request(None, Ipv4Addr::LOCALHOST.into()));
        assert_eq!(policy(usual), ["\"default\";q=1;w=1", "\"default\";r=0;t=1"]);
        let sign_in =
            refused(&|| limits.sign_in("ada@acme.test", false, Ipv4Addr::LOCALHOST.into()));
        assert_eq!(policy(sign_in), ["\"sign-in\";q=10;w=60", "\"sign-in\";r=0;t=6"]);
    }
}
