//! Which Roadstead served a data directory last: its version, in the file `written-by`.
//!
//! There was no such file as long as the log could lose rows under load, without an error. So a
//! directory without one is worth a check.

use std::path::Path;

use super::placement::WRITTEN_BY;
use super::secret_key::write_private;

/// Returns whether no server that writes this file has served the directory.
pub fn is_of_older(dir: &Path) -> bool {
    !dir.join(WRITTEN_BY).exists()
}

/// Notes that this release serves the directory.
///
/// # Errors
/// If the file cannot be written.
pub fn note(dir: &Path) -> std::io::Result<()> {
    let (path, version) = (dir.join(WRITTEN_BY), env!("CARGO_PKG_VERSION"));
    if std::fs::read_to_string(&path).is_ok_and(|written| written.trim() == version) {
        return Ok(());
    }
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
        _ => write_private(&path, format!("{version}\n").as_bytes()),
    }
}
