//! Another protocol over HTTP, at one path of its own: what a [`Protocol`] is, and how it is asked.
//!
//! This layer knows the path, and that it takes POST alone; what is said there is the protocol's.

use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::context::ServerContext;
use super::response_body::ResponseBody;
use super::site::{SiteFuture, SiteRequest};
use super::wire::ConnectionState;
use super::{headers, pages, response_body};
use crate::auth::RawCredential;
use crate::base::Error;

/// A protocol that is spoken by POST at one path.
pub trait Protocol: Send + Sync {
    /// Its path, below `/api`.
    fn path(&self) -> &'static str;

    /// Answers a POST to it.
    fn answer<'a>(&'a self, request: SiteRequest<'a>) -> SiteFuture<'a>;
}

/// The protocol at a path, if there is one.
pub(super) fn find<'a>(context: &'a ServerContext, path: &str) -> Option<&'a dyn Protocol> {
    let found = context.protocols.iter().find(|protocol| protocol.path() == path);
    found.map(|protocol| &**protocol)
}

/// Refuses a method other than POST.
pub(super) fn refuse_method(method: &Method, id: &str) -> Option<Response<ResponseBody>> {
    (*method != Method::POST).then(|| pages::not_allowed("POST", id))
}

impl SiteRequest<'_> {
    /// The credential of the request, in a header.
    pub fn credential(&self) -> RawCredential {
        headers::raw_credential(&self.head.headers)
    }
}

/// Tells the connection that its request begins to wait: it ends if the client disconnects.
pub fn begin_waiting(head: &Parts) {
    if let Some(progress) = head.extensions.get::<ConnectionState>() {
        progress.wait();
    }
}

/// A response with this JSON, or with the status and headers of an error.
pub fn json_response(body: Vec<u8>, error: Option<&Error>) -> Response<ResponseBody> {
    let whole = http_body_util::Full::new(bytes::Bytes::from(body));
    let mut response = response_body::json(whole);
    if let Some(error) = error {
        super::problem::mark(error, &mut response);
    }
    response
}
