//! The OpenAPI document as it is served: compressed for clients that accept it, with entity tags.

use bytes::Bytes;
use flate2::Compression;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, VARY};

use super::gzip::{accepts_gzip, gzip};
use super::headers::preconditions;
use super::response::not_modified;
use super::response_body::{ResponseBody, json};
use crate::api::execute::Etag;

/// The document in both encodings. They have different tags, as different bytes must.
pub struct Document {
    plain: Encoded,
    gzip: Encoded,
}

struct Encoded {
    bytes: Bytes,
    etag: Etag,
}

impl Document {
    /// Compresses a document.
    pub fn new(plain: Bytes) -> Self {
        let gzip = gzip(&plain, Compression::best());
        let encoded = |bytes: Bytes| Encoded { etag: Etag::of(&bytes), bytes };
        Document { plain: encoded(plain), gzip: encoded(gzip.into()) }
    }

    /// The response to a GET; without a body if the client has the document.
    pub(super) fn response(&self, headers: &HeaderMap) -> Response<ResponseBody> {
        let is_gzip = accepts_gzip(headers);
        let Encoded { bytes, etag } = if is_gzip { &self.gzip } else { &self.plain };
        let known = preconditions(headers).if_none_match;
        let mut response = if known.iter().any(|tags| etag.is_in(tags, true)) {
            not_modified()
        } else {
            json(Full::new(bytes.clone()))
        };
        let mut insert = |name: HeaderName, value: &str| {
            if let Ok(value) = HeaderValue::from_str(value) {
                response.headers_mut().insert(name, value);
            }
        };
        insert(VARY, "accept-encoding");
        insert(ETAG, &String::from_utf8_lossy(etag.as_bytes()));
        if is_gzip {
            insert(CONTENT_ENCODING, "gzip");
        }
        response
    }
}
