//! The web console as people use it: pages and forms over sockets, and in a real browser.

#![allow(clippy::unwrap_used)] // A test that cannot go on should stop.

#[path = "../client/mod.rs"]
mod client;
mod agents;
mod crawl;
mod filled;
mod forms;
mod html;
mod journeys;
mod outside;
mod pictures;
mod prompts;
mod server;
mod operations;
mod sessions;
mod settings;
#[path = "../api/sites.rs"]
mod sites;
mod system;
mod teams;
mod work;
mod visitor;
mod webdriver;
