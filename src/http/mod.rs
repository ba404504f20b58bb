//! HTTP: an adapter of [`api::execute`](crate::api::execute). It translates bytes, statuses and
//! headers; authorization and execution happen there.
//!
//! This layer knows no resource: it gets a list of routes, of pages and of public documents.

mod body;
mod connections;
mod context;
mod document;
mod fair_budget;
mod framing;
mod handler;
mod headers;
mod metrics;
mod observed;
mod page;
mod pages;
mod problem;
mod public_documents;
mod response_body;
mod response;
mod router;
mod server;
mod sse;
mod wire;

pub use body::BodyBudgets;
pub use connections::max_connections;
pub use context::ServerContext;
pub use document::Document;
pub use metrics::{Metrics, MetricsToken, Source, Sources};
pub use page::HtmlPage;
pub use pages::PATHS;
pub use router::Router;
pub use server::serve;

#[cfg(test)]
mod tests;
