//! A reserve of disk space: a file that takes up space until the disk is full, and is then removed
//! so that records can be deleted and access revoked. It is created again once there is space.

use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{FallocateFlags, fallocate, statvfs};

use super::super::file_owner::give_to_owner_of_directory;
use crate::base::Error;

/// Free space that a disk that was full must have before it is written to again: 1 MiB, more than a
/// commit of ordinary requests takes, so that it does not fail at once.
const MIN_FREE_BYTES: u64 = 1024 * 1024;

/// How soon a client may try a write again that the full disk did not allow.
const RETRY_SECS: u32 = 10;

/// The name of the file, beside the database.
const RESERVE: &str = "reserve";

/// The file of the reserve.
pub struct Reserve {
    path: PathBuf,
    bytes: u64,
    /// Whether it takes up space, as far as this process knows.
    is_held: bool,
}

impl Reserve {
    /// The reserve of a database file, so large, in the same directory.
    pub fn beside(database: &Path, bytes: u64) -> Self {
        Reserve { path: database.with_file_name(RESERVE), bytes, is_held: false }
    }

    /// Returns whether it takes up space: not if [`give_up_reserve`] has removed it.
    pub fn is_held(&self) -> bool {
        let is_removed = || !self.path.exists() && self.path.parent().is_some_and(Path::exists);
        self.is_held && !is_removed()
    }

    /// Takes up the space, unless it does.
    ///
    /// # Errors
    /// If there is not enough, or the file cannot be written; then it is removed.
    pub fn hold(&mut self) -> io::Result<()> {
        if self.is_held() {
            return Ok(());
        }
        if !self.path.metadata().is_ok_and(|file| file.len() == self.bytes) {
            self.create().inspect_err(|_| drop(std::fs::remove_file(&self.path)))?;
        }
        self.is_held = true;
        Ok(())
    }

    fn create(&self) -> io::Result<()> {
        // Not tried in vain at each deletion.
        let disk = statvfs(self.path.parent().unwrap_or(&self.path))?;
        if disk.f_bavail.saturating_mul(disk.f_frsize) < self.bytes + MIN_FREE_BYTES {
            return Err(ErrorKind::StorageFull.into());
        }
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut new = OpenOptions::new();
        let file = new.write(true).create_new(true).mode(0o600).open(&self.path)?;
        give_to_owner_of_directory(&file, &self.path);
        take_up(file, self.bytes)
    }

    /// Gives up the space.
    ///
    /// # Errors
    /// If the file cannot be removed.
    pub fn release(&mut self) -> io::Result<()> {
        self.is_held = false;
        match std::fs::remove_file(&self.path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }
}

/// Gives up the reserve in this directory for something that must be written although the disk is
/// full. Returns whether there was one. A server that holds it notices.
pub fn give_up_reserve(dir: &Path) -> bool {
    let is_given_up = std::fs::remove_file(dir.join(RESERVE)).is_ok();
    if is_given_up {
        tracing::warn!("the disk is full; the reserve is released");
    }
    is_given_up
}

/// Gives up the reserve of a database that is about to be opened, if the disk is full: opening and
/// starting write something, and without that nothing can be deleted.
pub fn give_up_reserve_if_full(database: &Path) {
    let Some(dir) = database.parent().filter(|dir| dir.join(RESERVE).exists()) else { return };
    let checked = check_free_space(&database.with_extension("room"));
    if checked.is_err_and(|error| is_full(&error)) {
        give_up_reserve(dir);
    }
}

/// Allocates the blocks of the file; writes them where the file system cannot allocate.
fn take_up(mut file: File, bytes: u64) -> io::Result<()> {
    match fallocate(&file, FallocateFlags::empty(), 0, bytes) {
        Err(rustix::io::Errno::OPNOTSUPP) => {}
        allocated => return allocated.map_err(io::Error::from),
    }
    // Bytes that a file system cannot compress.
    let mut noise = blake3::Hasher::new().finalize_xof();
    let mut chunk = vec![0; 64 * 1024];
    for _ in 0..bytes.div_ceil(chunk.len() as u64) {
        noise.fill(&mut chunk);
        file.write_all(&chunk)?;
    }
    file.sync_all()
}

/// Fails unless the disk has [`MIN_FREE_BYTES`] free: writes and removes a file of that size.
pub fn check_free_space(file: &Path) -> io::Result<()> {
    probe(file, MIN_FREE_BYTES as usize)
}

/// Writes a file of so many bytes to the disk and removes it.
pub fn probe(file: &Path, bytes: usize) -> io::Result<()> {
    let mut probe = File::create(file)?;
    let tried = probe.write_all(&vec![0; bytes]).and_then(|()| probe.sync_all());
    std::fs::remove_file(file)?;
    tried
}

/// Returns whether this is the error of a disk, or a quota, without space.
pub fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::StorageFull | ErrorKind::QuotaExceeded)
}

/// Returns whether this is the error of a write that a full disk does not allow.
pub fn is_no_space(error: &Error) -> bool {
    error.code() == "disk_full"
}

/// Returns the error of a write for which there may be no space: 503.
pub fn no_space(error: &io::Error) -> Error {
    let refused = if is_full(error) {
        Error::busy(
            "disk_full",
            "the server's disk is full; until there is space again only deletions, signing in and \
             out, and changes of passwords and access are possible",
            RETRY_SECS,
        )
    } else {
        Error::busy("read_only", "writes are not possible now", 1)
    };
    refused.detail(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reserve_that_was_given_up_for_something_else_is_not_held_and_can_be_again() {
        let dir = tempfile::tempdir().unwrap();
        assert!(!give_up_reserve(dir.path()), "there is none");
        let mut reserve = Reserve::beside(&dir.path().join("store.redb"), 4096);
        reserve.hold().unwrap();
        give_up_reserve_if_full(&dir.path().join("store.redb"));
        assert!(reserve.is_held(), "there is space");
        assert!(give_up_reserve(dir.path()));
        assert!(!reserve.is_held());
        reserve.hold().unwrap();
        assert!(reserve.is_held());
    }

    #[test]
    fn the_reserve_takes_up_space_until_it_is_released() {
        use std::os::unix::fs::MetadataExt as _;
        const BYTES: u64 = 1024 * 1024;
        let dir = tempfile::tempdir().unwrap();
        let mut reserve = Reserve::beside(&dir.path().join("store.redb"), BYTES);
        let file = dir.path().join("reserve");
        // One that was not completed is completed.
        std::fs::write(&file, "half").unwrap();
        assert!(!reserve.is_held());
        for _ in 0..2 {
            reserve.hold().unwrap();
            assert!(reserve.is_held());
            assert!(file.metadata().unwrap().blocks() * 512 >= BYTES, "it is not sparse");
        }
        for _ in 0..2 {
            reserve.release().unwrap();
            assert!(!reserve.is_held() && !file.exists());
        }
    }
}
