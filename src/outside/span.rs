//! Spans on their way: of requests that were answered, and of calls.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use hyper::Method;
use tokio::sync::Notify;

use super::call::{Call, Failure, Response};
use super::connect::Target;
use crate::base::TraceParent;
use crate::base::metrics::{Counter, Family};

/// Spans that wait to be sent: some 200 bytes each.
const MAX_QUEUED: usize = 4096;

/// Spans of a batch.
pub(super) const MAX_BATCH: usize = 512;

/// Says what time it is, in nanoseconds since 1970, and gives random bytes.
pub type SpanClock = Box<dyn Fn() -> (u64, [u8; 24]) + Send + Sync>;

/// A request that was answered, or a call that was made.
#[derive(Clone, Debug)]
pub struct Span {
    /// The trace, and the part of it that called, which for a call is one of this server; none if the span
    /// begins one.
    pub parent: Option<TraceParent>,
    /// Random bytes: for the id of the span, and for that of the trace which it begins.
    pub random: [u8; 24],
    /// When it began, in nanoseconds since 1970.
    pub start_nanos: u64,
    /// When its answer began, or the call ended.
    pub end_nanos: u64,
    /// `_OTHER` for one that is not known.
    pub method: &'static str,
    pub side: Side,
}

/// What is known of a span by who made it.
#[derive(Clone, Debug)]
pub enum Side {
    /// A request that this server has answered.
    Server {
        /// The pattern of the path; none if there is no such path.
        route: Option<String>,
        is_tls: bool,
        status: u16,
    },
    /// A call that it has made.
    Client {
        /// What the call told whom it called: the trace, and this span as a part of it.
        told: Option<TraceParent>,
        /// Host, port and whether it is encrypted.
        server: (String, u16, bool),
        /// The status, or why there is no answer, in a word.
        end: Result<u16, &'static str>,
    },
}

impl Span {
    /// The status, if there is an answer.
    pub(super) fn status(&self) -> Option<u16> {
        match &self.side {
            Side::Server { status, .. } => Some(*status),
            Side::Client { end, .. } => end.ok(),
        }
    }

    /// What went wrong; nothing of a client's errors in spans of the server, as the conventions have it.
    pub(super) fn error(&self) -> Option<String> {
        let failing = match &self.side {
            Side::Server { .. } => 500,
            Side::Client { end: Err(reason), .. } => return Some(reason.to_string()),
            Side::Client { .. } => 400,
        };
        self.status().filter(|status| *status >= failing).map(|status| status.to_string())
    }
}

/// Why a call has no answer, in a word. `None` if it was not made.
fn reason(failure: &Failure) -> Option<&'static str> {
    match failure {
        Failure::Url(_)
        | Failure::Header { .. }
        | Failure::Busy
        | Failure::TooMuch
        | Failure::TooOften { .. } => None,
        Failure::Name { .. } => Some("name_resolution"),
        Failure::Address { .. } => Some("address_not_allowed"),
        Failure::Connect { .. } => Some("connection"),
        Failure::Tls { .. } => Some("tls"),
        Failure::TimedOut { .. } | Failure::Silent { .. } => Some("timeout"),
        Failure::TooLarge { .. } => Some("answer_too_large"),
        Failure::Protocol { .. } => Some("protocol"),
    }
}

/// A method as spans name it: one that a client makes up is none of its own.
pub fn method_name(method: &Method) -> &'static str {
    const KNOWN: [&str; 9] =
        ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"];
    KNOWN.into_iter().find(|known| *known == method.as_str()).unwrap_or("_OTHER")
}

/// Spans on their way to a collector.
pub struct Spans {
    queue: Mutex<VecDeque<Span>>,
    /// Told when a batch is full.
    pub(super) is_full: Notify,
    clock: SpanClock,
    pub(super) exported: Counter,
    pub(super) dropped: Counter,
}

impl Spans {
    /// No spans, and what those of calls are timed by.
    pub fn new(clock: SpanClock) -> Self {
        Spans {
            queue: Mutex::default(),
            is_full: Notify::new(),
            clock,
            exported: Counter::new(),
            dropped: Counter::new(),
        }
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

    /// Begins the span of a call, unless it is told that the trace is not recorded.
    pub(super) fn calling(
        self: &Arc<Self>,
        call: &Call,
        parent: Option<TraceParent>,
    ) -> Option<CallSpan> {
        let server = Target::parse(&call.url, false).ok()?.server();
        let told = call.headers.iter().find(|(name, _)| name.eq_ignore_ascii_case("traceparent"));
        let told = told.and_then(|(_, value)| TraceParent::parse(value.as_bytes()));
        if told.or(parent).is_some_and(|trace| !trace.is_sampled()) {
            return None;
        }
        let (start_nanos, random) = (self.clock)();
        let side = Side::Client { told, server, end: Err(DROPPED) };
        let method = method_name(&call.method);
        let span = Span { parent, random, start_nanos, end_nanos: start_nanos, method, side };
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

    /// Takes the next ones, as many as a batch has.
    pub(super) fn batch(&self) -> Vec<Span> {
        let mut queue = self.queue();
        let len = queue.len().min(MAX_BATCH);
        queue.drain(..len).collect()
    }

    /// Drops and counts those that are left.
    pub(super) fn drop_all(&self) {
        let left = std::mem::take(&mut *self.queue()).len();
        self.dropped.add(left as u64);
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
            Err(failure) => reason(failure).map(Err),
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
