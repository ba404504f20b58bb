//! Paths outside of `/api` (reference: conventions, "Beside the API"), and the OpenAPI document.

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{ACCEPT, ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderValue, VARY};
use hyper::http::request::Parts;
use hyper::{Method, Response};
use serde::Deserialize;

use super::context::ServerContext;
use super::headers::is_lenient;
use super::metrics::{Endpoint, Format, require_access};
use super::response_body::{ResponseBody, json};
use super::within::within;
use super::{problem, public_documents};
use crate::api::read::{SourceFormat, UnknownFields, parse_query, read};
use crate::auth::Organization;
use crate::base::{Error, Id, Kind, Result};
use crate::store::{ListSource, View};

/// Liveness and readiness, for monitoring.
const HEALTH: &str = "/healthz";
const READY: &str = "/readyz";
const METRICS: &str = "/metrics";

/// The OpenAPI document.
const DOCUMENT: &str = "/api/openapi.json";

/// How long a look whether the database can be read may take. Probes have deadlines of a few seconds.
const READY_TIME: Duration = Duration::from_secs(3);

/// The paths served here besides those of the site.
pub const PATHS: [&str; 4] = [HEALTH, READY, METRICS, DOCUMENT];

/// The endpoint of a path outside of the API's routes.
pub(super) fn endpoint(context: &ServerContext, method: &Method, path: &str) -> Endpoint {
    let is_posted = |method: &Method| *method == Method::POST;
    let own = PATHS.into_iter().find(|own| *own == path);
    let document = || public_documents::find(context, path).map(|document| document.path);
    let page = || context.site.find(path).map(|found| found.pattern);
    let protocol = || context.protocol(path).map(|protocol| protocol.path());
    let found = own.or_else(document).or_else(protocol).or_else(page);
    found.map_or(Endpoint::Unmatched, |path| Endpoint::Page(is_posted(method), path))
}

/// Whether this path is served before the server is set up.
pub(super) fn is_open_before_setup(context: &ServerContext, path: &str) -> bool {
    match path.strip_prefix("/api") {
        Some(below) => context.router.is_open_before_setup(below),
        None => {
            matches!(path, HEALTH | READY)
                || context.site.find(path).is_some_and(|found| found.open_before_setup)
        }
    }
}

/// A page that is not the site's, or 404.
pub(super) async fn page(
    context: &ServerContext,
    head: &Parts,
    path: &str,
    peer: IpAddr,
    id: &str,
) -> Result<Response<ResponseBody>> {
    let method = &head.method;
    if let Some(document) = public_documents::find(context, path) {
        let address = context.address(peer, &head.headers);
        let page = public_documents::read(context, head, document, address).await?;
        return reading(method, id, || page);
    }
    match path {
        HEALTH => reading(method, id, || json(Full::from("{\"status\":\"ok\"}"))),
        READY => {
            require_ready(context).await?;
            let is_replicated = context.is_replicated.as_ref();
            let is_replicated = is_replicated.map(|replicated| replicated.load(Ordering::Relaxed));
            let body = match is_replicated {
                None => "{\"status\":\"ok\"}",
                Some(true) => "{\"status\":\"ok\",\"replicated\":true}",
                Some(false) => "{\"status\":\"ok\",\"replicated\":false}",
            };
            reading(method, id, || json(Full::from(body)))
        }
        METRICS => {
            let page = metrics(context, peer, head).await?;
            reading(method, id, || page)
        }
        _ => Err(Error::new(
            Kind::NotFound,
            "no_such_path",
            "there is no such path; the API is below /api, its document at /api/openapi.json",
        )),
    }
}

/// Requires that the store can be read and the server is not stopping.
async fn require_ready(context: &ServerContext) -> Result<()> {
    let store = context.executor.store.clone();
    let count = |view: &View| view.count::<Organization>(ListSource::TABLE, &(), 1);
    let counted = within(READY_TIME, async move { store.read(Id::NIL, count).await }).await;
    counted.map_err(|error| {
        Error::busy("not_ready", "the database cannot be read", 5).detail(error)
    })?;
    if context.executor.is_stopping() {
        return Err(Error::busy("stopping", "the server is stopping", 5));
    }
    Ok(())
}

/// What of the OpenAPI document is asked for.
#[derive(Deserialize)]
struct DocumentQuery {
    /// Whether what the server posts is in it.
    webhooks: Option<bool>,
}

/// The OpenAPI document.
///
/// # Errors
/// 400 for another parameter, or another value.
pub(super) fn document(
    context: &ServerContext,
    head: &Parts,
    id: &str,
) -> Result<Response<ResponseBody>> {
    let unknown = if is_lenient(&head.headers) {
        UnknownFields::Ignored
    } else {
        UnknownFields::Refused(Arc::default())
    };
    let mut query = parse_query(head.uri.query().unwrap_or_default());
    // It is known everywhere, also where it is not read.
    query.as_object_mut().and_then(|query| query.shift_remove("orgSlug"));
    let wanted: DocumentQuery = read(&query, SourceFormat::Query, unknown)?;
    let document =
        if wanted.webhooks == Some(false) { &context.routes_document } else { &context.document };
    reading(&head.method, id, || document.response(&head.headers))
}

fn reading(
    method: &Method,
    id: &str,
    page: impl FnOnce() -> Response<ResponseBody>,
) -> Result<Response<ResponseBody>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(page());
    }
    Ok(not_allowed("GET, HEAD", id))
}

/// The response to a method that a page does not take.
pub(super) fn not_allowed(allowed: &'static str, id: &str) -> Response<ResponseBody> {
    let message = "the page does not take this method; see the Allow header";
    let error = Error::new(Kind::Method, "method_not_allowed", message);
    let mut response = problem::reply(&error, id);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static(allowed));
    response
}

/// `/metrics`, in the format that the client asks for.
async fn metrics(
    context: &ServerContext,
    peer: IpAddr,
    head: &Parts,
) -> Result<Response<ResponseBody>> {
    require_access(context, peer, head).await?;
    let accept =
        head.headers.get(ACCEPT).and_then(|accept| accept.to_str().ok()).unwrap_or_default();
    let format = Format::accepted_by(accept);
    let text = context.metrics.text(&context.executor.store, format).await;
    let mut response = Response::new(ResponseBody::Whole(Full::new(Bytes::from(text))));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(format.content_type()));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(VARY, HeaderValue::from_static("accept"));
    Ok(response)
}
