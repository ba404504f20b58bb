//! Which Roadstead served a data directory last: its version, in the file `written-by`.
//!
//! There was no such file as long as the log could lose rows under load, without an error. So a
//! directory without one is worth a check.

use std::path::Path;

use super::placement::WRITTEN_BY;
use super::secret_key::write_private;

/// Returns the version that the file of a directory has; `None` if there is none.
pub fn version_of(dir: &Path) -> Option<String> {
    let written = std::fs::read_to_string(dir.join(WRITTEN_BY)).ok()?;
    Some(written.trim().into())
}

/// Returns whether no server that writes this file has served the directory.
pub fn is_of_older(dir: &Path) -> bool {
    !dir.join(WRITTEN_BY).exists()
}

/// Notes that this release serves the directory.
pub fn note(dir: &Path) -> std::io::Result<()> {
    note_version(dir, env!("CARGO_PKG_VERSION"))
}

/// Notes that a release of this version served the directory.
pub fn note_version(dir: &Path, version: &str) -> std::io::Result<()> {
    if version_of(dir).is_some_and(|written| written == version) {
        return Ok(());
    }
    let path = dir.join(WRITTEN_BY);
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => write_private(&path, format!("{version}\n").as_bytes()),
    }
}
