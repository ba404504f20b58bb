//! The headers of every page.

use hyper::Response;
use hyper::header::{
    CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderMap, HeaderName, HeaderValue, REFERRER_POLICY,
    STRICT_TRANSPORT_SECURITY,
};

use crate::http::ResponseBody;

/// Nothing but this server's own files, no frames, and no script that makes markup of a text.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
     form-action 'self'; base-uri 'none'; frame-ancestors 'none'; \
     require-trusted-types-for 'script'; trusted-types 'none'",
);

/// With `no-referrer` browsers would send `Origin: null` with forms.
const REFERRER: HeaderValue = HeaderValue::from_static("same-origin");

/// With `no-cache` alone, Back after signing out would show the page.
const CACHE: HeaderValue = HeaderValue::from_static("no-store");

/// A year, once a page was served over the TLS of a proxy.
const STRICT_TRANSPORT: HeaderValue = HeaderValue::from_static("max-age=31536000");

const OPENER: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// Adds them. `is_behind_tls` if a proxy in front has TLS, with a certificate that browsers trust.
pub fn secure(response: &mut Response<ResponseBody>, is_behind_tls: bool) {
    let headers = response.headers_mut();
    headers.insert(CONTENT_SECURITY_POLICY, POLICY);
    headers.insert(REFERRER_POLICY, REFERRER);
    headers.insert(CACHE_CONTROL, CACHE);
    isolate(headers);
    if is_behind_tls {
        headers.insert(STRICT_TRANSPORT_SECURITY, STRICT_TRANSPORT);
    }
}

/// Keeps other sites from opening or embedding a response.
pub fn isolate(headers: &mut HeaderMap) {
    headers.insert(OPENER, SAME_ORIGIN);
    headers.insert(RESOURCE, SAME_ORIGIN);
}
