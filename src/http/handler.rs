//! The handler of a request: from its head and body to a response or an error response.

use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use hyper::body::Incoming;
use hyper::header::{HeaderMap, HeaderName, HeaderValue, VARY};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::body::{self, Sender, Sent};
use super::context::ServerContext;
use super::headers::{
    idempotency_key, is_lenient, last_event_id, preconditions, raw_credential, user_agent,
    wants_stream, wants_text,
};
use super::metrics::endpoint_of;
use super::observed::Observed;
use super::protocol::begin_waiting;
use super::response_body::ResponseBody;
use super::router::{Match, Missing, normalized};
use super::site::{SiteBody, SiteReply, SiteRequest, wants_html};
use super::tls::OverTls;
use super::{pages, problem, response};
use crate::api::Origin;
use crate::api::execute::{Arguments, Request};
use crate::base::{Error, Kind, LogLimit, Result, TraceParent};

/// Where a request comes from.
#[derive(Clone, Copy)]
struct Client {
    /// The other end of the connection.
    peer: IpAddr,
    /// The client, if a trusted proxy says which it is.
    address: IpAddr,
}

/// Handles a request; errors become responses.
pub async fn answer(
    context: &ServerContext,
    head: &Parts,
    body: &mut Incoming,
    peer: IpAddr,
    request_id: &str,
) -> Response<ResponseBody> {
    let address = context.address(peer, &head.headers);
    let random = context.spans.as_ref().map(|_| context.executor.store.clock().random());
    let mut observed = Observed::begin(trace_parent(&head.headers), random);
    let client = Client { peer, address };
    let answered = dispatch(context, head, body, client, request_id, &mut observed).await;
    let mut response = answered.unwrap_or_else(|error| {
        observed.failed(context, &error, address, request_id);
        log_failure(&error, request_id, observed.trace);
        if wants_html(&head.headers) && !normalized(head.uri.path()).starts_with("/api/") {
            return context.site.error_page(&error, request_id);
        }
        problem::reply(&error, request_id)
    });
    if is_lenient(&head.headers) {
        response
            .headers_mut()
            .insert("preference-applied", HeaderValue::from_static("handling=lenient"));
    }
    observed.answered(context, head, response.status().as_u16(), address, request_id);
    response
}

/// Dispatches between the API and the pages.
async fn dispatch(
    context: &ServerContext,
    head: &Parts,
    body: &mut Incoming,
    client: Client,
    request_id: &str,
    observed: &mut Observed,
) -> Result<Response<ResponseBody>> {
    let path = &*normalized(head.uri.path());
    observed.endpoint = pages::endpoint(context, &head.method, path);
    if context.executor.coordination.is_setup_required()
        && !pages::is_open_before_setup(context, path)
    {
        context.executor.require_setup()?;
    }
    if let Some(protocol) = context.protocol(path) {
        if head.method != Method::POST {
            return Ok(pages::not_allowed("POST", request_id));
        }
        let request = site_request(context, head, body, path, client, request_id, observed.trace);
        return Ok(replied(head, protocol.answer(request).await, observed));
    }
    match path.strip_prefix("/api") {
        Some("/openapi.json") => pages::document(context, head, request_id),
        Some(below) if below.starts_with('/') => {
            handle(context, head, body, below, client.address, request_id, observed).await
        }
        _ => match context.site.find(path) {
            Some(found) if !found.takes(&head.method) => {
                Ok(pages::not_allowed(found.allowed(), request_id))
            }
            Some(_) => {
                let request =
                    site_request(context, head, body, path, client, request_id, observed.trace);
                Ok(replied(head, context.site.answer(request).await, observed))
            }
            None => pages::page(context, head, path, client.peer, request_id).await,
        },
    }
}

const TRACE_PARENT: HeaderName = HeaderName::from_static("traceparent");

/// The trace that a request belongs to, if its caller says so validly, and once.
fn trace_parent(headers: &HeaderMap) -> Option<TraceParent> {
    let mut sent = headers.get_all(TRACE_PARENT).iter();
    let first = sent.next()?;
    sent.next().is_none().then(|| TraceParent::parse(first.as_bytes())).flatten()
}

/// A request for the site or for another protocol.
fn site_request<'a>(
    context: &'a ServerContext,
    head: &'a Parts,
    incoming: &'a mut Incoming,
    path: &'a str,
    client: Client,
    request_id: &'a str,
    trace: Option<TraceParent>,
) -> SiteRequest<'a> {
    SiteRequest {
        trace,
        head,
        path,
        body: SiteBody { headers: &head.headers, incoming, budgets: &context.bodies },
        address: client.address,
        request_id,
        is_tls: head.extensions.get::<OverTls>().is_some(),
        link_base: context.link_base(head),
        executor: &context.executor,
        router: &context.router,
    }
}

/// The response of the site or of another protocol.
fn replied(head: &Parts, reply: SiteReply, observed: &mut Observed) -> Response<ResponseBody> {
    observed.caller = reply.caller;
    if reply.response.body().is_stream() {
        begin_waiting(head);
    }
    reply.response
}

/// The scheme of routes whose requests are signed (NIP-98).
const NOSTR: &str = "Nostr";

/// Handles a request below `/api`: finds its route and executes it. The body is read after the
/// caller is authenticated.
async fn handle(
    context: &ServerContext,
    head: &Parts,
    incoming: &mut Incoming,
    path: &str,
    address: IpAddr,
    request_id: &str,
    observed: &mut Observed,
) -> Result<Response<ResponseBody>> {
    let Match { route, params, reading } = match context.router.find(&head.method, path) {
        Ok(found) => found,
        Err(Missing::Path) => return Err(no_such_path(context, &head.method, path)),
        Err(Missing::Method(allowed)) => {
            return Ok(problem::method_not_allowed(&allowed, request_id));
        }
    };
    observed.endpoint = endpoint_of(route);
    let headers = &head.headers;
    let is_stream = route.operation.shape.streams() && wants_stream(headers);
    // A stream holds its request for hours: what it needs no more is not kept.
    let signed = head.uri.path_and_query().filter(|_| route.policy.is_signed());
    let kept = Some(headers).filter(|_| !is_stream || route.has_tag());
    let mut request = Request {
        route: route.clone(),
        reading: reading.cloned(),
        params,
        target: signed.map_or("", |target| target.as_str()).into(),
        query: head.uri.query().unwrap_or_default().into(),
        arguments: Arguments::Query,
        credential: raw_credential(headers),
        preconditions: kept.map(preconditions).unwrap_or_default(),
        idempotency_key: None,
        is_lenient: is_lenient(headers),
        wants_text: route.operation.has_text && wants_text(headers),
        is_head: head.method == Method::HEAD,
        is_stream,
        last_event_id: last_event_id(headers),
        origin: Arc::new(Origin {
            address,
            link_base: context.link_base(head),
            request_id: request_id.into(),
            trace: observed.trace,
            user_agent: user_agent(headers),
        }),
        at: None,
        identified_at: Mutex::default(),
        is_light: false,
    };
    let challenged = |error: Error| {
        if route.policy.is_signed() { error.with_challenge(NOSTR) } else { error }
    };
    let caller = context.executor.authenticate(&request).await.map_err(challenged)?;
    observed.caller = caller.identity().cloned();
    observed.signer = caller.signer().cloned();
    // An outside agent has as many keys as it likes, but not addresses.
    let credential = caller.identity().map(|_| request.credential.fingerprint());
    let sender = Sender::new(credential, address);
    let Sent { arguments, _memory } =
        body::read(route, headers, incoming, &context.bodies, sender).await?;
    request.arguments = arguments;
    request.idempotency_key = idempotency_key(headers, route.method)?;
    if route.may_be_given_up() {
        begin_waiting(head);
    }
    let output = context.executor.execute(request, caller).await.map_err(challenged)?;
    let mut response = response::response(output);
    if route.operation.has_text {
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept"));
    }
    Ok(response)
}

/// The 404 of a path without a route; the message says so if only a slash at its end is too much.
fn no_such_path(context: &ServerContext, method: &Method, path: &str) -> Error {
    let without = path.trim_end_matches('/');
    let has_route = |path| !matches!(context.router.find(method, path), Err(Missing::Path));
    let message = if without.len() < path.len() && has_route(without) {
        "there is no such path; without the slash at its end there is"
    } else {
        "there is no such path; see /api/openapi.json"
    };
    Error::new(Kind::NotFound, "no_such_path", message)
}

/// Logs the internal details of an error that a request is answered with. Clients can cause any
/// number of these, so of each kind at most one a second is logged above `debug`.
pub fn log_failure(error: &Error, request_id: &str, trace: Option<TraceParent>) {
    static INTERNAL: LogLimit = LogLimit::new();
    static UPSTREAM: LogLimit = LogLimit::new();
    static BUSY: LogLimit = LogLimit::new();
    if let Some(detail) = error.log_detail() {
        let code = error.code();
        let trace_id = trace.map(|trace| trace.trace_id());
        let limit = match error.kind() {
            Kind::Internal => Some(&INTERNAL),
            Kind::Upstream => Some(&UPSTREAM),
            Kind::Busy => Some(&BUSY),
            _ => None,
        };
        match limit.and_then(|limit| limit.admit(Instant::now())) {
            Some(suppressed) => {
                tracing::error!(request_id, trace_id, code, detail, suppressed, "a request failed");
            }
            None => tracing::debug!(request_id, trace_id, code, detail, "a request failed"),
        }
    }
}
