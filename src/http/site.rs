//! Pages for people, beside the API: what a [`Site`] is, and how it is asked.
//!
//! This layer reads requests and knows which path belongs to the site; what a page shows, and who
//! may see it, is the site's own.

use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{ACCEPT, HeaderMap};
use hyper::http::request::Parts;
use hyper::{Method, Response};

use super::body::{self, BodyBudgets, Sender, SentBytes};
use super::response_body::ResponseBody;
use super::router::Router;
use crate::api::execute::Executor;
use crate::auth::Identity;
use crate::base::{Error, Result, TraceParent};

/// A site: pages and forms at paths outside of the API.
pub trait Site: Send + Sync {
    /// The patterns of all its paths, by which requests are counted.
    fn patterns(&self) -> Vec<&'static str>;

    /// What is at a path, if anything.
    fn find(&self, path: &str) -> Option<SitePath>;

    /// Answers a request for a path that [`Site::find`] has found, with a method that it takes.
    fn answer<'a>(&'a self, request: SiteRequest<'a>) -> SiteFuture<'a>;

    /// The page that says why a request failed, for a path that is not the site's.
    fn error_page(&self, error: &Error, request_id: &str) -> Response<ResponseBody>;
}

/// What is at a path of a site.
#[derive(Clone, Copy, Debug)]
pub struct SitePath {
    /// The pattern that the path matches.
    pub pattern: &'static str,
    /// Whether GET is answered.
    pub is_read: bool,
    /// Whether POST is.
    pub is_posted: bool,
    /// Whether it is served before the server is set up.
    pub open_before_setup: bool,
}

impl SitePath {
    /// Whether it takes this method.
    pub(super) fn takes(self, method: &Method) -> bool {
        match *method {
            Method::GET | Method::HEAD => self.is_read,
            Method::POST => self.is_posted,
            _ => false,
        }
    }

    /// The methods that it takes, as `Allow` has them.
    pub(super) fn allowed(self) -> &'static str {
        match (self.is_read, self.is_posted) {
            (true, true) => "GET, HEAD, POST",
            (true, false) => "GET, HEAD",
            (false, _) => "POST",
        }
    }
}

/// The answer of a site, which never fails: an error is a page too.
pub type SiteFuture<'a> = Pin<Box<dyn Future<Output = SiteReply> + Send + 'a>>;

/// A request to a site.
pub struct SiteRequest<'a> {
    /// Method, target and headers.
    pub head: &'a Parts,
    /// The path, [normalized](super::router::normalized).
    pub path: &'a str,
    pub body: SiteBody<'a>,
    /// The client's IP address.
    pub address: IpAddr,
    pub request_id: &'a str,
    /// The trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// Whether it has arrived over the server's own TLS.
    pub is_tls: bool,
    /// The base of links to this server; empty when it does not know its own address.
    pub link_base: String,
    pub executor: &'a Arc<Executor>,
    /// The routes of the API.
    pub router: &'a Arc<Router>,
}

/// The response of a site, and what the log says of it.
pub struct SiteReply {
    pub response: Response<ResponseBody>,
    /// Who asked, if they are signed in.
    pub caller: Option<Arc<Identity>>,
}

/// The body of a request to a site, not read yet.
pub struct SiteBody<'a> {
    pub(super) headers: &'a HeaderMap,
    pub(super) incoming: &'a mut Incoming,
    pub(super) budgets: &'a BodyBudgets,
}

impl SiteBody<'_> {
    /// Reads a form of at most `max_bytes` or, where `max_file_bytes` is given, one with a file as
    /// well. `credential` is the fingerprint of the verified credential,
    /// by which memory is shared; without one it is the address.
    ///
    /// # Errors
    /// As [`body::read_form`].
    pub async fn read(
        self,
        credential: Option<[u8; 32]>,
        address: IpAddr,
        max_bytes: usize,
        max_file_bytes: Option<usize>,
    ) -> Result<SentBytes> {
        let sender = Sender::new(credential, address);
        let SiteBody { headers, incoming, budgets } = self;
        body::read_form(headers, incoming, budgets, sender, max_bytes, max_file_bytes).await
    }

    /// Reads JSON, not parsed, of the size that the routes take with a credential.
    ///
    /// # Errors
    /// As [`body::read_json`].
    pub async fn read_json(self, credential: [u8; 32], address: IpAddr) -> Result<SentBytes> {
        let sender = Sender::new(Some(credential), address);
        body::read_json(self.headers, self.incoming, self.budgets, sender).await
    }
}

/// Whether the client shows pages: a browser that follows a link, and no program.
pub fn wants_html(headers: &HeaderMap) -> bool {
    let accept = headers.get(ACCEPT).and_then(|accept| accept.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}
