//! The context that all requests share.

use std::net::IpAddr;
use std::sync::{Arc, LazyLock};

use hyper::header::{HOST, HeaderMap};
use hyper::http::uri::Authority;
use ipnet::IpNet;

use super::body::AnonymousBudget;
use super::document::Document;
use super::metrics::Metrics;
use super::page::Page;
use super::router::Router;
use crate::api::execute::Executor;

/// The context that all requests share.
pub struct Context {
    pub executor: Arc<Executor>,
    /// The routes, by path.
    pub router: Router,
    /// The HTML pages outside of `/api`.
    pub pages: &'static [Page],
    /// `--public-url`, without a slash at its end.
    pub public_url: Option<String>,
    /// `--trusted-proxy`: proxies whose `X-Forwarded-For` is trusted.
    pub trusted_proxies: Vec<IpNet>,
    /// The OpenAPI document, generated at its first request: it takes more time and memory than the
    /// rest of the start.
    pub document: LazyLock<Document>,
    /// The memory budget for bodies of anonymous clients.
    pub anonymous: AnonymousBudget,
    pub metrics: Metrics,
}

impl Context {
    /// The client's address: the peer or, behind trusted proxies, the last address in
    /// `X-Forwarded-For` that is not one of them.
    pub(super) fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
        let trusted = |address: &IpAddr| self.trusted_proxies.iter().any(|n| n.contains(address));
        let mut address = peer.to_canonical();
        if !trusted(&address) {
            return address;
        }
        let forwarded: Vec<&str> = headers
            .get_all("x-forwarded-for")
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|value| value.split(','))
            .collect();
        for hop in forwarded.iter().rev() {
            let Ok(hop) = hop.trim().parse::<IpAddr>() else { break };
            address = hop.to_canonical();
            if !trusted(&address) {
                break;
            }
        }
        address
    }

    /// The base of links to this server.
    pub(super) fn link_base(&self, headers: &HeaderMap) -> String {
        link_base(self.public_url.as_deref(), headers)
    }
}

/// The base of links to this server: `--public-url`, or the Host header if it names this machine;
/// otherwise empty, and links are paths (reference: command-line, "Flags of serve").
pub(super) fn link_base(public_url: Option<&str>, headers: &HeaderMap) -> String {
    if let Some(url) = public_url {
        return url.into();
    }
    let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
    let Ok(host) = host.parse::<Authority>() else { return String::new() };
    let name = host.host();
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    let here = name.eq_ignore_ascii_case("localhost")
        || bare.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
    match (here, host.port_u16()) {
        (true, Some(port)) => format!("http://{name}:{port}"),
        (true, None) => format!("http://{name}"),
        (false, _) => String::new(),
    }
}
