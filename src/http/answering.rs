//! A request on its way to the handler, and its response on the way back, in whichever version of HTTP.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, STRICT_TRANSPORT_SECURITY};
use hyper::http::request::Parts;
use hyper::{Request, Response, StatusCode};
use uuid::Uuid;

use super::asker::Asker;
use super::connection_state::MAX_TARGET_BYTES;
use super::context::{ServerContext, may_be_strict};
use super::framing::Head;
use super::handler::answer;
use super::headers::{has_known_coding, has_valid_host};
use super::listener::{Accepted, Speaks};
use super::metrics::Endpoint;
use super::response_body::ResponseBody;
use super::tls::OverTls;
use super::{body, problem, wire};
use crate::base::Error;

/// Once a response was sent over TLS whose certificate browsers trust: a year.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
const CONTENT_TYPE_OPTIONS: HeaderName = HeaderName::from_static("x-content-type-options");

/// How the requests of a connection arrive.
pub struct Arrival {
    pub accepted: Accepted,
    pub over_tls: Option<OverTls>,
}

/// What a request was answered.
pub struct Answered {
    pub response: Response<ResponseBody>,
    /// Whether its body was not read to its end, or is not to be: nothing can follow it.
    pub is_cut: bool,
}

/// Answers a request of which this is known of its head.
pub async fn answered(
    context: &Arc<ServerContext>,
    request: Request<Incoming>,
    Arrival { accepted, over_tls }: &Arrival,
    asker: Asker,
    known: Head,
) -> Answered {
    let (mut head, mut body) = request.into_parts();
    head.extensions.insert(asker);
    if let Some(over_tls) = over_tls {
        head.extensions.insert(over_tls.clone());
    }
    let id = request_id(&head.headers, context);
    let answered_here = match (refuse(&head, known), &accepted.speaks) {
        (Some(error), _) => Some(problem::reply(&error, &id)),
        (None, Speaks::Redirect(redirect)) => Some(redirect.answer(&head, &id)),
        (None, Speaks::Http | Speaks::Https(_)) => None,
    };
    let mut is_cut = answered_here.is_some();
    let mut response = match answered_here {
        None => answer(context, &head, &mut body, accepted.peer.ip(), &id).await,
        Some(response) => counted(context, response),
    };
    // A client that was too slow is not waited for again.
    is_cut |= response.status() == StatusCode::REQUEST_TIMEOUT
        || !body::drain(&head.headers, &mut body).await;
    complete(&mut response, &head.headers, over_tls.as_ref(), &id);
    Answered { response, is_cut }
}

/// The answer to a request that is refused before its head is looked at.
pub fn refused(
    context: &Arc<ServerContext>,
    headers: &HeaderMap,
    arrival: &Arrival,
    error: &Error,
) -> Response<ResponseBody> {
    let id = request_id(headers, context);
    let mut response = counted(context, problem::reply(error, &id));
    complete(&mut response, headers, arrival.over_tls.as_ref(), &id);
    response
}

/// Counts the answer to a request that no handler has seen.
fn counted(context: &ServerContext, response: Response<ResponseBody>) -> Response<ResponseBody> {
    let (status, unmatched) = (response.status().as_u16(), Endpoint::Unmatched);
    context.metrics.answered(unmatched, status, Duration::ZERO);
    response
}

/// Adds the headers that every response has.
fn complete(
    response: &mut Response<ResponseBody>,
    asked: &HeaderMap,
    over_tls: Option<&OverTls>,
    id: &str,
) {
    let headers = response.headers_mut();
    if let Ok(id) = HeaderValue::from_str(id) {
        headers.insert(REQUEST_ID, id);
    }
    headers.insert(CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    if over_tls.is_some_and(|tls| tls.is_strict()) && may_be_strict(asked) {
        headers.insert(STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
}

/// Refuses requests that must not reach a route.
fn refuse(head: &Parts, known: Head) -> Option<Error> {
    let target = head.uri.path_and_query().map_or(0, |target| target.as_str().len());
    if target > MAX_TARGET_BYTES {
        return Some(wire::target_too_long());
    }
    match known {
        Head::Good if !has_valid_host(head.version, &head.headers) => Some(Error::invalid_at(
            "Host",
            "must be given once: the name or address of this server, optionally with a port",
        )),
        Head::Good if !has_known_coding(&head.headers) => {
            Some(Error::invalid_at("Transfer-Encoding", "must be chunked; send the body uncoded"))
        }
        Head::Good => None,
        Head::TooLarge => Some(wire::head_too_large()),
        Head::BothLengths => Some(Error::invalid_at(
            "",
            "a request has either Content-Length or Transfer-Encoding, not both",
        )),
    }
}

/// The id that was sent, or a new one (reference: conventions, "Request ids").
fn request_id(headers: &HeaderMap, context: &ServerContext) -> String {
    let sent = headers.get(&REQUEST_ID).map(HeaderValue::as_bytes).filter(|id| {
        (1..=128).contains(&id.len()) && id.iter().all(|byte| (0x20..=0x7E).contains(byte))
    });
    match sent.and_then(|id| std::str::from_utf8(id).ok()) {
        Some(id) => id.into(),
        None => {
            let id = context.executor.store.clock().new_id();
            id.as_hyphenated().encode_lower(&mut Uuid::encode_buffer()).to_string()
        }
    }
}
