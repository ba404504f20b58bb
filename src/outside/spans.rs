//! The export of spans to the collector that the operator names (reference: command-line, "Traces").
//!
//! What answers requests puts a span into a queue and never waits: if that is full, the span is dropped
//! and counted. One task sends batches, one after the other and each once. While the collector fails it
//! is asked less and less often. Its address is not restricted as those of other calls are: it is the
//! operator's choice, and collectors are mostly on the same machine or network.

use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::Method;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use super::call::{BodyLimit, Call, Failure, Limits};
use super::client::{ClientConfig, Outside};
use super::connect::Resolver;
use super::otlp::{self, Service, SpanTarget};
use super::span::{MAX_BATCH, Span, Spans};
use crate::base::{self, LogLimit};

/// A batch is sent when it is full, or after this.
const EVERY: Duration = Duration::from_secs(5);

/// While the collector fails, it is asked after 5, 10, 20 … seconds, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A call has ten seconds. Of the answer little is of interest.
const LIMITS: Limits = Limits {
    total: Duration::from_secs(10),
    answer: BodyLimit::UpTo(64 * 1024),
    https_only: false,
};

/// Sends spans to a collector.
pub struct SpanExporter {
    /// Those that wait for it.
    pub spans: Arc<Spans>,
    outside: Outside,
    target: SpanTarget,
    service: Service,
}

impl SpanExporter {
    /// An exporter of spans of a server. Of `config` only the certificate authorities count.
    ///
    /// # Errors
    /// As [`Outside::new`].
    pub fn new(
        spans: Arc<Spans>,
        target: SpanTarget,
        service: Service,
        (config, resolver): (ClientConfig, Resolver),
    ) -> base::Result<Self> {
        // Without spans of its own.
        let outside = Outside::new(config.to_everywhere())?.resolving(resolver);
        Ok(SpanExporter { spans, outside, target, service })
    }

    /// Sends batches until `stopping` becomes true; then what is left, unless that fails.
    pub async fn export(&self, mut stopping: watch::Receiver<bool>) {
        let mut failures = 0;
        loop {
            let is_last = tokio::select! {
                () = self.due(failures) => false,
                _ = stopping.wait_for(|stopping| *stopping) => true,
            };
            loop {
                let batch = self.spans.batch();
                let has_more = batch.len() == MAX_BATCH;
                if !batch.is_empty() {
                    failures = if self.send(&batch).await { 0 } else { failures + 1 };
                }
                if failures > 0 || !has_more {
                    break;
                }
            }
            if is_last {
                return self.spans.drop_all();
            }
        }
    }

    /// Waits until a batch is to be sent, after so many failures in a row.
    async fn due(&self, failures: u32) {
        match failures {
            // Whether there are enough or it is time does not matter.
            0 => drop(timeout(EVERY, self.spans.is_full.notified()).await),
            _ => sleep((EVERY * (1 << (failures - 1).min(4))).min(LONGEST_PAUSE)).await,
        }
    }

    /// Sends a batch once; returns whether the collector has answered with success.
    async fn send(&self, batch: &[Span]) -> bool {
        let mut headers = self.target.headers.clone();
        headers.push(("content-type".into(), "application/json".into()));
        let answer = self.outside.send(Call {
            method: Method::POST,
            url: self.target.url.clone(),
            headers,
            body: otlp::body(&self.service, batch),
            limits: LIMITS,
        });
        // Of an answer only the status is logged: it may repeat the headers.
        let (is_success, problem, dropped) = match answer.await {
            Ok(answer) if answer.is_success() => {
                let rejected = otlp::rejected(&answer.body).min(batch.len() as u64);
                (true, format!("{} refused some", self.target.host()), rejected)
            }
            Ok(answer) => {
                let problem = format!("{} answered {}", self.target.host(), answer.status);
                (false, problem, batch.len() as u64)
            }
            Err(failure) => (false, reason(&failure), batch.len() as u64),
        };
        self.spans.exported.add(batch.len() as u64 - dropped);
        self.spans.dropped.add(dropped);
        static LIMIT: LogLimit = LogLimit::new();
        if dropped > 0
            && let Some(suppressed) = LIMIT.admit(Instant::now())
        {
            tracing::warn!(spans = dropped, problem, suppressed, "spans could not be exported");
        }
        is_success
    }
}

/// Why there is no answer. Unlike others who cause calls, the operator may know all of it.
fn reason(failure: &Failure) -> String {
    match failure {
        Failure::Name { host, reason } => format!("{host} cannot be resolved: {reason}"),
        Failure::Address { host, .. } => {
            format!("{host} has the address of a cloud's metadata, which is never called")
        }
        _ => failure.to_string(),
    }
}
