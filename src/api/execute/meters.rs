//! What executing requests counts for the metrics.

use std::time::Instant;

use crate::base::metrics::{Counter, Family, FamilyKind, Gauge};
use crate::base::{Error, Kind, LogLimit, ReachedLimit};

/// The names of the rate limits ([`ReachedLimit::name`]).
const LIMITS: [&str; 8] = [
    "default",
    "sign-in",
    "nip98",
    "nip98-network",
    "nip98-organization",
    "handle-checks",
    "model",
    "model-organization",
];

/// Requests refused by one rate limit.
#[derive(Default)]
struct LimitMeter {
    refused: Counter,
    /// One log line a second: clients can reach a limit as often as they like.
    lines: LogLimit,
}

/// What executing requests counts for the metrics.
#[derive(Default)]
pub struct Meters {
    /// Requests that wait for a change: long polls and event streams.
    pub waiting: Gauge,
    refused_sign_ins: Counter,
    limited: [LimitMeter; LIMITS.len()],
    limited_otherwise: LimitMeter,
}

impl Meters {
    /// Counts a request that a rate limit refused `now`. Returns whether it gets a line
    /// in the log: the number of those of the same limit that got none since the last line.
    pub fn limited(&self, limit: ReachedLimit, now: Instant) -> Option<u64> {
        let at = LIMITS.iter().position(|name| *name == limit.name);
        let meter = at.map_or(&self.limited_otherwise, |at| &self.limited[at]);
        meter.refused.add_one();
        meter.lines.admit(now)
    }

    /// Counts an attempt to verify a password that failed with `error`; returns whether the
    /// password was refused.
    pub fn sign_in_failed(&self, error: &Error) -> bool {
        // One that can be continued was right so far.
        let is_refused = matches!(error.kind(), Kind::Unauthenticated | Kind::Forbidden)
            && error.continuation().is_none();
        self.refused_sign_ins.add(u64::from(is_refused));
        is_refused
    }

    /// Returns the families for `/metrics`.
    pub fn families(&self) -> Vec<Family> {
        let limited =
            LIMITS.iter().copied().zip(self.limited.iter().map(|meter| meter.refused.value()));
        let otherwise = ("other", self.limited_otherwise.refused.value());
        vec![
            Family::gauge(
                "roadstead_waiting_requests",
                "Requests that wait for a change: long polls and event streams",
                self.waiting.value() as f64,
            ),
            Family::counter(
                "roadstead_sign_ins_refused",
                "Attempts with a wrong e-mail address, password or code",
                &self.refused_sign_ins,
            ),
            Family::by_label(
                "roadstead_rate_limited_requests",
                "Requests refused by a rate limit",
                FamilyKind::Counter,
                "limit",
                limited.chain([otherwise]),
            ),
        ]
    }
}
