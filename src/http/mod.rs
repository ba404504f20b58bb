//! HTTP: an adapter of [`api::execute`](crate::api::execute). It translates bytes, statuses and
//! headers; authorization and execution happen there.
//!
//! This layer knows no resource: it gets a list of routes and of pages.

mod body;
mod context;
mod document;
mod framing;
mod handler;
mod headers;
mod metrics;
mod page;
mod pages;
mod problem;
mod reply;
mod response;
mod router;
mod server;
mod sse;
mod wire;

pub use body::AnonymousBudget;
pub use context::Context;
pub use document::Document;
pub use metrics::Metrics;
pub use page::Page;
pub use router::Router;
pub use server::serve;

#[cfg(test)]
mod tests;
