//! Which pages are compressed (BREACH).
//!
//! Who sees how long a compressed page is learns of what is on it if they also choose a part of it: a
//! guess that is right makes it shorter. So a page is compressed only if nothing of the request is on it:
//! no query, which filters, searches and the forms of every page show again, nothing that was sent, and of
//! its path only what exists ([`Reply::showing_input`]).
//! Tokens and keys of forms are new in each page besides.

use flate2::Compression;
use http_body_util::Full;
use hyper::header::{CONTENT_ENCODING, HeaderValue, VARY};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};

use super::reply::{Content, Reply};
use crate::http::{ResponseBody, accepts_gzip, gzip};

/// Shorter ones fit into a packet.
const MIN_BYTES: usize = 1024;
/// Longer ones would hold up others that are answered by the same thread: this takes some milliseconds.
const MAX_BYTES: usize = 256 * 1024;

/// A page, as it is sent.
#[derive(Debug)]
pub enum Encoding {
    /// As it is, whoever asks.
    Never,
    /// As it is, since the client takes nothing else.
    Identity,
    /// Compressed.
    Gzip(Vec<u8>),
}

/// Encodes the answer to a request.
pub fn encode(reply: &Reply, head: &Parts) -> Encoding {
    let is_read = matches!(head.method, Method::GET | Method::HEAD);
    let Content::Html(html) = &reply.content else { return Encoding::Never };
    let has_input = !is_read
        || head.uri.query().is_some()
        || reply.status != StatusCode::OK
        || reply.shows_input;
    if has_input || !(MIN_BYTES..=MAX_BYTES).contains(&html.len()) {
        return Encoding::Never;
    }
    match accepts_gzip(&head.headers) {
        true => Encoding::Gzip(gzip(html.as_bytes(), Compression::fast())),
        false => Encoding::Identity,
    }
}

impl Encoding {
    /// Puts it into the response that was made of the answer.
    pub fn put(self, response: &mut Response<ResponseBody>) {
        if matches!(self, Encoding::Never) {
            return;
        }
        response.headers_mut().insert(VARY, HeaderValue::from_static("accept-encoding"));
        if let Encoding::Gzip(bytes) = self {
            response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
            *response.body_mut() = ResponseBody::Whole(Full::from(bytes));
        }
    }
}

#[cfg(test)]
mod tests {
    use hyper::Request;

    use super::*;

    fn encoded(method: &str, uri: &str, accepted: &str, reply: &Reply) -> Encoding {
        let request = Request::builder().method(method).uri(uri);
        let request = request.header("accept-encoding", accepted).body(()).unwrap();
        encode(reply, &request.into_parts().0)
    }

    #[test]
    fn a_page_with_nothing_of_the_request_is_compressed() {
        let page = |bytes| Reply::html(StatusCode::OK, "a".repeat(bytes));
        let is_gzip = |encoding| matches!(encoding, Encoding::Gzip(_));
        assert!(is_gzip(encoded("GET", "/o/acme", "gzip", &page(2000))));
        assert!(matches!(encoded("GET", "/o/acme", "br", &page(2000)), Encoding::Identity));
        let refused = Reply::html(StatusCode::NOT_FOUND, "a".repeat(2000));
        for (method, uri, reply) in [
            ("POST", "/o/acme", page(2000)),
            ("GET", "/o/acme?q=guess", page(2000)),
            ("GET", "/o/guess", refused),
            ("GET", "/o/acme/variables/guess", page(2000).showing_input()),
            ("GET", "/o/acme", page(MIN_BYTES - 1)),
            ("GET", "/o/acme", page(MAX_BYTES + 1)),
            ("GET", "/o/acme", Reply::see_other("/")),
        ] {
            assert!(matches!(encoded(method, uri, "gzip", &reply), Encoding::Never), "{uri}");
        }
    }
}
