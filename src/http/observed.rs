//! What the metrics and the log say about a request.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::http::request::Parts;

use super::context::ServerContext;
use super::metrics::Endpoint;
use super::tls::OverTls;
use crate::auth::Identity;
use crate::auth::nostr::Signer;
use crate::base::{Error, TraceParent};
use crate::outside::{Side, Span, Spans, method_name};

/// The principal of a request without a credential.
const ANONYMOUS: &str = "anonymous";

/// What becomes known about a request while it is handled.
pub struct Observed {
    begun: Instant,
    /// The trace that it belongs to, with its own span as the caller of what follows, if that is exported.
    pub trace: Option<TraceParent>,
    /// The part of a trace that made it, as its header says.
    parent: Option<TraceParent>,
    /// Random bytes of its span, if spans are exported.
    random: Option<[u8; 24]>,
    /// What it asks for.
    pub endpoint: Endpoint,
    /// Who asks; none before the credential is verified, and without one.
    pub caller: Option<Arc<Identity>>,
    /// The outside agent that signed the request.
    pub signer: Option<Arc<Signer>>,
}

impl Observed {
    /// A request whose handling begins now, with its header, and random bytes if spans are exported.
    pub fn begin(parent: Option<TraceParent>, random: Option<[u8; 24]>) -> Self {
        let own = random.and_then(|random| own_trace(parent, random));
        Observed {
            begun: Instant::now(),
            trace: own.or(parent),
            parent,
            random,
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

    /// Counts the response and, at `debug`, writes the line of the request. Adds its span, if there is a
    /// collector for them.
    pub fn answered(
        &self,
        context: &ServerContext,
        head: &Parts,
        status: u16,
        client: IpAddr,
        request_id: &str,
    ) {
        let duration = self.begun.elapsed();
        context.metrics.answered(self.endpoint, status, duration);
        if let Some(spans) = &context.spans {
            self.add_span(spans, context, head, status, duration);
        }
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

    /// Adds the span of a request, unless its caller does not record the trace.
    fn add_span(
        &self,
        spans: &Spans,
        context: &ServerContext,
        head: &Parts,
        status: u16,
        duration: Duration,
    ) {
        let Some(random) = self.random else { return };
        if self.parent.is_some_and(|parent| !parent.is_sampled()) {
            return;
        }
        let clock = context.executor.store.clock();
        let end_nanos = clock.now_nanos();
        let took = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        spans.add(Span {
            parent: self.parent,
            random,
            start_nanos: end_nanos.saturating_sub(took),
            end_nanos,
            method: method_name(&head.method),
            side: Side::Server {
                route: (self.endpoint != Endpoint::Unmatched).then(|| self.endpoint.route()),
                is_tls: head.extensions.get::<OverTls>().is_some(),
                status,
            },
        });
    }
}

/// The trace of a request with its own span, of which these are the ids ([`Span::random`]); `None` if its
/// caller does not record the trace.
fn own_trace(parent: Option<TraceParent>, random: [u8; 24]) -> Option<TraceParent> {
    let (span, trace) = random.split_first_chunk::<8>()?;
    match parent {
        Some(parent) => parent.is_sampled().then(|| parent.of_span(*span)),
        None => TraceParent::begin(trace.try_into().ok()?, *span),
    }
}
