//! What is outside `/api` (routes, last section), and the document of the API.

use std::net::IpAddr;

use http_body_util::Full;
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::context::Context;
use super::reply::{Reply, json};
use super::{metrics, problem};
use crate::auth::Organization;
use crate::base::{Error, Id, Kind, Result};
use crate::store::{Source, View};

/// What is shown to people at a path.
pub struct Page {
    /// The path.
    pub path: &'static str,
    /// HTML; `{version}` becomes the server's.
    pub html: &'static str,
    /// Whether it is shown before the server is set up.
    pub open_before_setup: bool,
}

/// Whether the process is alive, and whether it can serve: for whoever watches it.
const HEALTH: &str = "/healthz";
const READY: &str = "/readyz";

const POLICY: &str = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                      form-action 'none'; frame-ancestors 'none'";

/// Whether something is shown at this path before the server is set up.
pub(super) fn is_open_before_setup(pages: &[Page], path: &str) -> bool {
    matches!(path, HEALTH | READY)
        || pages.iter().any(|page| page.path == path && page.open_before_setup)
}

/// A page, or 404.
pub(super) async fn page(
    context: &Context,
    head: &Parts,
    address: IpAddr,
    id: &str,
) -> Result<Response<Reply>> {
    let (method, path) = (&head.method, head.uri.path());
    if let Some(page) = context.pages.iter().find(|page| page.path == path) {
        return reading(method, id, || html(page));
    }
    match path {
        HEALTH => reading(method, id, || json(Full::from("{\"status\":\"ok\"}"))),
        READY => {
            must_be_ready(context).await?;
            reading(method, id, || json(Full::from("{\"status\":\"ok\"}")))
        }
        "/metrics" => {
            let page = metrics::page(context, address, &head.headers).await?;
            reading(method, id, || page)
        }
        _ => Err(Error::new(
            Kind::NotFound,
            "no_such_path",
            "there is no such path; the API is below /api, its document at /api/openapi.json",
        )),
    }
}

/// Ready is who can read what it acknowledged.
async fn must_be_ready(context: &Context) -> Result<()> {
    let count = |view: &View| view.count::<Organization>(Source::TABLE, &(), 1);
    let counted = context.executor.store.read(Id::NOTHING, count).await;
    counted.map_err(|error| {
        Error::busy("not_ready", "the database cannot be read", 5).detail(error)
    })?;
    if context.executor.is_stopping() {
        return Err(Error::busy("stopping", "the server is stopping", 5));
    }
    Ok(())
}

/// The OpenAPI document.
pub(super) fn document(context: &Context, method: &Method, id: &str) -> Result<Response<Reply>> {
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
