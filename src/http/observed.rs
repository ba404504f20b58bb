//! What the metrics and the log say about a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Instant;

use super::context::ServerContext;
use super::metrics::Endpoint;
use crate::auth::Identity;
use crate::auth::nostr::Signer;
use crate::base::{Error, TraceParent};

/// The principal of a request without a credential.
const ANONYMOUS: &str = "anonymous";

/// What becomes known about a request while it is handled.
pub struct Observed {
    begun: Instant,
    /// The trace that it belongs to.
    pub trace: Option<TraceParent>,
    /// What it asks for.
    pub endpoint: Endpoint,
    /// Who asks; none before the credential is verified, and without one.
    pub caller: Option<Arc<Identity>>,
    /// The outside agent that signed the request.
    pub signer: Option<Arc<Signer>>,
}

impl Observed {
    /// A request whose handling begins now.
    pub fn begin(trace: Option<TraceParent>) -> Self {
        Observed {
            begun: Instant::now(),
            trace,
            endpoint: Endpoint::Unmatched,
            caller: None,
            signer: None,
        }
    }

    /// Counts the error of a request and, if a rate limit refused it, writes a line.
    pub fn failed(&self, context: &ServerContext, error: &Error, client: IpAddr, request_id: &str) {
        let Some(limit) = error.reached() else { return };
        let Some(suppressed) = context.executor.meters.limited(limit, Instant::now()) else {
            return;
        };
        let (method, route) = (self.endpoint.method(), self.endpoint.route());
        // Its detail is the credential; without one the limit is that of the address.
        let principal = error.log_detail().unwrap_or(ANONYMOUS);
        let trace_id = self.trace.map(|trace| trace.trace_id());
        tracing::info!(
            %client, limit = limit.name, method, route, principal, request_id, trace_id,
            suppressed,
            "rate limit reached"
        );
    }

    /// Counts the response and, at `debug`, writes the line of the request.
    pub fn answered(&self, context: &ServerContext, status: u16, client: IpAddr, request_id: &str) {
        let duration = self.begun.elapsed();
        context.metrics.answered(self.endpoint, status, duration);
        if !tracing::enabled!(tracing::Level::DEBUG) {
            return;
        }
        let principal = match (&self.caller, &self.signer) {
            (Some(caller), _) => caller.to_string(),
            (None, Some(signer)) => format!("nostr:{}", &*signer.pubkey),
            (None, None) => ANONYMOUS.into(),
        };
        tracing::debug!(
            %client,
            method = self.endpoint.method(),
            route = self.endpoint.route(),
            status,
            duration_ms = duration.as_micros() as f64 / 1000.0,
            principal,
            request_id,
            trace_id = self.trace.map(|trace| trace.trace_id()),
            "answered"
        );
    }
}
