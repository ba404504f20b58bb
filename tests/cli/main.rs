//! The binary itself: its commands, what it prints, how it ends, and what is left after it was
//! killed (contract §2).
#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
mod process;
mod search;
mod shelf;

mod commands;
mod crash;
mod demo;
mod keys;
mod secrets;
mod serving;
