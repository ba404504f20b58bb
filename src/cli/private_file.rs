//! Files of the user, and reading those that hold a secret.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use super::failure::Failure;

/// A passphrase, an identity, a key or a file of profiles is short.
const MAX_FILE_BYTES: u64 = 1024 * 1024;

/// Returns the directory of the user that a variable names, else the one with this name at home; `None` if
/// neither is known.
pub fn user_directory(variable: &str, at_home: &str) -> Option<PathBuf> {
    let absolute = |name| std::env::var_os(name).map(PathBuf::from).filter(|it| it.is_absolute());
    absolute(variable).or_else(|| Some(absolute("HOME")?.join(at_home)))
}

/// Returns the content of a file that only its owner may read, or that systemd provides.
///
/// # Errors
/// Usage, if it cannot be read, or others have access to it.
pub fn read(path: &Path) -> Result<String, Failure> {
    let wrong = |why: String| Failure::Usage(format!("{} {why}", path.display()));
    let cannot = |error: io::Error| wrong(format!("cannot be read: {error}"));
    let file = File::open(path).map_err(cannot)?;
    let mode = file.metadata().map_err(cannot)?.permissions().mode();
    let credentials = std::env::var_os("CREDENTIALS_DIRECTORY");
    let is_credential = credentials.is_some_and(|directory| path.starts_with(directory));
    if mode & 0o077 != 0 && !is_credential {
        return Err(wrong(format!(
            "is accessible to other users (mode {:03o}); run: chmod 600 {}",
            mode & 0o777,
            path.display()
        )));
    }
    let mut text = String::new();
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(cannot)?;
    Ok(text)
}
