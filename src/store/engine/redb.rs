//! Storage in one redb file.
//!
//! Configured by measurement: two-phase commit, so that no crash can roll back what was durable;
//! quick repair, so that the restart after a crash takes a millisecond regardless of the size; and
//! one read transaction with its tables open, shared by all readers until the next commit.

mod file_holder;
mod integrity;
mod patched_file;
mod reserve;

use std::fs::{File, OpenOptions};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use foldhash::HashMap;
use redb::{
    Database, DatabaseError, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase,
    ReadableTableMetadata as _, TableDefinition, TableError, WriteTransaction,
};

use super::file_owner::give_to_owner_of_directory;
use super::{
    CommitOutcome, CountPages, KeyRange, LocalStorage, Order, Pages, Reader, ScanFn, StorageSize,
    WriteBatch, WriteOp,
};
use crate::base::{Error, Kind, Result};
use crate::store::codec;
use file_holder::in_use;
use reserve::{Reserve, check_free_space, no_space, probe};

pub use integrity::integrity;
pub use patched_file::PatchedFile;
pub use reserve::{give_up_reserve, give_up_reserve_if_full, is_full, is_no_space};

/// The page cache: 64 MiB hold the hot part of a million records; an idle server does not use them.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// The largest file whose pages are counted. Counting reads all of it, in a minute or a few, and what
/// is deleted meanwhile keeps its pages until the end.
const MAX_COUNTED_BYTES: u64 = 16 * 1024 * 1024 * 1024;

/// A page of redb, on every platform.
const PAGE_BYTES: u64 = 4096;

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

/// Returns the definition of a table of bytes.
pub(super) fn definition(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

/// Converts a failure of the database into the error for callers.
pub(super) fn failed(error: impl Into<redb::Error>) -> Error {
    match error.into() {
        // It failed before and is about to be reopened, or was reopened during the read.
        redb::Error::PreviousIo | redb::Error::DatabaseClosed => {
            Error::busy("reopening", "the database is being reopened", 1)
        }
        error => Error::internal(format!("the database: {error}")),
    }
}

/// Returns the error of a database that cannot be used, for the command line. `what` continues the
/// sentence that begins with the path.
pub(super) fn open_error(path: &Path, what: impl std::fmt::Display) -> Error {
    Error::new(Kind::Internal, "database", format!("{} {what}", path.display()))
}

/// How long it holds what was found when it was looked whether there is space: that writes and syncs
/// a MiB, on the writer thread.
const SPACE_INTERVAL: Duration = Duration::from_millis(100);

/// Opens the database, and reopens it after a failure.
type Opener = Box<dyn Fn() -> Result<Database> + Send>;

/// Storage in one redb file.
pub struct Redb {
    /// `None` only after it could not be reopened.
    database: Option<Arc<Database>>,
    opener: Opener,
    /// The file; `None` on another backend.
    path: Option<PathBuf>,
    tables: Vec<&'static str>,
    versions: Versions,
    /// Whether a commit failed and none has succeeded since, or the reserve is released: the disk may
    /// be full.
    suspect: bool,
    reserve: Option<Reserve>,
    /// What was found when it was last looked whether there is space, and when.
    space: Option<(Instant, Result<()>)>,
    reads_fail: Arc<AtomicBool>,
}

#[derive(Clone, Copy, Default)]
struct Versions {
    commits: u64,
    access: u64,
}

impl Redb {
    /// Creates a new file. Only `init`, `demo` and the first `serve` do: creating a database in an
    /// empty file would hide that one was lost.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path, tables: Vec<&'static str>) -> Result<Self> {
        let wrong = |e: &dyn std::fmt::Display| open_error(path, format!("cannot be created: {e}"));
        let mut new = OpenOptions::new();
        let file = new.write(true).create_new(true).mode(0o600).open(path);
        give_to_owner_of_directory(&file.map_err(|e| wrong(&e))?, path);
        if let Err(error) = builder().create(path) {
            // It holds nothing yet, and would block the next attempt.
            let _ = std::fs::remove_file(path);
            return Err(wrong(&error));
        }
        if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            File::open(parent).and_then(|dir| dir.sync_all()).map_err(|e| wrong(&e))?;
        }
        Self::open(path, tables)
    }

    /// Opens a file that [`Redb::create`] created.
    ///
    /// # Errors
    /// If it is missing, empty, broken or served by another process.
    pub fn open(path: &Path, tables: Vec<&'static str>) -> Result<Self> {
        let file = path.to_path_buf();
        Self::open_by(Box::new(move || open_file(&file)), Some(path.to_path_buf()), tables)
    }

    /// Opens the database by the given function: tests use it for a failing disk. `path` is where to
    /// test whether a disk that failed can be written to again.
    ///
    /// # Errors
    /// What `opener` returns; if the tables cannot be created.
    pub fn open_by(
        opener: Opener,
        path: Option<PathBuf>,
        tables: Vec<&'static str>,
    ) -> Result<Self> {
        let redb = Redb {
            database: Some(Arc::new(opener()?)),
            opener,
            path,
            tables,
            versions: Versions::default(),
            suspect: false,
            reserve: None,
            space: None,
            reads_fail: Arc::default(),
        };
        redb.create_tables()?;
        Ok(redb)
    }

    /// Holds a reserve of so much disk space from now on. Without space for it there is none for
    /// ordinary writes.
    pub fn hold_reserve(&mut self, bytes: u64) {
        let Some(path) = &self.path else { return };
        let mut reserve = Reserve::beside(path, bytes);
        match reserve.hold() {
            Err(error) if !is_full(&error) => {
                tracing::warn!(%error, "no disk space can be kept in reserve");
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "the disk is full; until there is space, only deletions are possible");
                self.suspect = true;
            }
            Ok(()) => {}
        }
        self.reserve = Some(reserve);
    }

    /// Returns the configured builder, for tests that open another backend.
    pub fn builder() -> redb::Builder {
        builder()
    }

    /// Creates the tables of this build that the file does not have yet.
    fn create_tables(&self) -> Result<()> {
        let database = self.database()?;
        let missing: Vec<_> = {
            let read = database.begin_read().map_err(failed)?;
            let there: Vec<String> = read
                .list_tables()
                .map_err(failed)?
                .map(|table| redb::TableHandle::name(&table).to_string())
                .collect();
            self.tables.iter().filter(|name| !there.iter().any(|t| t == *name)).collect()
        };
        if missing.is_empty() {
            return Ok(());
        }
        let write = begin(database)?;
        for name in missing {
            write.open_table(definition(name)).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }

    fn database(&self) -> Result<&Database> {
        self.database.as_deref().ok_or_else(|| Error::internal("the database is closed"))
    }

    /// Returns the database itself, which another thread may write to. It must be dropped before this
    /// is reopened.
    ///
    /// # Errors
    /// If it could not be reopened.
    pub(super) fn shared_database(&self) -> Result<Arc<Database>> {
        self.database.clone().ok_or_else(|| Error::internal("the database is closed"))
    }

    /// Returns the names of its tables.
    pub(super) fn tables(&self) -> &[&'static str] {
        &self.tables
    }

    /// Whether the disk may be full.
    pub(super) fn is_suspect(&self) -> bool {
        self.suspect
    }

    /// Bytes of the file that have no space on the disk yet.
    pub(super) fn bytes_not_on_disk(&self) -> u64 {
        let file = self.path.as_ref().and_then(|path| path.metadata().ok());
        file.map_or(0, |file| file.len().saturating_sub(file.blocks().saturating_mul(512)))
    }

    /// Refuses a batch for which there is no `space`, unless the reserve may be released for it.
    ///
    /// # Errors
    /// 503 if there is none.
    pub(super) fn admit(&mut self, space: Result<()>, writes: &WriteBatch) -> Result<()> {
        let Err(error) = space else { return Ok(()) };
        if self.reserve.is_none() || !writes.may_use_reserve() {
            return Err(error);
        }
        self.release_reserve().map_err(|error| no_space(&error))
    }

    /// Gives up the reserve, if there is one.
    pub(super) fn release_reserve(&mut self) -> io::Result<()> {
        let Some(reserve) = &mut self.reserve else { return Ok(()) };
        if reserve.is_held() {
            tracing::warn!("the disk is full; the reserve is released for deletions");
        }
        self.space = None;
        reserve.release()
    }

    /// Notes that a write succeeded. As long as the reserve is released, the disk is full.
    pub(super) fn note_success(&mut self) {
        self.suspect = self.is_reserve_released();
    }

    /// Whether deletions use what was held in reserve.
    pub(super) fn is_reserve_released(&self) -> bool {
        self.reserve.as_ref().is_some_and(|reserve| !reserve.is_held())
    }

    /// Notes that a write failed: the disk may be full.
    pub(super) fn note_failure(&mut self) {
        self.suspect = true;
        self.space = None;
    }

    /// Looks whether the file can be opened and something written beside it: after an error of its
    /// journal a file system may still open files for writing, and only refuse the writes. A full disk
    /// is no such error: nothing can be deleted from a database that is not open.
    ///
    /// # Errors
    /// If not. Then what is open is kept: much of it can be read from the cache.
    pub(super) fn require_writable(&self) -> Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let file = OpenOptions::new().read(true).write(true).open(path).map(drop);
        match file.and_then(|()| probe(&path.with_extension("room"), 1)) {
            Err(error) if !is_full(&error) => {
                Err(open_error(path, format!("cannot be written: {error}")))
            }
            _ => Ok(()),
        }
    }

    fn reader(&self) -> Result<Arc<dyn Reader>> {
        let transaction = self.database()?.begin_read().map_err(failed)?;
        let tables = self.tables.iter().map(|name| (*name, OnceLock::new())).collect();
        let reads_fail = self.reads_fail.clone();
        Ok(Arc::new(Snapshot { transaction, tables, versions: self.versions, reads_fail }))
    }

    /// Applies a batch and makes it durable; the error is any other outcome of the commit.
    fn write(&mut self, writes: &WriteBatch) -> Result<Arc<dyn Reader>, CommitOutcome> {
        let transaction = self.database().and_then(begin).map_err(CommitOutcome::Unknown)?;
        for (name, changes) in &writes.tables {
            let mut table = transaction
                .open_table(definition(name))
                .map_err(|error| CommitOutcome::Unknown(failed(error)))?;
            for (key, op) in changes {
                let there = match op.value() {
                    Some(value) => table.insert(key.as_slice(), value),
                    None => table.remove(key.as_slice()),
                }
                .map_err(|error| CommitOutcome::Unknown(failed(error)))?
                .is_some();
                if there && matches!(op, WriteOp::Insert(_)) {
                    let error =
                        format!("{name} {}: exists and would be overwritten", codec::hex(key));
                    return Err(CommitOutcome::Refused(Error::internal(error)));
                }
            }
        }
        transaction.commit().map_err(|error| CommitOutcome::Unknown(failed(error)))?;
        self.versions.commits += 1;
        if writes.changes_access {
            self.versions.access = self.versions.commits;
        }
        self.reader().map_err(CommitOutcome::Unknown)
    }
}

/// Counts the pages that no table uses. Some of them are redb's own: which pages are free, and
/// those that a reader of an earlier state still needs.
fn count_pages(snapshot: &ReadTransaction, file_bytes: u64) -> Result<Pages, redb::Error> {
    let mut used_bytes = 0;
    for table in snapshot.list_tables()? {
        let stats = snapshot.open_untyped_table(table)?.stats()?;
        used_bytes += stats.stored_bytes() + stats.metadata_bytes() + stats.fragmented_bytes();
    }
    Ok(Pages { bytes: PAGE_BYTES, free: file_bytes.saturating_sub(used_bytes) / PAGE_BYTES })
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

fn open_file(path: &Path) -> Result<Database> {
    if path.metadata().is_ok_and(|file| file.len() == 0) {
        return Err(open_error(path, "is empty: its content was lost; restore a backup"));
    }
    match catch_unwind(|| builder().open(path)) {
        Ok(Ok(database)) => Ok(database),
        Ok(Err(DatabaseError::DatabaseAlreadyOpen)) => {
            let message = format!("{} {}", path.display(), in_use(path));
            Err(Error::new(Kind::Internal, "database_in_use", message))
        }
        Ok(Err(error)) => Err(open_error(path, format!("cannot be opened: {error}"))),
        Err(_) => Err(open_error(path, "is broken; restore a backup")),
    }
}

/// Begins a durable two-phase commit: everything is synced before the root is switched, so that a
/// failed sync leaves the state before it. Quick repair stores what a restart would otherwise have
/// to compute.
pub(super) fn begin(database: &Database) -> Result<WriteTransaction> {
    let mut transaction = database.begin_write().map_err(failed)?;
    transaction.set_durability(Durability::Immediate).map_err(failed)?;
    transaction.set_two_phase_commit(true);
    transaction.set_quick_repair(true);
    Ok(transaction)
}

impl LocalStorage for Redb {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.reader()
    }

    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        let space = self.check_space();
        if let Err(error) = self.admit(space, writes) {
            return CommitOutcome::Refused(error);
        }
        match self.write(writes) {
            Ok(reader) => {
                self.note_success();
                CommitOutcome::Done(reader)
            }
            Err(end) => {
                if matches!(end, CommitOutcome::Unknown(_)) {
                    self.note_failure();
                }
                end
            }
        }
    }

    fn check_space(&mut self) -> Result<()> {
        // Others may have given it up.
        self.suspect |= self.is_reserve_released();
        let Some(path) = self.path.as_ref().filter(|_| self.suspect) else { return Ok(()) };
        if let Some((looked_at, found)) = &self.space
            && looked_at.elapsed() < SPACE_INTERVAL
        {
            return found.clone();
        }
        let held = self.reserve.as_mut().map_or(Ok(()), Reserve::hold);
        let found = held
            .and_then(|()| check_free_space(&path.with_extension("room")))
            .map_err(|error| no_space(&error));
        self.space = Some((Instant::now(), found.clone()));
        found
    }

    fn add_table(&mut self, name: &'static str) {
        self.tables.push(name);
    }

    fn size(&mut self) -> Option<StorageSize> {
        let file_bytes = self.path.as_ref()?.metadata().ok()?.len();
        let snapshot = self.database.as_ref()?.begin_read().ok()?;
        let count = move || count_pages(&snapshot, file_bytes).ok();
        let is_small = file_bytes <= MAX_COUNTED_BYTES;
        let count_pages = is_small.then(|| -> CountPages { Box::new(count) });
        Some(StorageSize { file_bytes, count_pages })
    }

    fn failed(&self) -> bool {
        self.reads_fail.load(Ordering::Relaxed)
    }

    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.require_writable()?;
        self.database = None;
        self.database = Some(Arc::new((self.opener)()?));
        self.reads_fail = Arc::default();
        self.versions.commits += 1;
        self.versions.access = self.versions.commits;
        self.reader()
    }
}

struct Snapshot {
    transaction: ReadTransaction,
    tables: HashMap<&'static str, OnceLock<Table>>,
    versions: Versions,
    reads_fail: Arc<AtomicBool>,
}

impl Snapshot {
    /// Converts a failed read. redb then serves reads only from its cache until it is reopened.
    fn failed(&self, error: impl Into<redb::Error>) -> Error {
        let error = error.into();
        if matches!(error, redb::Error::Io(_) | redb::Error::PreviousIo) {
            self.reads_fail.store(true, Ordering::Relaxed);
        }
        failed(error)
    }

    /// Returns a table; `None` if it has never been written to.
    fn table(&self, name: &'static str) -> Result<Option<&Table>> {
        let place = self
            .tables
            .get(name)
            .ok_or_else(|| Error::internal(format!("the table {name} is in no catalog")))?;
        if let Some(table) = place.get() {
            return Ok(Some(table));
        }
        match self.transaction.open_table(definition(name)) {
            Ok(table) => Ok(Some(place.get_or_init(|| table))),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(self.failed(error)),
        }
    }
}

impl Reader for Snapshot {
    fn get(
        &self,
        table: &'static str,
        key: &[u8],
        see: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        let Some(table) = self.table(table)? else { return Ok(false) };
        match table.get(key).map_err(|error| self.failed(error))? {
            Some(value) => see(value.value()).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(
        &self,
        table: &'static str,
        range: KeyRange<'_>,
        order: Order,
        each: &mut ScanFn<'_>,
    ) -> Result<()> {
        let Some(table) = self.table(table)? else { return Ok(()) };
        if range.to.is_some_and(|to| to <= range.from) {
            return Ok(());
        }
        let mut entries = match range.to {
            Some(to) => table.range(range.from..to),
            None => table.range(range.from..),
        }
        .map_err(|error| self.failed(error))?;
        while let Some(entry) = match order {
            Order::Ascending => entries.next(),
            Order::Descending => entries.next_back(),
        } {
            let (key, value) = entry.map_err(|error| self.failed(error))?;
            if each(key.value(), value.value())? == ControlFlow::Break(()) {
                break;
            }
        }
        Ok(())
    }

    fn access_version(&self) -> Option<u64> {
        Some(self.versions.access)
    }
}

#[cfg(test)]
mod tests;
