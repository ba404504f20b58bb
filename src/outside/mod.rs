//! Outgoing HTTP and mail, and child processes: the only layer that opens outgoing sockets.
//!
//! The client resolves names as the system does, refuses addresses that are not public, follows no
//! redirect, uses no proxy, and bounds every call in time and size
//! (reference: events, "Outgoing calls"). It knows no resource: a caller prepares a [`Call`] as
//! data, sends it outside of any transaction and settles its result.

mod addresses;
mod call;
mod child;
mod client;
mod connect;
mod idle;
mod lookup_limit;
pub mod mail;
mod many;
pub mod nip05;
mod otlp;
mod own_address;
mod recipients;
pub mod smtp;
mod span;
mod spans;
mod stream;
pub mod webhook;

#[cfg(test)]
mod tests;

pub use call::{BodyLimit, Call, Failure, Limits, Response};
pub use child::{ChildEnd, ChildLimits, Children};
pub use client::{ClientConfig, KeptConnections, Outside};
pub use connect::Resolver;
pub use hyper::Method;
pub use lookup_limit::is_lookup;
pub use many::CallResult;
pub use otlp::{Service, SpanTarget};
pub use own_address::own_address;
pub use span::{Side, Span, SpanClock, Spans, method_name};
pub use spans::SpanExporter;
pub use stream::{AnswerStream, Pauses};
