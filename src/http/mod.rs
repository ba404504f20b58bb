//! HTTP: an adapter of [`api::execute`](crate::api::execute). It translates bytes, statuses and
//! headers; authorization and execution happen there.
//!
//! This layer knows no resource: it gets a list of routes and of public documents, a site of pages,
//! and other protocols, each with a path.

mod answering;
mod asker;
mod body;
mod connection_state;
mod connections;
mod context;
mod document;
mod fair_budget;
mod frames;
mod framing;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod gzip;
mod handler;
mod headers;
mod http2;
mod in_process;
mod listener;
mod metrics;
mod observed;
mod pages;
mod problem;
mod protocol;
mod public_documents;
mod redirect;
mod response_body;
mod response;
mod router;
mod securing;
mod server;
mod site;
mod sse;
mod tls;
mod transport;
mod wire;
mod within;

pub use asker::Asker;
pub use body::{BodyBudgets, MAX_FORM_BYTES, MAX_OPEN_BODY_BYTES, MAX_PARTS_BYTES, SentBytes};
pub use connections::max_connections;
pub use context::{ServerContext, is_at_other_port, names_this_machine};
pub use document::Document;
pub use gzip::{accepts_gzip, gzip};
pub use handler::log_failure;
pub use headers::user_agent;
pub use in_process::{InProcess, RouteCall};
pub use listener::{Listener, Speaks};
pub use metrics::{Metrics, MetricsToken, RequestTotals, Source, Sources, StoredSources};
pub use pages::PATHS;
pub use problem::{body as problem_body, status};
pub use protocol::{Protocol, begin_waiting, json_response};
pub use redirect::Redirect;
pub use response_body::{BodyAborted, ResponseBody};
pub use router::{Match, Router};
pub use server::serve;
pub use site::{Site, SiteBody, SiteFuture, SitePath, SiteReply, SiteRequest, wants_html};
pub use sse::{event_stream, failed_events, text_events};
pub use tls::{CertificateFacts, Challenges, Pair, PairProblem, ServerTls};

#[cfg(test)]
mod tests;
