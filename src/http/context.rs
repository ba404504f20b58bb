//! The context that all requests share.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, LazyLock};

use hyper::header::{HOST, HeaderMap};
use hyper::http::request::Parts;
use ipnet::IpNet;

use super::body::BodyBudgets;
use super::document::Document;
use super::metrics::{Metrics, MetricsToken};
use super::protocol::Protocol;
use super::router::Router;
use super::site::Site;
use super::tls::{HTTPS_PORT, OverTls};
use crate::api::PublicDocument;
use crate::api::execute::Executor;
use crate::outside::Spans;

/// The context that all requests share.
pub struct ServerContext {
    pub executor: Arc<Executor>,
    /// The routes, by path.
    pub router: Arc<Router>,
    /// The pages outside of `/api`.
    pub site: Arc<dyn Site>,
    /// Other protocols, each at a path of its own.
    pub protocols: Vec<Arc<dyn Protocol>>,
    /// The JSON documents outside of `/api`.
    pub documents: Vec<&'static PublicDocument>,
    /// `--public-url`, without a slash at its end.
    pub public_url: Option<String>,
    /// `--trusted-proxy`: proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The OpenAPI document, generated at its first request: it takes more time and memory than the
    /// rest of the start.
    pub document: LazyLock<Document>,
    /// The same without what the server posts.
    pub routes_document: LazyLock<Document>,
    /// The memory for the bodies of requests.
    pub bodies: BodyBudgets,
    /// Limit of connections, see [`max_connections`](super::max_connections).
    pub max_connections: usize,
    pub metrics: Metrics,
    /// `--metrics-token`.
    pub metrics_token: Option<MetricsToken>,
    /// Whether commits are replicated, if the store is not on this machine.
    pub is_replicated: Option<Arc<AtomicBool>>,
    /// Takes a span of each request, if there is a collector for them.
    pub spans: Option<Arc<Spans>>,
}

impl ServerContext {
    /// The client's address: the peer or, behind trusted proxies, the last address in
    /// `X-Forwarded-For` that is not one of them. If that cannot be read, it is [`UNKNOWN`] and
    /// not the proxy's, which may be this machine's.
    pub(super) fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        client_address(&self.trusted_proxies, peer, headers)
    }

    /// The protocol at a path, if there is one.
    pub(super) fn protocol(&self, path: &str) -> Option<&dyn Protocol> {
        let found = self.protocols.iter().find(|protocol| protocol.path() == path);
        found.map(|protocol| &**protocol)
    }

    /// The base of links to this server.
    pub(super) fn link_base(&self, head: &Parts) -> String {
        let over_tls = head.extensions.get::<OverTls>();
        link_base(self.public_url.as_deref(), over_tls, &head.headers)
    }
}

/// The address of clients that a proxy does not name: no machine has it, so that they share the
/// rights and limits of an outsider.
const UNKNOWN: IpAddr = IpAddr::V4(Ipv4Addr::UNSPECIFIED);

fn client_address(trusted: &[IpNet], peer: IpAddr, headers: &HeaderMap) -> IpAddr {
    let mut address = peer.to_canonical();
    let values = headers.get_all("x-forwarded-for");
    let mut hops = values.iter().rev().flat_map(|value| value.as_bytes().rsplit(|b| *b == b','));
    while trusted.iter().any(|network| network.contains(&address)) {
        match hops.next().map(forwarded_address) {
            Some(Some(hop)) => address = hop,
            Some(None) => return UNKNOWN,
            None => break,
        }
    }
    address
}

/// The address in an entry of `X-Forwarded-For`: `ip`, `ip:port`, `[ip]` or `[ip]:port`.
fn forwarded_address(entry: &[u8]) -> Option<IpAddr> {
    let entry = std::str::from_utf8(entry).ok()?.trim();
    let bracketed = || entry.strip_prefix('[')?.strip_suffix(']')?.parse().ok();
    let with_port = || entry.parse().ok().map(|address: SocketAddr| address.ip());
    let address: IpAddr = entry.parse().ok().or_else(with_port).or_else(bracketed)?;
    Some(address.to_canonical())
}

/// The base of links to this server: `--public-url`, or the Host header if it names this machine, or
/// over TLS what the certificate is for; otherwise empty, and links are paths (reference: command-line,
/// "Flags of serve").
pub(super) fn link_base(
    public_url: Option<&str>,
    over_tls: Option<&OverTls>,
    headers: &HeaderMap,
) -> String {
    if let Some(url) = public_url {
        return url.into();
    }
    let Some((name, port)) = name_and_port(headers) else { return String::new() };
    let is_own = || over_tls.is_some_and(|over_tls| over_tls.is_own(name, port));
    if !names_this_machine(name) && !is_own() {
        return String::new();
    }
    let scheme = if over_tls.is_some() { "https" } else { "http" };
    match port {
        Some(port) => format!("{scheme}://{name}:{port}"),
        None => format!("{scheme}://{name}"),
    }
}

/// Whether browsers may be told to use TLS alone (`Strict-Transport-Security`) for the host of a request
/// over the server's own TLS. What they are told is of all ports of a host: with another one than that of
/// https they would be kept from other servers there, and so from all those of this machine.
pub(super) fn may_be_strict(headers: &HeaderMap) -> bool {
    name_and_port(headers).is_some_and(|(name, port)| {
        port.is_none_or(|port| port == HTTPS_PORT) && !names_this_machine(name)
    })
}

/// Whether the `Host` is another machine's name with another port than that of https. A proxy may pass the
/// name by which it reaches this machine in its place, which says nothing of its own port.
pub fn is_at_other_port(headers: &HeaderMap) -> bool {
    name_and_port(headers).is_none_or(|(name, port)| {
        port.is_some_and(|port| port != HTTPS_PORT) && !names_this_machine(name)
    })
}

/// The name and the port of the `Host`; `None` if the port is no number.
fn name_and_port(headers: &HeaderMap) -> Option<(&str, Option<u16>)> {
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let (name, port) = match host.rsplit_once(':') {
        Some((name, port)) if !port.ends_with(']') => (name, Some(port)),
        _ => (host, None),
    };
    let is_number = |port: &str| port.bytes().all(|byte| byte.is_ascii_digit());
    port.is_none_or(is_number).then(|| (name, port.and_then(|port| port.parse().ok())))
}

/// Whether the `Host` is this machine by its own names for itself.
pub(super) fn is_to_this_machine(headers: &HeaderMap) -> bool {
    name_and_port(headers).is_some_and(|(name, _)| names_this_machine(name))
}

/// Whether the name of a host is one of this machine's in itself: an IPv6 address is in brackets.
pub fn names_this_machine(name: &str) -> bool {
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']'));
    match bare {
        Some(bare) => bare.parse::<Ipv6Addr>().is_ok_and(|address| address.is_loopback()),
        None => {
            name.eq_ignore_ascii_case("localhost")
                || name.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::header::HeaderValue;

    #[test]
    fn browsers_may_be_told_to_use_tls_alone_where_all_of_a_host_is_meant() {
        let may = |host: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(HOST, HeaderValue::from_static(host));
            may_be_strict(&headers)
        };
        for host in ["agents.test", "agents.test:443", "10.0.0.7", "[2001:db8::7]:443"] {
            assert!(may(host), "{host}");
        }
        for host in [
            "agents.test:7420",
            "agents.test:80",
            "agents.test:x",
            "[2001:db8::7]:7420",
            "localhost",
            "LOCALHOST:443",
            "127.0.0.1",
            "[::1]:443",
        ] {
            assert!(!may(host), "{host}");
        }
    }

    #[test]
    fn a_client_behind_trusted_proxies_has_its_own_address_or_none() {
        let trusted: Vec<IpNet> =
            ["127.0.0.0/8", "::1/128", "10.0.0.0/8"].map(|text| text.parse().unwrap()).into();
        let table: &[(&[&str], &str)] = &[
            (&[], "127.0.0.1"),
            (&["192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.1:4711"], "192.0.2.1"),
            (&["[2001:db8::1]:4711"], "2001:db8::1"),
            (&["[2001:db8::1]"], "2001:db8::1"),
            (&[" 2001:db8::1 "], "2001:db8::1"),
            (&["::ffff:192.0.2.1"], "192.0.2.1"),
            (&["192.0.2.7, 192.0.2.1, 10.0.0.1"], "192.0.2.1"),
            (&["192.0.2.1", "10.0.0.1:80, [::1]:80"], "192.0.2.1"),
            (&["10.0.0.2", "10.0.0.1"], "10.0.0.2"),
            // Not the proxy's own address, which would be this machine's.
            (&["unknown"], "0.0.0.0"),
            (&["_hidden"], "0.0.0.0"),
            (&[""], "0.0.0.0"),
            (&["\u{e9}"], "0.0.0.0"),
            (&["127.0.0.1:"], "0.0.0.0"),
            (&["127.0.0.1:99999"], "0.0.0.0"),
            (&["[127.0.0.1"], "0.0.0.0"),
            (&["\"127.0.0.1\""], "0.0.0.0"),
            (&["192.0.2.1, unknown, 10.0.0.1"], "0.0.0.0"),
            (&["192.0.2.1,"], "0.0.0.0"),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in *values {
                let value = HeaderValue::from_bytes(value.as_bytes()).unwrap();
                headers.append("x-forwarded-for", value);
            }
            let of = |peer: &str| client_address(&trusted, peer.parse().unwrap(), &headers);
            let expected: IpAddr = expected.parse().unwrap();
            assert_eq!(of("127.0.0.1"), expected, "{values:?}");
            assert_eq!(of("::ffff:127.0.0.1"), expected, "{values:?}");
            // A peer that is no trusted proxy is the client, whatever it sends.
            assert_eq!(of("198.51.100.1").to_string(), "198.51.100.1");
        }
    }
}
