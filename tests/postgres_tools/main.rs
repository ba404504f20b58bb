//! A store in PostgreSQL as an operator has it: moved there and back, backed up, checked, its key
//! replaced; and what becomes of acknowledged writes when the database server fails.
#![cfg(feature = "postgres")]
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

#[path = "../client/mod.rs"]
mod client;
#[path = "../postgres_server/mod.rs"]
mod postgres_server;
#[allow(dead_code)] // A part is enough here.
#[path = "../cli/process.rs"]
mod process;

mod failover;
mod filled;
mod moving;
mod outage;
mod relay;
mod tools;
mod writers;
