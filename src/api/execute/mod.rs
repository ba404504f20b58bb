//! The execution of a route for a caller: authorization, audit, idempotency, conditional requests,
//! rate limits, waiting, outgoing calls and password hashing, the same for every adapter.
//!
//! An adapter (HTTP, a console, MCP, tests) finds the route, builds a [`Request`], and translates
//! the [`Response`] for its client. In between, every request passes the same steps, in
//! `pipeline.rs`.

mod answer_quota;
mod authorize;
mod audit;
mod batch;
mod call_round;
mod condition;
mod content_cache;
mod context;
mod coordination;
mod download;
mod etag;
mod exchanges;
mod executor;
mod follow;
mod hash;
mod last_uses;
mod meters;
mod not_found;
mod outside_calls;
mod pipeline;
mod rate_limits;
mod read;
mod refusal_delay;
mod replay;
mod request;
mod response;
mod searches;
mod signature_checks;
mod signed;
mod signed_limits;
mod stream;
#[cfg(test)]
mod tests;
mod wait;
mod waiter;
mod watch;
mod works;
mod write;

pub use content_cache::ContentCache;
pub use coordination::{Coordination, OnSetup};
pub use download::DownloadStream;
pub use etag::Etag;
pub use executor::{Executor, ExecutorConfig};
pub use last_uses::{FLUSH_EVERY_SECS, KeyUsage, SessionUsage};
pub use meters::Meters;
pub use rate_limits::RateLimits;
pub use request::{Arguments, Authenticated, Preconditions, Request};
pub use response::{Body, Response};
pub use stream::{MAX_TEXT_STALL, StreamEvent, TextStream};
pub use wait::ItemStream;
pub use works::Slot;

pub use crate::store::ReadPoint;
