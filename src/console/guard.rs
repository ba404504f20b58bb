//! The guard of every POST: it must come from a page of this server, filled in the same session.
//!
//! First the browser's own word for where the request comes from (`Sec-Fetch-Site`, else `Origin`),
//! then a token in the form that is bound to the session, or before there is one to a cookie.

use std::net::IpAddr;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hyper::header::{HOST, HeaderMap, ORIGIN};
use hyper::http::uri::{Authority, Uri};

use crate::base::{Error, Keys, Result};

/// The length of the random part of a token: two of the same in a session are not seen.
const NONCE_BYTES: usize = 16;

/// Requires that a POST comes from a page of this origin. Over the server's own TLS (`is_tls`) that is
/// one of https; what scheme a proxy has in front is not known.
///
/// # Errors
/// 403 otherwise.
pub fn require_same_origin(headers: &HeaderMap, is_tls: bool) -> Result<()> {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let is_own = match text("sec-fetch-site") {
        Some(site) => matches!(site, "same-origin" | "none"),
        // Browsers that are older than that header, and plain http.
        None => match (text(ORIGIN.as_str()), text(HOST.as_str())) {
            (Some(origin), Some(host)) => {
                let is_secure =
                    || origin.get(..8).is_some_and(|s| s.eq_ignore_ascii_case("https://"));
                authority(origin).is_some_and(|own| own == host) && (!is_tls || is_secure())
            }
            _ => false,
        },
    };
    if is_own {
        return Ok(());
    }
    Err(Error::forbidden(
        "foreign_origin",
        "the form was sent from another site, so nothing was done; open the page here and send it \
         again",
    ))
}

/// The host of an origin, with its port.
fn authority(origin: &str) -> Option<String> {
    Some(origin.parse::<Uri>().ok()?.authority()?.to_string())
}

/// A path of this site, with its query; `/` for anything that leads elsewhere.
pub fn local(target: &str) -> String {
    let is_path = target.starts_with('/')
        && !target[1..].starts_with(['/', '\\'])
        && target.bytes().all(|byte| byte.is_ascii_graphic());
    if is_path { target.into() } else { "/".into() }
}

/// Whether a host, with or without a port, is this machine as it names itself.
pub fn is_loopback(host: &str) -> bool {
    let Ok(host) = host.parse::<Authority>() else { return false };
    let name = host.host();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Makes and checks the tokens of forms.
pub struct FormTokens<'a> {
    pub keys: &'a Keys,
    /// The session's token or, before there is one, the visitor's cookie.
    pub bound_to: &'a str,
}

impl FormTokens<'_> {
    /// The token of a form: another one each time, so that its compressed length tells nothing.
    pub fn make(&self, nonce: [u8; NONCE_BYTES]) -> String {
        URL_SAFE_NO_PAD.encode([nonce.as_slice(), &self.proof(&nonce)].concat())
    }

    /// Whether a token was made for this session.
    pub fn is_valid(&self, token: &str) -> bool {
        let Ok(bytes) = URL_SAFE_NO_PAD.decode(token) else { return false };
        let Some((nonce, proof)) = bytes.split_at_checked(NONCE_BYTES) else { return false };
        let Ok(proof) = <[u8; 32]>::try_from(proof) else { return false };
        // Hashes are compared in constant time.
        !self.bound_to.is_empty() && blake3::Hash::from(proof) == self.proof(nonce)
    }

    fn proof(&self, nonce: &[u8]) -> [u8; 32] {
        let bound = [nonce, self.bound_to.as_bytes()].concat();
        self.keys.hash("roadstead 2026 forms of the console", &bound)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accepts(fields: &[(&'static str, &str)]) -> bool {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.insert(*name, value.parse().unwrap());
        }
        let is_accepted = require_same_origin(&headers, false).is_ok();
        let over_tls = require_same_origin(&headers, true).is_ok();
        assert!(is_accepted || !over_tls, "TLS accepts nothing more: {headers:?}");
        is_accepted
    }

    #[test]
    fn over_tls_pages_of_the_same_host_without_tls_are_another_origin() {
        let is_own = |origin: &str, is_tls| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, "agents.test".parse().unwrap());
            headers.insert(ORIGIN, origin.parse().unwrap());
            require_same_origin(&headers, is_tls).is_ok()
        };
        assert!(is_own("https://agents.test", true) && is_own("https://agents.test", false));
        assert!(!is_own("http://agents.test", true) && is_own("http://agents.test", false));
    }

    #[test]
    fn only_pages_of_the_same_origin_may_post() {
        let host = ("host", "agents.test:8443");
        assert!(accepts(&[host, ("sec-fetch-site", "same-origin")]));
        assert!(accepts(&[host, ("sec-fetch-site", "none")]));
        assert!(accepts(&[host, ("origin", "https://agents.test:8443")]));
        for refused in [
            &[host][..],
            &[host, ("sec-fetch-site", "cross-site")],
            &[host, ("sec-fetch-site", "same-site")],
            &[host, ("sec-fetch-site", "cross-site"), ("origin", "https://agents.test:8443")],
            &[host, ("origin", "https://agents.test")],
            &[host, ("origin", "https://evil.test")],
            &[host, ("origin", "null")],
        ] {
            assert!(!accepts(refused), "{refused:?}");
        }
    }

    #[test]
    fn only_paths_of_this_site_are_returned_to() {
        for path in ["/", "/o/acme?a=b", "/o/acme/prompts/main/a%20b"] {
            assert_eq!(local(path), path);
        }
        for elsewhere in
            ["", "//evil.test", "/\\evil.test", "https://evil.test", "/a\r\nb", "a", "/ü"]
        {
            assert_eq!(local(elsewhere), "/", "{elsewhere}");
        }
    }

    #[test]
    fn a_token_is_valid_in_its_session_and_differs_each_time() {
        let keys = Keys::new([1; 32]);
        let tokens = |bound_to| FormTokens { keys: &keys, bound_to };
        let token = tokens("ada").make([7; NONCE_BYTES]);
        assert!(tokens("ada").is_valid(&token));
        assert_ne!(token, tokens("ada").make([8; NONCE_BYTES]));
        assert!(!tokens("ben").is_valid(&token));
        assert!(!tokens("ada").is_valid(&token[1..]));
        assert!(!tokens("").is_valid(&tokens("").make([7; NONCE_BYTES])));
        for wrong in ["", "x", "AAAA", &"A".repeat(64)] {
            assert!(!tokens("ada").is_valid(wrong), "{wrong}");
        }
    }
}
