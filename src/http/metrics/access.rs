//! Who may read the metrics: callers on this machine, and others with a credential.

use std::net::IpAddr;

use hyper::header::{FORWARDED, HeaderMap, HeaderName, VIA};
use hyper::http::request::Parts;

use crate::auth::{ScopeName, key_organization, require_installation_admin};
use crate::base::{Error, Id, Result};
use crate::http::context::{ServerContext, is_to_this_machine};
use crate::http::headers::raw_credential;
use crate::http::tls::OverTls;
use crate::store::View;

/// The headers that proxies add.
const OF_PROXIES: [HeaderName; 7] = [
    FORWARDED,
    VIA,
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-host"),
    HeaderName::from_static("x-forwarded-port"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-real-ip"),
];

/// Requires that the caller may read the metrics: one on this machine that no proxy stands before,
/// or one with the metrics token or the API key, with the scope `metrics:read`, of an admin who
/// administers the installation.
///
/// # Errors
/// 401 without a valid credential, 403 without the right.
pub async fn require_access(context: &ServerContext, peer: IpAddr, head: &Parts) -> Result<()> {
    let headers = &head.headers;
    // A proxy on this machine connects from here too: what it adds distinguishes its clients. One that
    // passes TLS through can add nothing, so there the host must be this machine.
    let is_passed_on = OF_PROXIES.iter().any(|name| headers.contains_key(name))
        || head.extensions.get::<OverTls>().is_some() && !is_to_this_machine(headers);
    let is_direct = !is_passed_on;
    if peer.to_canonical().is_loopback() && is_direct {
        return Ok(());
    }
    if context.metrics_token.as_ref().is_some_and(|token| token.is_in(headers)) {
        return Ok(());
    }
    require_admin_key(context, headers).await
}

async fn require_admin_key(context: &ServerContext, headers: &HeaderMap) -> Result<()> {
    let credential = raw_credential(headers);
    let authenticator = &context.executor.authenticator;
    let check = |view: &View| {
        let identity = authenticator.identify(view, &credential)?;
        let org = key_organization(&identity).unwrap_or(Id::NIL);
        match authenticator.authorize_in(view, &credential, org) {
            Ok(caller) if caller.is_admin() => {
                caller.require_scope(ScopeName::MetricsRead, None)?;
                require_installation_admin(view, &caller.identity)
            }
            _ => Err(Error::forbidden(
                "admin_required",
                "from another machine this takes the metrics token (--metrics-token) or the API \
                 key of an organization admin",
            )),
        }
    };
    context.executor.store.read(Id::NIL, check).await
}
