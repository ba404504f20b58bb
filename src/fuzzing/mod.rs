//! What fuzzing tries: functions that read bytes of others, or keep what is committed, with any bytes.
//! Each is compared with a model, or with what must hold for every input; a fault is a panic.
//!
//! `cargo fuzz` searches for such inputs (the package in `fuzz/`). Its corpus and mutations of it are
//! ordinary tests as well.

pub mod script;

use crate::{api, app, auth, cli, console, http, mcp, resources, store};

/// A function that any bytes may be given to.
pub type Target = fn(&[u8]);

/// The targets by name, that of the target of `cargo fuzz` and of its corpus.
pub const TARGETS: [(&str, Target); 11] = [
    ("map", store::engine::fuzzing::map),
    ("record", store::engine::fuzzing::record),
    ("replay", store::engine::fuzzing::replay),
    ("framing", http::fuzzing::framing),
    ("input", api::read::fuzzing::input),
    ("cursor", cursor),
    ("files", cli::fuzzing::files),
    ("backup", app::backup::fuzzing::backup),
    ("event", auth::nostr::fuzzing::event),
    ("markdown", console::fuzzing::markdown),
    ("stream", resources::fuzzing::stream),
];

/// Cursors of the API, and those of the Model Context Protocol.
fn cursor(input: &[u8]) {
    api::fuzzing::cursor(input);
    mcp::fuzzing::cursor(input);
}

/// Runs the target of this name.
///
/// # Panics
/// If it finds a fault; if there is no such target.
pub fn run(name: &str, input: &[u8]) {
    let target = TARGETS.iter().find(|(known, _)| *known == name);
    let (_, target) = target.unwrap_or_else(|| panic!("no target is called {name}"));
    target(input);
}

#[cfg(test)]
mod tests;
