//! From bytes to a route and back: the server, the gate, errors, waiting.
//!
//! This room knows no resource: it is handed a list of routes.

mod body;
mod gate;
mod limits;
mod pages;
mod problem;
mod reply;
mod router;
mod server;
mod uses;
mod wait;
mod wire;
mod write;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use hyper::Response;
use hyper::header::{HOST, HeaderMap};
use hyper::http::request::Parts;
use ipnet::IpNet;
use tokio::sync::watch;

pub use limits::Limits;
pub use reply::{Reply, json, json_bytes};
pub use router::Router;
pub use server::{Body, serve};
pub use uses::{FLUSH_EVERY_SECS, KeyUses};

use crate::auth::Gatekeeper;
use crate::auth::passwords::Passwords;
use crate::base::{Error, Result};
use crate::store::Store;

/// What every request is answered with.
pub struct Context {
    /// The store.
    pub store: Store,
    /// Who calls.
    pub gatekeeper: Gatekeeper,
    /// Where passwords are hashed.
    pub passwords: Passwords,
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
    /// The OpenAPI document.
    pub document: Vec<u8>,
    /// Whether only setting up is possible: listening beyond this machine without any user.
    pub setup_required: AtomicBool,
    /// Whether the server stops.
    pub stopping: watch::Receiver<bool>,
}

impl Context {
    /// What links to this server begin with: `--public-url`, or the Host header when it names this
    /// machine; else nothing, and links are paths (contract §2).
    fn link_base(&self, headers: &HeaderMap) -> String {
        if let Some(url) = &self.public_url {
            return url.clone();
        }
        let host = headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default();
        let name = match host.strip_prefix('[') {
            Some(rest) => rest.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        let here = name.eq_ignore_ascii_case("localhost")
            || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback());
        if here { ["http://", host].concat() } else { String::new() }
    }

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
        Some("/openapi.json") => pages::document(context, method, request_id),
        Some(below) if below.starts_with('/') => {
            api(context, head, body, below, address, request_id).await
        }
        _ => pages::page(context, method, path, request_id),
    };
    let response = answered.unwrap_or_else(|error| {
        if let Some(detail) = error.log_detail() {
            tracing::error!(request_id, code = error.code(), detail, "a request failed");
        }
        let mut response = problem::reply(&error, request_id);
        if error.kind() == crate::base::Kind::Limited {
            limits::tell(&context.limits, &error, response.headers_mut());
        }
        response
    });
    tracing::debug!(request_id, %method, path, status = response.status().as_u16(), "answered");
    response
}

async fn api(
    context: &Arc<Context>,
    head: &Parts,
    body: &mut Body,
    path: &str,
    address: IpAddr,
    request_id: &str,
) -> Result<Response<Reply>> {
    if context.setup_required.load(Ordering::Relaxed) && path != "/setup" {
        return Err(Error::busy(
            "setup_required",
            "nobody has set this server up yet; open the setup link that it printed",
            10,
        ));
    }
    let answered = gate::pass(context, head, body, path, address, request_id).await;
    if answered.is_ok() && path == "/setup" {
        context.setup_required.store(false, Ordering::Relaxed);
    }
    answered
}
