//! From bytes to a route and back: the server, the gate, errors, waiting.
//!
//! This room knows no resource: it is handed a list of routes.

mod body;
mod calls;
mod framing;
mod gate;
mod limits;
mod metrics;
mod pages;
mod problem;
mod reply;
mod router;
mod server;
mod shared;
mod uses;
mod wait;
mod watching;
mod wire;
mod write;

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use hyper::Response;
use hyper::header::{HOST, HeaderMap};
use hyper::http::request::Parts;
use hyper::http::uri::Authority;
use ipnet::IpNet;
use tokio::sync::watch;

pub use body::Strangers;
pub use calls::{Searches, UnderWay};
pub use limits::Limits;
pub use metrics::Metrics;
pub use reply::{Reply, json, json_bytes};
pub use router::Router;
pub use server::{Body, serve};
pub use shared::Shared;
pub use uses::{FLUSH_EVERY_SECS, KeyUses};

use crate::auth::Gatekeeper;
use crate::auth::passwords::Passwords;
use crate::base::{Error, Kind};
use crate::outside::Outside;
use crate::store::Store;

/// What every request is answered with.
pub struct Context {
    /// The store.
    pub store: Store,
    /// Who calls.
    pub gatekeeper: Gatekeeper,
    /// Where passwords are hashed.
    pub passwords: Passwords,
    /// The way out.
    pub outside: Outside,
    /// Where searches that take long are made.
    pub searches: Searches,
    /// What is under way there.
    pub under_way: UnderWay,
    /// Answers that many wait for.
    pub shared: Shared,
    /// How often somebody may ask.
    pub limits: Limits,
    /// The routes.
    pub router: Router,
    /// When keys were used.
    pub uses: KeyUses,
    /// `--public-url`, without a slash at its end.
    pub public_url: Option<String>,
    /// `--trusted-proxy`: whose `X-Forwarded-For` is believed.
    pub trusted_proxies: Vec<IpNet>,
    /// The OpenAPI document, made when somebody first asks for it: it takes longer, and more
    /// memory, than everything else at the start.
    pub document: LazyLock<Bytes>,
    /// Whether only setting up is possible: listening beyond this machine without any user.
    pub setup_required: AtomicBool,
    /// Memory for bodies of callers without a credential.
    pub strangers: Strangers,
    /// What is counted.
    pub metrics: Metrics,
    /// Whether the server stops.
    pub stopping: watch::Receiver<bool>,
}

impl Context {
    /// Where a request comes from: the peer, or, behind trusted proxies, the last address in
    /// `X-Forwarded-For` that is none of theirs.
    fn address(&self, peer: IpAddr, headers: &HeaderMap) -> IpAddr {
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
}

/// What links to this server begin with: `--public-url`, or the Host header when it names this
/// machine; else nothing, and links are paths (contract §2).
fn link_base(public_url: Option<&str>, headers: &HeaderMap) -> String {
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

/// What answers while nobody has set up a server that listens beyond this machine (contract §2).
const ONCE_EMPTY: [&str; 4] = ["/api/setup", "/setup", "/healthz", "/readyz"];

/// Answers a request.
pub(crate) async fn answer(
    context: &Arc<Context>,
    head: &Parts,
    body: &mut Body,
    peer: IpAddr,
    request_id: &str,
) -> Response<Reply> {
    let (path, method) = (head.uri.path(), &head.method);
    let address = context.address(peer, &head.headers);
    let answered = match path.strip_prefix("/api") {
        _ if context.setup_required.load(Ordering::Relaxed) && !ONCE_EMPTY.contains(&path) => {
            Err(Error::busy(
                "setup_required",
                "nobody has set this server up yet; open the setup link that it printed",
                10,
            ))
        }
        Some("/openapi.json") => pages::document(context, method, request_id),
        Some(below) if below.starts_with('/') => {
            gate::pass(context, head, body, below, address, request_id).await
        }
        _ => pages::page(context, head, address, request_id),
    };
    if path == "/api/setup" && answered.as_ref().is_ok_and(|answer| answer.status().is_success()) {
        context.setup_required.store(false, Ordering::Relaxed);
    }
    let response = answered.unwrap_or_else(|error| {
        if let Some(detail) = error.log_detail() {
            match error.kind() {
                Kind::Internal | Kind::Upstream | Kind::Busy => {
                    tracing::error!(request_id, code = error.code(), detail, "a request failed");
                }
                // Clients can make as many of these as they like.
                _ => tracing::debug!(request_id, code = error.code(), detail, "a request failed"),
            }
        }
        let mut response = problem::reply(&error, request_id);
        limits::tell(&error, response.headers_mut());
        response
    });
    context.metrics.answered(response.status().as_u16());
    tracing::debug!(request_id, %method, path, status = response.status().as_u16(), "answered");
    response
}

#[cfg(test)]
mod tests;
