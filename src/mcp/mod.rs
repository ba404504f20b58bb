//! The Model Context Protocol at POST `/api/mcp`, an adapter of
//! [`api::execute`](crate::api::execute) beside HTTP's own (reference: mcp).
//!
//! A tool, a prompt or a resource is what routes of the API answer to the key of the request
//! ([`api`](self::api)), so that rights, audit, idempotency, limits and waits are the API's. This
//! layer knows no record of the product. It keeps nothing between two requests: of the revisions
//! with a handshake it answers each request by itself.

mod api;
mod brief;
mod completion;
mod era;
mod failure;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod listen;
mod listen_stream;
mod message;
mod methods;
mod origin;
mod params;
mod prompts;
mod resources;
mod revision;
mod server;
mod strict;
mod tools;
mod uri;
mod walk;
mod watched;

pub use revision::supported as revisions;
pub use server::{Mcp, PATH};
pub use tools::{ToolInfo, tools};
