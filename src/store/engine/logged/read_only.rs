//! Opening a database with its log for reading alone: all three files stay as they are.

use std::fs::File;
use std::io;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::StorageBackend as _;
use redb::backends::InMemoryBackend;

use super::super::redb::{PatchedFile, Redb, open_error};
use super::salvage::{Salvaged, salvage};
use super::{LogFile, LogFiles, LogPlace, LogSettings, LoggedRedb};
use crate::base::Result;

/// Opens a database file with what is left of its log, which [`open_read_only`] refuses, and returns what
/// is missing of it, a sentence each.
///
/// # Errors
/// If the database file itself cannot be opened, or a file of the log that is there.
pub fn open_salvaged(path: &Path, tables: Vec<&'static str>) -> Result<(LoggedRedb, Vec<String>)> {
    let redb = open_database(path, tables)?;
    let open = |path: &PathBuf| -> Result<Option<LogFile>> {
        match File::open(path).and_then(PatchedFile::of) {
            Ok(file) => Ok(Some(Arc::new(file))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(open_error(path, format!("cannot be read: {error}"))),
        }
    };
    let [one, two] = PatchedLog::beside(path).paths.each_ref().map(open);
    let files = [one?, two?];
    let Salvaged { place, missing } = salvage(&*redb.shared_database()?, files)?;
    Ok((LoggedRedb::over(redb, place, settings())?.for_inspection(), missing))
}

/// Opens a database file with its log. What opening changes, and all that is committed, is in memory
/// only: readers see what is in the files.
///
/// # Errors
/// If the file is missing, empty, broken or served by another process; if its log is missing, damaged
/// or another one's.
pub fn open_read_only(path: &Path, tables: Vec<&'static str>) -> Result<LoggedRedb> {
    let redb = open_database(path, tables)?;
    Ok(LoggedRedb::over(redb, Box::new(PatchedLog::beside(path)), settings())?.for_inspection())
}

/// Nothing is written ahead: that would be in memory.
fn settings() -> LogSettings {
    LogSettings { ahead_bytes: 0, ..LogSettings::default() }
}

fn open_database(path: &Path, tables: Vec<&'static str>) -> Result<Redb> {
    let file = path.to_path_buf();
    Redb::open_by(Box::new(move || open(&file)), None, tables)
}

fn open(path: &Path) -> Result<redb::Database> {
    let patched = PatchedFile::open_locked(path)?;
    let damaged = |why: &str| open_error(path, format!("is damaged: {why}; restore a backup"));
    if patched.len().is_ok_and(|len| len == 0) {
        return Err(open_error(path, "is empty: its content was lost; restore a backup"));
    }
    match catch_unwind(move || Redb::builder().create_with_backend(patched)) {
        Ok(opened) => opened.map_err(|error| damaged(&error.to_string())),
        Err(_) => Err(damaged("its pages contradict each other")),
    }
}

/// The log beside a database, whose files are only read.
struct PatchedLog {
    paths: [PathBuf; 2],
}

impl PatchedLog {
    fn beside(database: &Path) -> Self {
        PatchedLog { paths: ["wal-1", "wal-2"].map(|ending| database.with_extension(ending)) }
    }
}

impl LogPlace for PatchedLog {
    fn open(&self) -> io::Result<Option<LogFiles>> {
        let open = |path: &PathBuf| -> io::Result<LogFile> {
            Ok(Arc::new(PatchedFile::of(File::open(path)?)?))
        };
        match self.paths.each_ref().map(open) {
            [Ok(one), Ok(two)] => Ok(Some([one, two])),
            [Err(error), _] | [_, Err(error)] if error.kind() == io::ErrorKind::NotFound => {
                Ok(None)
            }
            [Err(error), _] | [_, Err(error)] => Err(error),
        }
    }

    fn create(&self) -> io::Result<LogFiles> {
        Ok([Arc::new(InMemoryBackend::new()), Arc::new(InMemoryBackend::new())])
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn name(&self) -> String {
        self.paths[0].with_extension("wal-*").display().to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::engine::{LocalStorage as _, WriteBatch, WriteOp};

    const TABLE: &str = "t";

    fn add(storage: &mut LoggedRedb, key: &[u8]) {
        let mut writes = WriteBatch::default();
        writes.add(TABLE, key.to_vec(), WriteOp::Insert(vec![7; 300]));
        storage.commit(&writes).alone().unwrap();
    }

    fn has(storage: &mut LoggedRedb, key: &[u8]) -> bool {
        storage.snapshot().unwrap().get(TABLE, key, &mut |_| Ok(())).unwrap()
    }

    /// What is in the directory.
    fn files(dir: &Path) -> Vec<(std::ffi::OsString, Vec<u8>)> {
        let entries = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap());
        let mut files: Vec<_> = entries
            .map(|entry| (entry.file_name(), std::fs::read(entry.path()).unwrap()))
            .collect();
        files.sort();
        files
    }

    #[test]
    fn what_a_killed_server_left_is_read_and_no_file_changes() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roadstead.redb");
        let mut served = LoggedRedb::create(&path, vec![TABLE]).unwrap();
        add(&mut served, b"one");
        let refused = open_read_only(&path, vec![TABLE]).err().unwrap();
        assert!(refused.message().contains("in use by another process"), "{refused}");
        // As after a kill: the log is not in the database yet.
        let killed = tempfile::tempdir().unwrap();
        for (name, content) in files(dir.path()) {
            std::fs::write(killed.path().join(name), content).unwrap();
        }
        let before = files(killed.path());
        let path = killed.path().join("roadstead.redb");
        let mut read = open_read_only(&path, vec![TABLE, "newer"]).unwrap();
        assert!(has(&mut read, b"one"));
        add(&mut read, b"two");
        drop(read);
        assert!(files(killed.path()) == before);
        assert!(!has(&mut open_read_only(&path, vec![TABLE]).unwrap(), b"two"));
    }

    #[test]
    fn a_database_without_a_log_and_one_of_nothing_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("roadstead.redb");
        drop(Redb::create(&path, vec![TABLE]).unwrap());
        let before = files(dir.path());
        assert!(!has(&mut open_read_only(&path, vec![TABLE]).unwrap(), b"one"));
        assert!(files(dir.path()) == before);
        std::fs::write(&path, "").unwrap();
        assert!(open_read_only(&path, vec![TABLE]).err().unwrap().message().contains("is empty"));
        std::fs::write(&path, "some other text").unwrap();
        assert!(open_read_only(&path, vec![TABLE]).is_err());
    }
}
