//! The export of spans to the collector that the operator names (reference: command-line, "Traces").
//!
//! What answers requests puts a span into a queue and never waits: if that is full, the span is dropped
//! and counted. One task sends batches, one after the other and each once. While the collector fails it
//! is asked less and less often. Its address is not restricted as those of other calls are: it is the
//! operator's choice, and collectors are mostly on the same machine or network.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::{Notify, watch};
use tokio::time::{sleep, timeout};

use super::call::{BodyLimit, Call, Failure, Limits, Method, Response};
use super::client::{ClientConfig, Outside};
use super::connect::{Resolver, Target};
use super::otlp::{self, Service, Side, Span, SpanTarget};
use crate::base::metrics::{Counter, Family};
use crate::base::{self, LogLimit, TraceParent};

/// Spans that wait to be sent: some 200 bytes each.
const MAX_QUEUED: usize = 4096;

/// Spans of a batch. It is sent when there are as many, or after [`EVERY`].
const MAX_BATCH: usize = 512;
const EVERY: Duration = Duration::from_secs(5);

/// While the collector fails, it is asked after 5, 10, 20 … seconds, up to this.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// A call has ten seconds. Of the answer little is of interest.
const LIMITS: Limits = Limits {
    total: Duration::from_secs(10),
    answer: BodyLimit::UpTo(64 * 1024),
    https_only: false,
};

/// Says what time it is, in nanoseconds since 1970, and gives random bytes.
pub type SpanClock = Box<dyn Fn() -> (u64, [u8; 24]) + Send + Sync>;

/// Spans on their way to a collector.
pub struct Spans {
    queue: Mutex<VecDeque<Span>>,
    /// Told when a batch is full.
    is_full: Notify,
    outside: Outside,
    target: SpanTarget,
    service: Service,
    clock: SpanClock,
    exported: Counter,
    dropped: Counter,
}

impl Spans {
    /// Spans of a server for a collector. Of `config` only the certificate authorities count.
    ///
    /// # Errors
    /// As [`Outside::new`].
    pub fn new(
        target: SpanTarget,
        service: Service,
        (config, resolver): (ClientConfig, Resolver),
        clock: SpanClock,
    ) -> base::Result<Self> {
        Ok(Spans {
            queue: Mutex::default(),
            is_full: Notify::new(),
            outside: Outside::new(config.to_everywhere())?.resolving(resolver),
            target,
            service,
            clock,
            exported: Counter::new(),
            dropped: Counter::new(),
        })
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<Span>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a span into the queue, or drops it if that is full.
    pub fn add(&self, span: Span) {
        let mut queue = self.queue();
        if queue.len() >= MAX_QUEUED {
            return self.dropped.add_one();
        }
        queue.push_back(span);
        if queue.len() == MAX_BATCH {
            self.is_full.notify_one();
        }
    }

    /// Begins the span of a call, unless it is told that the trace is not recorded. The calls to the
    /// collector have none.
    pub(super) fn calling(self: &Arc<Self>, call: &Call) -> Option<CallSpan> {
        let server = Target::parse(&call.url, false).ok()?.server();
        let told = call.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
        let told = told.and_then(|(_, value)| TraceParent::parse(value.as_bytes()));
        if told.is_some_and(|told| !told.is_sampled()) {
            return None;
        }
        let (start_nanos, random) = (self.clock)();
        let side = Side::Client { told, server, end: Err(DROPPED) };
        let method = call.method.name();
        let span = Span { parent: None, random, start_nanos, end_nanos: start_nanos, method, side };
        Some(CallSpan { spans: self.clone(), span: Some(span) })
    }

    /// What is counted.
    pub fn families(&self) -> Vec<Family> {
        let exported = "Spans that the collector has taken";
        let dropped =
            "Spans that were not sent: the queue was full, or the collector did not take them";
        vec![
            Family::counter("roadstead_otlp_spans_exported", exported, &self.exported),
            Family::counter("roadstead_otlp_spans_dropped", dropped, &self.dropped),
        ]
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
                let batch = self.batch();
                let has_more = batch.len() == MAX_BATCH;
                if !batch.is_empty() {
                    failures = if self.send(&batch).await { 0 } else { failures + 1 };
                }
                if failures > 0 || !has_more {
                    break;
                }
            }
            if is_last {
                let left = std::mem::take(&mut *self.queue()).len();
                return self.dropped.add(left as u64);
            }
        }
    }

    /// Waits until a batch is to be sent, after so many failures in a row.
    async fn due(&self, failures: u32) {
        match failures {
            // Whether there are enough or it is time does not matter.
            0 => drop(timeout(EVERY, self.is_full.notified()).await),
            _ => sleep((EVERY * (1 << (failures - 1).min(4))).min(LONGEST_PAUSE)).await,
        }
    }

    fn batch(&self) -> Vec<Span> {
        let mut queue = self.queue();
        let len = queue.len().min(MAX_BATCH);
        queue.drain(..len).collect()
    }

    /// Sends a batch once; returns whether the collector has answered with success.
    async fn send(&self, batch: &[Span]) -> bool {
        let mut headers = self.target.headers.clone();
        headers.push(("content-type".into(), "application/json".into()));
        let answer = self.outside.send(Call {
            method: Method::Post,
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
        self.exported.add(batch.len() as u64 - dropped);
        self.dropped.add(dropped);
        static LIMIT: LogLimit = LogLimit::new();
        if dropped > 0
            && let Some(suppressed) = LIMIT.admit(Instant::now())
        {
            tracing::warn!(spans = dropped, problem, suppressed, "spans could not be exported");
        }
        is_success
    }
}

/// Why a call has no answer that nobody waited for any more.
const DROPPED: &str = "cancelled";

/// The span of a call under way. It is exported when it is dropped, too.
pub(super) struct CallSpan {
    spans: Arc<Spans>,
    span: Option<Span>,
}

impl CallSpan {
    /// Ends it, unless the call was not made.
    pub fn end(mut self, answer: &Result<Response, Failure>) {
        let known = match answer {
            Ok(answer) => Some(Ok(answer.status)),
            Err(failure) => otlp::reason(failure).map(Err),
        };
        match (known, self.span.as_mut().map(|span| &mut span.side)) {
            (Some(known), Some(Side::Client { end, .. })) => *end = known,
            _ => self.span = None,
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        if let Some(span) = self.span.take() {
            let (end_nanos, _) = (self.spans.clock)();
            self.spans.add(Span { end_nanos: end_nanos.max(span.start_nanos), ..span });
        }
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
