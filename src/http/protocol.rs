//! Another protocol over HTTP, at one path of its own: what a [`Protocol`] is, and how it is asked.
//!
//! This layer knows the path, and that it takes POST alone; what is said there is the protocol's.

use bytes::Bytes;
use http_body_util::Full;
use hyper::Response;
use hyper::http::request::Parts;

use super::asker::Asker;
use super::headers::raw_credential;
use super::problem::mark;
use super::response_body::{ResponseBody, json};
use super::site::{SiteFuture, SiteRequest};
use crate::auth::RawCredential;
use crate::base::Error;

/// A protocol that is spoken by POST at one path.
pub trait Protocol: Send + Sync {
    /// Its path, below `/api`.
    fn path(&self) -> &'static str;

    /// Answers a POST to it.
    fn answer<'a>(&'a self, request: SiteRequest<'a>) -> SiteFuture<'a>;
}

impl SiteRequest<'_> {
    /// The credential of the request, in a header.
    pub fn credential(&self) -> RawCredential {
        raw_credential(&self.head.headers)
    }
}

/// Says that a request begins to wait: it ends if the client disconnects.
pub fn begin_waiting(head: &Parts) {
    if let Some(asker) = Asker::of(head) {
        asker.wait();
    }
}

/// A response with this JSON, or with the status and headers of an error.
pub fn json_response(body: Vec<u8>, error: Option<&Error>) -> Response<ResponseBody> {
    let mut response = json(Full::new(Bytes::from(body)));
    if let Some(error) = error {
        mark(error, &mut response);
    }
    response
}
