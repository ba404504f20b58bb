//! What is outside `/api` (routes, last section), and the document of the API.

use std::net::IpAddr;
use std::sync::Arc;

use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::{Context, Reply, json, metrics};
use crate::base::{Error, Id, Kind, Result};

/// The page that says where one is.
const HOME: &str = include_str!("home.html");
const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// A page, or 404.
pub(super) fn page(
    context: &Arc<Context>,
    head: &Parts,
    address: IpAddr,
    id: &str,
) -> Result<Response<Reply>> {
    let (method, headers) = (&head.method, &head.headers);
    match head.uri.path() {
        "/" | "/setup" | "/invitations" => reading(method, id, home),
        "/healthz" => reading(method, id, || json(Full::from("{\"status\":\"ok\"}"))),
        "/metrics" => {
            let page = metrics::page(context, address, headers)?;
            reading(method, id, || page)
        }
        "/readyz" => {
            // Ready is who can read what it acknowledged.
            context
                .store
                .read(Id::NOTHING, |view| {
                    view.count::<crate::auth::Organization>(crate::store::Source::TABLE, &(), 1)
                })
                .map_err(|error| {
                    Error::busy("not_ready", "the database cannot be read", 5).detail(error)
                })?;
            if *context.stopping.borrow() {
                return Err(Error::busy("stopping", "the server is stopping", 5));
            }
            reading(method, id, || json(Full::from("{\"status\":\"ok\"}")))
        }
        _ => Err(Error::new(
            Kind::NotFound,
            "no_such_path",
            "there is no such path; the API is below /api, its document at /api/openapi.json",
        )),
    }
}

/// The OpenAPI document.
pub(super) fn document(
    context: &Arc<Context>,
    method: &Method,
    id: &str,
) -> Result<Response<Reply>> {
    reading(method, id, || json(Full::new(context.document.clone())))
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
    let mut response = super::problem::reply(&error, id);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Ok(response)
}

fn home() -> Response<Reply> {
    let page = HOME.replace("{version}", env!("CARGO_PKG_VERSION"));
    let mut response = Response::new(Reply::Whole(Full::from(page)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    headers.insert(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}
