//! Paths outside of `/api` (reference: conventions, "Beside the API"), and the OpenAPI document.

use std::net::IpAddr;

use bytes::Bytes;
use http_body_util::Full;
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderMap, HeaderValue,
};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::context::Context;
use super::headers::raw_credential;
use super::page::Page;
use super::problem;
use super::reply::{Reply, json};
use crate::auth::{Organization, key_organization};
use crate::base::{Error, Id, Kind, Result};
use crate::store::{ListSource, View};

/// Liveness and readiness, for monitoring.
const HEALTH: &str = "/healthz";
const READY: &str = "/readyz";

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Whether this path is served before the server is set up.
pub(super) fn is_open_before_setup(context: &Context, path: &str) -> bool {
    match path.strip_prefix("/api") {
        Some(below) => context.router.is_open_before_setup(below),
        None => {
            matches!(path, HEALTH | READY)
                || context.pages.iter().any(|page| page.path == path && page.open_before_setup)
        }
    }
}

/// A page, or 404.
pub(super) async fn page(
    context: &Context,
    head: &Parts,
    path: &str,
    address: IpAddr,
    id: &str,
) -> Result<Response<Reply>> {
    let method = &head.method;
    if let Some(page) = context.pages.iter().find(|page| page.path == path) {
        return reading(method, id, || html(page));
    }
    match path {
        HEALTH => reading(method, id, || json(Full::from("{\"status\":\"ok\"}"))),
        READY => {
            require_ready(context).await?;
            reading(method, id, || json(Full::from("{\"status\":\"ok\"}")))
        }
        "/metrics" => {
            let page = metrics(context, address, &head.headers).await?;
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
async fn require_ready(context: &Context) -> Result<()> {
    let count = |view: &View| view.count::<Organization>(ListSource::TABLE, &(), 1);
    let counted = context.executor.store.read(Id::NIL, count).await;
    counted.map_err(|error| {
        Error::busy("not_ready", "the database cannot be read", 5).detail(error)
    })?;
    if context.executor.is_stopping() {
        return Err(Error::busy("stopping", "the server is stopping", 5));
    }
    Ok(())
}

/// The OpenAPI document.
pub(super) fn document(context: &Context, head: &Parts, id: &str) -> Result<Response<Reply>> {
    reading(&head.method, id, || context.document.response(&head.headers))
}

fn reading(
    method: &Method,
    id: &str,
    page: impl FnOnce() -> Response<Reply>,
) -> Result<Response<Reply>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return Ok(page());
    }
    let error = Error::new(Kind::Method, "method_not_allowed", "this can only be read; use GET");
    let mut response = problem::reply(&error, id);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Ok(response)
}

fn html(page: &Page) -> Response<Reply> {
    let page = page.html.replace("{version}", env!("CARGO_PKG_VERSION"));
    let mut response = Response::new(Reply::Whole(Full::from(page)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// `/metrics`: open to this machine; other clients need the API key of an admin.
async fn metrics(
    context: &Context,
    address: IpAddr,
    headers: &HeaderMap,
) -> Result<Response<Reply>> {
    if !address.is_loopback() {
        require_admin_key(context, headers).await?;
    }
    let text = context.metrics.text(&context.executor.store).await?;
    let mut response = Response::new(Reply::Whole(Full::new(Bytes::from(text))));
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    Ok(response)
}

async fn require_admin_key(context: &Context, headers: &HeaderMap) -> Result<()> {
    let credential = raw_credential(headers);
    let authenticator = &context.executor.authenticator;
    let check = |view: &View| {
        let identity = authenticator.identify(view, &credential)?;
        let org = key_organization(&identity).unwrap_or(Id::NIL);
        match authenticator.authorize_in(view, &credential, org) {
            Ok(caller) if caller.is_admin() => Ok(()),
            _ => Err(Error::forbidden(
                "admin_required",
                "from another machine this takes the API key of an organization admin",
            )),
        }
    };
    context.executor.store.read(Id::NIL, check).await
}
