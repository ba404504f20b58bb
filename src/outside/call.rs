//! Calls as data: what is sent, how much it may take, what comes back, and why nothing does.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use hyper::Method;

/// Calls in flight at once in the process. Each holds a socket, possibly a thread that waits for
/// DNS, and an answer of up to its limit: this many fit into the quarter of the 1,024 open files
/// that is not for incoming connections, and into the 512 blocking threads, that a process has by
/// default. More than the background jobs at once, so that they cannot take all.
pub(super) const MAX_IN_FLIGHT: usize = 240;

/// An HTTP request to send. It has no `Debug`: the URL and the headers may hold secrets.
#[derive(Clone)]
pub struct Call {
    pub method: Method,
    /// Absolute, `http` or `https`, without user information.
    pub url: String,
    /// Name and value. The client itself sets `Host`, `User-Agent` and those about length, coding
    /// and connection; a call that has one of them is refused.
    pub headers: Vec<(String, String)>,
    /// Empty for none.
    pub body: Vec<u8>,
    /// Time, size and scheme.
    pub limits: Limits,
}

impl Call {
    /// The host of the URL, with its port if it has one.
    pub fn host(&self) -> &str {
        let after_scheme = self.url.split_once("://").map_or("", |(_, rest)| rest);
        after_scheme.split(['/', '?', '#']).next().unwrap_or_default()
    }

    /// The host in lower case with the port, also that of its scheme: two calls that have the same go to the
    /// same place.
    pub fn place(&self) -> String {
        let host = self.host().to_ascii_lowercase();
        let (name, port) = match host.rsplit_once(':') {
            Some((name, port)) if !port.contains(']') => (name, port),
            _ => (host.as_str(), ""),
        };
        let is_plain = self.url.get(..5).is_some_and(|it| it.eq_ignore_ascii_case("http:"));
        match port.parse::<u16>() {
            Ok(port) => format!("{name}:{port}"),
            // Of an empty one, too, which a URL may have.
            Err(_) if port.is_empty() => format!("{name}:{}", if is_plain { 80 } else { 443 }),
            Err(_) => host,
        }
    }
}

/// Limits of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// From the start of `send` to the end of the answer: waiting for a free slot, name resolution
    /// and TLS included.
    pub total: Duration,
    /// How the answer's body is read.
    pub answer: BodyLimit,
    /// Refuses `http`.
    pub https_only: bool,
}

/// How an answer's body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyLimit {
    /// In full; more than this many bytes is [`Failure::TooLarge`].
    UpTo(usize),
    /// Not at all: only the status counts, for example of a webhook. [`Response::body`] is empty, and
    /// an error after the head is no failure, since a retry would only repeat the request.
    Ignored,
}

/// An HTTP response of any status; a redirect is not followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// 100 to 999.
    pub status: u16,
    /// Names in lower case. Bytes that are not UTF-8 are replaced.
    pub headers: Vec<(String, String)>,
    /// As received: the client asks for no compression and undoes none.
    pub body: Vec<u8>,
}

impl Response {
    /// Whether the status is 2xx.
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// Returns the first header of this name (in lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(n, _)| n == name).map(|(_, value)| value.as_str())
    }
}

/// Why a call has no answer. Its text is one sentence without a full stop, and says what a person
/// can act on. It names the host, but neither the URL (some are secrets), nor the address (callers
/// must not use it to resolve names of the operator's network), nor any part of the answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The URL cannot be called; the phrase says why.
    Url(&'static str),
    /// HTTP does not allow this header, or the client sets it itself.
    Header { name: String },
    /// No slot became free within the call's time. Nothing was sent.
    Busy,
    /// One request asked for so many calls that none of them is made.
    TooMuch,
    /// The host was asked for too many handles in the last hour. Nothing was sent.
    TooOften { host: String },
    /// The host name did not resolve.
    Name { host: String, reason: String },
    /// The address is neither public nor allowed. `address` is for the log only.
    Address { host: String, address: IpAddr },
    /// The TCP connection failed.
    Connect { host: String, reason: String },
    /// The TLS handshake failed, or the certificate is for another host.
    Tls { host: String, reason: String },
    /// The time limit passed; whether the request arrived is unknown.
    TimedOut { host: String, after: Duration },
    /// Nothing was received for so long of an answer that is read as it comes.
    Silent { host: String, pause: Duration },
    /// The body is over the limit, `bytes`.
    TooLarge { host: String, bytes: usize },
    /// The connection broke, or the answer is not HTTP/1.1.
    Protocol { host: String, reason: String },
}

impl Failure {
    pub(super) fn protocol(host: &str, error: &hyper::Error) -> Self {
        // Both texts are fixed phrases for the kind of error.
        let reason = match std::error::Error::source(error) {
            Some(source) => format!("{error}: {source}"),
            None => error.to_string(),
        };
        Failure::Protocol { host: host.to_string(), reason }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Url(why) => write!(f, "the URL cannot be called: {why}"),
            Failure::Header { name } => write!(f, "the header {name:?} cannot be sent"),
            Failure::Busy => {
                write!(f, "{MAX_IN_FLIGHT} other calls are in flight; try again later")
            }
            Failure::TooMuch => {
                write!(f, "this takes more calls than one request may make; ask for less at once")
            }
            Failure::TooOften { host } => {
                write!(f, "{host} was asked for too many handles; try again in an hour")
            }
            // One text for both: names of the operator's network are nobody's business.
            Failure::Name { host, .. } | Failure::Address { host, .. } => write!(
                f,
                "{host} cannot be resolved, or has an address that is not public; the operator can \
                 allow such an address with --allow-private-network"
            ),
            Failure::Connect { host, reason } => {
                write!(f, "{host} cannot be connected to: {reason}")
            }
            Failure::Tls { host, reason } => write!(f, "no TLS with {host}: {reason}"),
            Failure::TimedOut { host, after } => {
                // The rest of a deadline is rarely a round number.
                let secs = (after.as_secs_f64() * 10.0).round() / 10.0;
                write!(f, "{host} gave no complete answer within {secs} s")
            }
            Failure::Silent { host, pause } => {
                write!(f, "{host} sent nothing for {} s", pause.as_secs_f64())
            }
            Failure::TooLarge { host, bytes } => {
                write!(f, "the answer of {host} is longer than {bytes} bytes")
            }
            Failure::Protocol { host, reason } => {
                write!(f, "{host} did not answer as HTTP asks: {reason}")
            }
        }
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_call_is_the_same_with_and_without_the_port_of_its_scheme() {
        let place = |url: &str| {
            let limits =
                Limits { total: Duration::ZERO, answer: BodyLimit::UpTo(0), https_only: false };
            let (method, url, headers, body) = (Method::GET, url.into(), vec![], vec![]);
            Call { method, url, headers, body, limits }.place()
        };
        for (urls, same) in [
            (
                &["https://ca.test/a", "https://CA.test:443/b", "HTTPS://ca.test:?x"][..],
                "ca.test:443",
            ),
            (&["http://ca.test", "http://ca.test:80/", "http://ca.test:080/"], "ca.test:80"),
            (&["https://ca.test:8443/", "http://ca.test:8443"], "ca.test:8443"),
            (&["https://[::1]/", "https://[::1]:443/"], "[::1]:443"),
        ] {
            urls.iter().for_each(|url| assert_eq!(place(url), same, "{url}"));
        }
    }
}
