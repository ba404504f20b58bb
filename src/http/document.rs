//! The OpenAPI document as it is served: compressed for clients that accept it, with entity tags.

use std::io::Write as _;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http_body_util::Full;
use hyper::Response;
use hyper::header::{
    ACCEPT_ENCODING, CONTENT_ENCODING, ETAG, HeaderMap, HeaderName, HeaderValue, VARY,
};

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
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        // Writing into memory cannot fail.
        let gzip = encoder.write_all(&plain).and_then(|()| encoder.finish()).unwrap_or_default();
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

/// Whether the client accepts gzip; it says so by name.
fn accepts_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT_ENCODING).iter().filter_map(|value| value.to_str().ok());
    accepted.flat_map(|value| value.split(',')).any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        let is_gzip = parts.next().is_some_and(|name| name.eq_ignore_ascii_case("gzip"));
        let weight = parts.find_map(|part| part.strip_prefix("q="));
        is_gzip && weight.is_none_or(|weight| weight.parse().is_ok_and(|weight: f32| weight > 0.0))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gzip_is_sent_to_clients_that_name_it() {
        let accepts = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, value.parse().unwrap());
            accepts_gzip(&headers)
        };
        for good in ["gzip", "deflate, GZIP;q=0.5", "br, gzip"] {
            assert!(accepts(good), "{good}");
        }
        for bad in ["", "br", "gzip;q=0", "identity", "*"] {
            assert!(!accepts(bad), "{bad}");
        }
        assert!(!accepts_gzip(&HeaderMap::new()));
    }
}
