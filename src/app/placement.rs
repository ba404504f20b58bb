//! Whether a directory can be a data directory: what is in it already, and who may write it. The
//! names of its files.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::Path;

use super::data_dir_error::DataDirError;

/// The name of the key's file in a data directory, and of the credential.
pub const KEY: &str = "secret.key";
/// The database.
pub const DATABASE: &str = "roadstead.redb";
/// The files of the database's log: the last writes, which are not in its file yet.
pub const LOG: [&str; 2] = ["roadstead.wal-1", "roadstead.wal-2"];
/// Says that the directory is complete, and its format.
pub const FORMAT_FILE: &str = "format";
/// The socket at which commands reach a running server.
pub const SOCKET: &str = "control.sock";
/// The setup link.
pub const SETUP_LINK: &str = "setup-link";
/// Disk space kept for deletions.
pub const RESERVE: &str = "reserve";

/// What was erased, for the case that a backup is restored.
pub const ERASURES: &str = "erasures";
/// Which Roadstead served the directory last.
pub const WRITTEN_BY: &str = "written-by";
/// What a repair left out of the directory.
pub const LEFT_OUT: &str = "left-out.jsonl";
/// When the last backup was made.
pub const LAST_BACKUP: &str = "last-backup";
/// The certificate that the server has made itself (`--tls self-signed`).
pub const TLS_CERTIFICATE: &str = "tls-self-signed.pem";
/// Its private key.
pub const TLS_KEY: &str = "tls-self-signed.key";
/// The certificate of an authority, with its key (`--tls acme`).
pub const ACME_CERTIFICATE: &str = "tls-acme.pem";
/// The account with the authority, and what became of the last attempt.
pub const ACME_STATE: &str = "tls-acme.json";

/// What every new file system has.
pub const LOST_AND_FOUND: &str = "lost+found";
/// A data directory that is being made where another file system is mounted: in its place.
pub const UNFINISHED: &str = "unfinished";

/// The beginnings of the names of files that a data directory may have before it is complete: a key
/// that was put there, and what an interrupted creation left.
const EXPECTED: [&str; 17] = [
    KEY,
    DATABASE,
    LOG[0],
    LOG[1],
    FORMAT_FILE,
    SETUP_LINK,
    SOCKET,
    RESERVE,
    ERASURES,
    LAST_BACKUP,
    TLS_CERTIFICATE,
    TLS_KEY,
    ACME_CERTIFICATE,
    ACME_STATE,
    WRITTEN_BY,
    LEFT_OUT,
    LOST_AND_FOUND,
];

/// Names in the message about foreign files.
const MAX_NAMED: usize = 3;

/// Refuses a directory with files that are not Roadstead's: it is somebody else's, named by mistake.
///
/// # Errors
/// If there are any.
pub fn require_no_foreign_files(path: &Path) -> Result<(), DataDirError> {
    // One that does not exist has none; one that cannot be read fails at the next step.
    let Some(found) = named(path, |name| !EXPECTED.iter().any(|known| name.starts_with(known)))
    else {
        return Ok(());
    };
    Err(DataDirError(format!(
        "{} is no data directory and not empty: it has {found}; name an empty directory, or one \
         that does not exist, with --data",
        path.display()
    )))
}

/// Takes an empty directory that was made for this away from other users. One that belongs to another user,
/// such as a volume, stays as it is, unless this is root.
pub fn make_private(path: &Path, dir: &File) {
    let tightened = dir.metadata().and_then(|inspected| match inspected.mode() {
        mode if mode & 0o077 == 0 => Ok(()),
        mode => dir.set_permissions(Permissions::from_mode(mode & 0o7700)),
    });
    if let Err(error) = tightened {
        let path = path.display();
        tracing::warn!(%error, "{path} is accessible to other users; as its owner, run chmod 700 {path}");
    }
}

/// Says what is in a directory besides these files and what every new file system has; `None` if
/// there is nothing.
pub fn what_is_in(path: &Path, known: &[&str]) -> Option<String> {
    named(path, |name| name != LOST_AND_FOUND && !known.contains(&name))
}

/// Names the entries of a directory that are counted, a few of them; `None` if there are none.
fn named(path: &Path, is_counted: impl Fn(&str) -> bool) -> Option<String> {
    let entries = fs::read_dir(path).ok()?;
    // What cannot be read is something, too.
    let name = |entry: fs::DirEntry| entry.file_name().to_string_lossy().into_owned();
    let names = entries.map(|entry| entry.map_or_else(|error| error.to_string(), name));
    let mut names: Vec<_> = names.filter(|name| is_counted(name)).collect();
    names.sort();
    let more = names.len().saturating_sub(MAX_NAMED);
    names.truncate(MAX_NAMED);
    let and_more = if more > 0 { format!(" and {more} more") } else { String::new() };
    (!names.is_empty()).then(|| format!("{}{and_more}", names.join(", ")))
}

/// Refuses a path to a file.
///
/// # Errors
/// If it is one.
pub fn require_no_file(path: &Path) -> Result<(), DataDirError> {
    if !path.is_file() {
        return Ok(());
    }
    let message = "is a file, not a directory; name a directory with --data";
    Err(DataDirError(format!("{} {message}", path.display())))
}

/// Refuses a data directory whose database cannot be written.
///
/// # Errors
/// If it cannot.
pub fn require_writable(path: &Path, database: &Path) -> Result<(), DataDirError> {
    match OpenOptions::new().read(true).write(true).open(database) {
        Ok(_) => Ok(()),
        Err(error) => denial(path, &error).map_or(Ok(()), |message| Err(DataDirError(message))),
    }
}

/// Returns the message about an existing directory that this process may not read or write; none
/// for other failures.
pub fn denial(path: &Path, error: &io::Error) -> Option<String> {
    let is_denied =
        matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem);
    let owner = owner("it", path).filter(|_| is_denied)?;
    Some(format!(
        "{} exists but cannot be written: {error}; {owner}, give the directory to yours (chown), \
         or name another with --data",
        path.display()
    ))
}

/// Refuses a directory that this process may not look into: whether it is a data directory cannot be
/// seen.
///
/// # Errors
/// If it may not.
pub fn require_visible(path: &Path) -> Result<(), DataDirError> {
    match path.join(FORMAT_FILE).metadata() {
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            let owner = owner("it", path);
            let hint = owner.unwrap_or_else(|| "run this as the user of the server".into());
            Err(DataDirError(format!("{} cannot be read: {error}; {hint}", path.display())))
        }
        _ => Ok(()),
    }
}

/// Returns the message about a file that cannot be read. If this process may not read it, the
/// message names its owner, or that of its directory.
pub fn unreadable(path: &Path, error: &io::Error) -> String {
    let is_denied = error.kind() == ErrorKind::PermissionDenied;
    let directory = || owner("its directory", path.parent()?);
    let owner = owner("it", path).or_else(directory).filter(|_| is_denied);
    let hint = owner.map(|owner| format!("; {owner}, or give it to yours (chown)"));
    format!("{} cannot be read: {error}{}", path.display(), hint.unwrap_or_default())
}

/// Says which user a path belongs to; none if it cannot be inspected. `subject` begins the clause.
fn owner(subject: &str, path: &Path) -> Option<String> {
    let inspected = path.metadata().ok()?;
    Some(format!(
        "{subject} belongs to the user {} and has mode {:03o}; run this as that user",
        inspected.uid(),
        inspected.mode() & 0o777
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::app::DataDir;

    #[test]
    fn a_directory_with_foreign_files_is_refused_and_left_as_it_is() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path();
        for name in ["thesis.txt", "photos", "b", "a"] {
            fs::write(path.join(name), "mine").unwrap();
        }
        let refused = DataDir::at(path).open_or_create().err().unwrap().0;
        assert!(refused.contains("has a, b, photos and 1 more"), "{refused}");
        assert_eq!(fs::read_dir(path).unwrap().count(), 4);
    }

    #[test]
    fn a_new_file_system_is_as_good_as_an_empty_directory() {
        let place = tempfile::tempdir().unwrap();
        fs::create_dir(place.path().join("lost+found")).unwrap();
        assert!(DataDir::at(place.path()).open_or_create().is_ok());
    }
}
