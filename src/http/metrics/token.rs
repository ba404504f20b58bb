//! The token with which the metrics can be read from elsewhere.

use hyper::header::{AUTHORIZATION, HeaderMap};

/// The hash of `--metrics-token`: comparing hashes takes the same time wherever they differ.
#[derive(Clone, Debug)]
pub struct MetricsToken(blake3::Hash);

impl MetricsToken {
    /// Returns the hash of a token.
    pub fn new(token: &str) -> Self {
        MetricsToken(blake3::hash(token.as_bytes()))
    }

    /// Returns whether the token is sent as bearer.
    pub fn is_in(&self, headers: &HeaderMap) -> bool {
        let sent = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = sent.and_then(|value| {
            let (scheme, token) = value.split_once(' ')?;
            scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
        });
        token.is_some_and(|token| blake3::hash(token.as_bytes()) == self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn a_token_is_sent_as_bearer() {
        let token = MetricsToken::new("scrape me");
        for (sent, is_right) in [
            ("Bearer scrape me", true),
            ("bearer scrape me", true),
            ("Bearer scrape", false),
            ("Basic scrape me", false),
            ("scrape me", false),
        ] {
            let headers = HeaderMap::from_iter([(AUTHORIZATION, HeaderValue::from_static(sent))]);
            assert_eq!(token.is_in(&headers), is_right, "{sent}");
        }
        assert!(!token.is_in(&HeaderMap::new()));
    }
}
