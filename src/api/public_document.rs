//! Documents outside of `/api` that everyone may read, at the paths that other protocols look for.

use std::borrow::Cow;

use crate::base::{Error, Result};
use crate::store::View;

/// A JSON document outside of `/api`. Web pages of any origin may read it (CORS).
pub struct PublicDocument {
    pub path: &'static str,
    /// Reads it at a snapshot, outside of any organization.
    ///
    /// # Errors
    /// 404 if there is none for this request.
    pub read: fn(&View, &PublicRequest) -> Result<Vec<u8>>,
}

/// A request for a public document.
pub struct PublicRequest<'a> {
    /// The host name that was asked for, in lower case and without port; empty if none was.
    pub host: &'a str,
    pub query: &'a str,
    /// The base of links to this server; empty when it does not know its own address.
    pub link_base: &'a str,
}

impl PublicRequest<'_> {
    /// Returns the first parameter of the query with this name.
    pub fn parameter(&self, name: &str) -> Option<Cow<'_, str>> {
        let mut pairs = form_urlencoded::parse(self.query.as_bytes());
        pairs.find(|(key, _)| key == name).map(|(_, value)| value)
    }
}

/// The error of what needs the server's own URL, where neither `--public-url` nor the request says it.
pub fn public_url_required() -> Error {
    /// An operator must restart the server first.
    const RETRY_SECS: u32 = 3600;
    Error::busy(
        "public_url_required",
        "the server does not know its own URL, which this request needs; start it with \
         --public-url",
        RETRY_SECS,
    )
}
