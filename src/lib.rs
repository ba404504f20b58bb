//! Roadstead: one self-hosted binary in which a small team keeps its AI agents.
//!
//! The rooms of the house, each importing only from those above it (`tests/tidy.rs` checks it,
//! `docs/ARCHITECTURE.md` explains it).

pub mod api;
pub mod app;
pub mod auth;
pub mod base;
pub mod cli;
pub mod http;
pub mod outbox;
pub mod outside;
pub mod resources;
pub mod store;
pub mod templates;
