//! The file of a backup: written under another name beside it, durable before it gets its own.

use std::fs::{self, File, OpenOptions};
use std::io::{ErrorKind, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::block::MAGIC;
use super::encryption::AGE;
use super::error::BackupError;

/// What was written is synced every 4 MiB: commits of the server on the same disk wait for what is
/// to be synced before them, and so never for more.
const SYNC_BYTES: usize = 4 * 1024 * 1024;

/// A backup that is being written. Dropped before it is complete, it leaves nothing behind.
pub struct Target {
    file: File,
    path: PathBuf,
    unfinished: PathBuf,
    unsynced: usize,
    bytes: u64,
    is_complete: bool,
}

impl Target {
    /// Begins a file, readable by its owner only. With `replace`, it will take the place of an earlier
    /// backup.
    ///
    /// # Errors
    /// If the file exists and must not be replaced, or its directory cannot be written.
    pub fn create(path: &Path, replace: bool) -> Result<Self, BackupError> {
        require_replaceable(path, replace)?;
        let name = path
            .file_name()
            .ok_or_else(|| BackupError::Unusable(format!("{} names no file", path.display())))?;
        let mut unfinished = name.to_os_string();
        unfinished.push(".unfinished");
        let unfinished = path.with_file_name(unfinished);
        let cannot = |error: std::io::Error| {
            BackupError::Unusable(format!("{} cannot be written: {error}", unfinished.display()))
        };
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&unfinished);
        let file = file.map_err(cannot)?;
        // One that is locked is being written; another was left by a process that was killed.
        if file.try_lock().is_err() {
            return Err(BackupError::Failed(format!(
                "another process writes {}; repeat the command when it is done",
                unfinished.display()
            )));
        }
        file.set_len(0).map_err(cannot)?;
        let path = path.to_path_buf();
        Ok(Target { file, path, unfinished, unsynced: 0, bytes: 0, is_complete: false })
    }

    /// The path under which it can be read until it is complete.
    pub fn unfinished(&self) -> &Path {
        &self.unfinished
    }

    /// Makes it durable, and returns its size.
    ///
    /// # Errors
    /// If that fails: the disk may be full.
    pub fn sync(&mut self) -> std::io::Result<u64> {
        self.file.sync_all()?;
        Ok(self.bytes)
    }

    /// Gives it its name.
    pub fn complete(mut self) -> std::io::Result<()> {
        fs::rename(&self.unfinished, &self.path)?;
        self.is_complete = true;
        let directory = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(directory.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for Target {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let written = self.file.write(bytes)?;
        self.bytes += written as u64;
        self.unsynced += written;
        if self.unsynced >= SYNC_BYTES {
            self.unsynced = 0;
            self.file.sync_data()?;
        }
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        if !self.is_complete {
            // It holds data; a file that stays is overwritten by the next command.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Refuses to replace a file, unless it was asked for and the file is a backup.
fn require_replaceable(path: &Path, replace: bool) -> Result<(), BackupError> {
    let refused = |why: &str| Err(BackupError::Unusable(format!("{} {why}", path.display())));
    let file = match File::open(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return refused(&format!("exists and cannot be read: {error}")),
        Ok(_) if !replace => {
            return refused("exists; choose another name, or replace it with --replace");
        }
        Ok(file) => file,
    };
    if !file.metadata()?.is_file() {
        return refused("exists and is no file");
    }
    let mut start = Vec::new();
    file.take(MAGIC.len() as u64).read_to_end(&mut start)?;
    if start == MAGIC || start.starts_with(AGE) {
        return Ok(());
    }
    refused("exists and is no backup; choose another name")
}
