//! The cookies of the console: their names, and how they are read and set.
//!
//! Over TLS their names begin with `__Host-`: browsers then take them from this host alone, and only
//! with `Secure`. On a loopback address, which needs no TLS, cookies ignore the port: there the name
//! has a part of the installation's id, so that two servers on one machine do not sign each other's
//! visitors out.

use hyper::header::{COOKIE, HOST, HeaderMap};

use super::guard::is_loopback;

/// What a cookie holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// The token of the session.
    Session,
    /// Random bytes to which forms are bound before there is a session.
    Visitor,
    /// The name of a text to show on the next page.
    Flash,
    /// An attempt to sign in with a provider, which leads back from another site.
    Attempt,
    /// What links an account of a provider, until it is confirmed.
    Confirmation,
    /// `light` or `dark`; absent if the visitor leaves it to the system.
    Theme,
    /// `whole` if the editor does not wrap lines; absent otherwise.
    Lines,
}

impl Cookie {
    fn suffix(self) -> &'static str {
        match self {
            Cookie::Session => "",
            Cookie::Visitor => "-visitor",
            Cookie::Flash => "-flash",
            Cookie::Attempt => "-attempt",
            Cookie::Confirmation => "-confirmation",
            Cookie::Theme => "-theme",
            Cookie::Lines => "-lines",
        }
    }
}

/// The names of cookies for a host.
#[derive(Clone, Debug)]
pub struct Jar {
    prefix: String,
    is_secure: bool,
    /// Whether the request is known to have come over TLS: the server's own, or a proxy's.
    is_tls: bool,
}

impl Jar {
    /// The cookies of a request's host. `is_own_tls` if it came over the server's own TLS.
    pub fn new(headers: &HeaderMap, is_own_tls: bool, installation: &str) -> Self {
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        // A proxy on this machine may pass its own name for the host, and says so of the scheme.
        let is_tls = is_own_tls || is_forwarded_tls(headers);
        if is_loopback(host) && !is_tls {
            let part = installation.split('-').next().unwrap_or_default();
            return Jar { prefix: format!("roadstead_{part}"), is_secure: false, is_tls };
        }
        Jar { prefix: "__Host-roadstead".into(), is_secure: true, is_tls }
    }

    /// Whether cookies are sent over TLS only.
    pub fn is_secure(&self) -> bool {
        self.is_secure
    }

    /// Whether nobody on the way can read along: the host is this machine, or there is TLS.
    pub fn is_private(&self) -> bool {
        !self.is_secure || self.is_tls
    }

    /// Reads a cookie; `None` if it is absent or empty.
    pub fn get<'h>(&self, headers: &'h HeaderMap, cookie: Cookie) -> Option<&'h str> {
        let sent = headers.get_all(COOKIE).iter().filter_map(|value| value.to_str().ok());
        let mut pairs =
            sent.flat_map(|value| value.split(';')).filter_map(|pair| pair.split_once('='));
        let is_it = |name: &str| name.trim().strip_prefix(&*self.prefix) == Some(cookie.suffix());
        let value = pairs.find(|(name, _)| is_it(name)).map(|(_, value)| value.trim());
        value.filter(|value| !value.is_empty())
    }

    /// The `Set-Cookie` of a cookie. `value` consists of characters that need no encoding.
    pub fn set(&self, cookie: Cookie, value: &str, max_age_secs: i64) -> String {
        let secure = if self.is_secure { "; Secure" } else { "" };
        let (prefix, suffix) = (&self.prefix, cookie.suffix());
        let site = if cookie == Cookie::Attempt { "Lax" } else { "Strict" };
        format!(
            "{prefix}{suffix}={value}; Path=/; Max-Age={max_age_secs}; HttpOnly; \
             SameSite={site}{secure}"
        )
    }

    /// The `Set-Cookie` that removes a cookie.
    pub fn remove(&self, cookie: Cookie) -> String {
        self.set(cookie, "", 0)
    }
}

/// Whether a proxy says that it has TLS.
pub fn is_forwarded_tls(headers: &HeaderMap) -> bool {
    headers.get("x-forwarded-proto").is_some_and(|scheme| scheme == "https")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn jar(host: &str, cookies: &str) -> (Jar, HeaderMap) {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, host.parse().unwrap());
        headers.insert(COOKIE, cookies.parse().unwrap());
        (Jar::new(&headers, false, "01234567-89ab"), headers)
    }

    #[test]
    fn a_cookie_belongs_to_one_host_and_on_loopback_to_one_installation() {
        let (tls, headers) =
            jar("agents.test", "a=1; __Host-roadstead=two; __Host-roadstead-theme=dark");
        assert_eq!(tls.get(&headers, Cookie::Session), Some("two"));
        assert_eq!(tls.get(&headers, Cookie::Theme), Some("dark"));
        assert_eq!(tls.get(&headers, Cookie::Flash), None);
        let set = tls.set(Cookie::Session, "x", 60);
        assert_eq!(
            set,
            "__Host-roadstead=x; Path=/; Max-Age=60; HttpOnly; SameSite=Strict; Secure"
        );
        let (local, headers) = jar("localhost:7420", "roadstead_01234567=one; roadstead_7=two");
        assert_eq!(local.get(&headers, Cookie::Session), Some("one"));
        assert!(!local.set(Cookie::Session, "x", 60).contains("Secure"));
    }

    #[test]
    fn a_proxy_that_terminates_tls_makes_cookies_secure() {
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "127.0.0.1:7420".parse().unwrap());
        assert!(!Jar::new(&headers, false, "0").is_secure());
        headers.insert("x-forwarded-proto", "https".parse().unwrap());
        assert!(Jar::new(&headers, false, "0").is_secure());
    }

    #[test]
    fn cookies_are_for_tls_alone_and_what_is_entered_is_private_over_the_servers_own() {
        for host in ["127.0.0.1:7420", "agents.test:7420"] {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, host.parse().unwrap());
            let own = Jar::new(&headers, true, "0");
            assert!(own.set(Cookie::Session, "x", 60).starts_with("__Host-"), "{host}");
            assert!(own.is_secure() && own.is_private(), "{host}");
            let plain = Jar::new(&headers, false, "0");
            assert_eq!(plain.is_private(), host.starts_with("127."));
        }
    }
}
