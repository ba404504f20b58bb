//! The handler of a request: from its head and body to a response or an error response.

use std::net::IpAddr;

use hyper::body::Incoming;
use hyper::header::{HeaderValue, VARY};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::body::{self, Sent};
use super::context::Context;
use super::headers::{
    idempotency_key, is_lenient, preconditions, raw_credential, wants_stream, wants_text,
};
use super::reply::Reply;
use super::router::{Match, Missing, normalized};
use super::wire::ConnectionState;
use super::{pages, problem, response};
use crate::api::execute::{Arguments, Request};
use crate::base::{Error, Kind, Result};

/// Handles a request; errors become responses.
pub async fn answer(
    context: &Context,
    head: &Parts,
    body: &mut Incoming,
    peer: IpAddr,
    request_id: &str,
) -> Response<Reply> {
    let address = context.address(peer, &head.headers);
    let answered = dispatch(context, head, body, address, request_id).await;
    let mut response = answered.unwrap_or_else(|error| refusal(&error, request_id));
    if is_lenient(&head.headers) {
        response
            .headers_mut()
            .insert("preference-applied", HeaderValue::from_static("handling=lenient"));
    }
    let status = response.status().as_u16();
    context.metrics.answered(status);
    let (method, path) = (&head.method, head.uri.path());
    tracing::debug!(request_id, %method, path, status, "answered");
    response
}

/// Dispatches between the API and the pages.
async fn dispatch(
    context: &Context,
    head: &Parts,
    body: &mut Incoming,
    address: IpAddr,
    request_id: &str,
) -> Result<Response<Reply>> {
    let path = &*normalized(head.uri.path());
    if context.executor.is_setup_required() && !pages::is_open_before_setup(context, path) {
        context.executor.require_setup()?;
    }
    match path.strip_prefix("/api") {
        Some("/openapi.json") => pages::document(context, head, request_id),
        Some(below) if below.starts_with('/') => {
            handle(context, head, body, below, address, request_id).await
        }
        _ => pages::page(context, head, path, address, request_id).await,
    }
}

/// Handles a request below `/api`: finds its route and executes it. The body is read after the
/// caller is authenticated.
async fn handle(
    context: &Context,
    head: &Parts,
    incoming: &mut Incoming,
    path: &str,
    address: IpAddr,
    request_id: &str,
) -> Result<Response<Reply>> {
    let Match { route, params, reading } = match context.router.find(&head.method, path) {
        Ok(found) => found,
        Err(Missing::Path) => return Err(no_such_path()),
        Err(Missing::Method(allowed)) => {
            return Ok(problem::method_not_allowed(&allowed, request_id));
        }
    };
    let headers = &head.headers;
    let mut request = Request {
        route,
        reading,
        params,
        query: head.uri.query().unwrap_or_default(),
        arguments: Arguments::Query,
        credential: raw_credential(headers),
        preconditions: preconditions(headers),
        idempotency_key: None,
        is_lenient: is_lenient(headers),
        wants_text: route.operation.has_text && wants_text(headers),
        is_head: head.method == Method::HEAD,
        is_stream: route.waits() && wants_stream(headers),
        address,
        link_base: &context.link_base(headers),
        request_id,
    };
    let caller = context.executor.authenticate(&request).await?;
    let anonymous = caller.is_anonymous().then_some(&context.anonymous);
    let Sent { arguments, _reservation } = body::read(route, headers, incoming, anonymous).await?;
    request.arguments = arguments;
    request.idempotency_key = idempotency_key(headers, route.method)?;
    if route.waits()
        && let Some(progress) = head.extensions.get::<ConnectionState>()
    {
        progress.wait();
    }
    let mut response = response::response(context.executor.execute(&request, caller).await?);
    if route.operation.has_text {
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    }
    Ok(response)
}

fn no_such_path() -> Error {
    Error::new(Kind::NotFound, "no_such_path", "there is no such path; see /api/openapi.json")
}

/// The response to an error; logs its internal details.
fn refusal(error: &Error, request_id: &str) -> Response<Reply> {
    if let Some(detail) = error.log_detail() {
        match error.kind() {
            Kind::Internal | Kind::Upstream | Kind::Busy => {
                tracing::error!(request_id, code = error.code(), detail, "a request failed");
            }
            // Clients can cause any number of these.
            _ => tracing::debug!(request_id, code = error.code(), detail, "a request failed"),
        }
    }
    problem::reply(error, request_id)
}
