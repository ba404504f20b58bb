//! Roadstead: one self-hosted binary in which a small team keeps its AI agents.
//!
//! The modules are layers; which may import which is checked by `tests/tidy.rs` and explained in
//! `docs/ARCHITECTURE.md`.

pub mod api;
pub mod app;
pub mod auth;
pub mod base;
pub mod cli;
pub mod console;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod http;
pub mod mcp;
pub mod outbox;
pub mod outside;
pub mod resources;
pub mod store;
pub mod templates;
