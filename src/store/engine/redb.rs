//! Tables in one redb file.
//!
//! Set up as measurements showed right: two-phase commit, so that no crash can roll back what was
//! durable; quick repair, so that the restart after one takes a millisecond whatever the size; and
//! one read transaction with its tables open, shared by all readers until the next commit.

use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use redb::{
    Database, Durability, ReadOnlyTable, ReadTransaction, ReadableDatabase, TableDefinition,
    TableError,
};

use super::{Commit, Disk, Each, Op, Order, Reader, Span, Step, Writes};
use crate::base::{Error, Result};

/// Pages kept in memory. 64 MB hold the hot part of a million records, and an idle server does not
/// touch them.
const CACHE_BYTES: usize = 64 * 1024 * 1024;

/// How long to wait for readers of a database that is to be opened again. They take microseconds.
const READERS_LEAVE_SECS: u64 = 5;

type Table = ReadOnlyTable<&'static [u8], &'static [u8]>;

fn definition(name: &str) -> TableDefinition<'_, &'static [u8], &'static [u8]> {
    TableDefinition::new(name)
}

fn failed(error: impl std::fmt::Display) -> Error {
    Error::internal(format!("the database: {error}"))
}

/// How the database is opened, again if need be.
type Opener = Box<dyn Fn() -> Result<Database> + Send>;

/// One redb file.
pub struct Redb {
    database: Option<Database>,
    opener: Opener,
    /// Where to try whether the disk can be written, before giving up what can still be read.
    probe: Option<PathBuf>,
    tables: Vec<&'static str>,
    stamps: Stamps,
}

#[derive(Clone, Copy, Default)]
struct Stamps {
    commits: u64,
    access: u64,
}

impl Redb {
    /// Makes a new file. Only `init`, `demo` and the first `serve` do: creating over an empty file
    /// would hide that a database was lost.
    ///
    /// # Errors
    /// If there is a file already, or it cannot be written.
    pub fn create(path: &Path, tables: Vec<&'static str>) -> Result<Self> {
        OpenOptions::new().write(true).create_new(true).open(path).map_err(failed)?;
        let made = builder().create(path).map_err(failed)?;
        drop(made);
        if let Some(parent) = path.parent() {
            File::open(parent).and_then(|dir| dir.sync_all()).map_err(failed)?;
        }
        Self::open(path, tables)
    }

    /// Opens a file that [`Redb::create`] made.
    ///
    /// # Errors
    /// If it is missing, empty, broken or served by another process.
    pub fn open(path: &Path, tables: Vec<&'static str>) -> Result<Self> {
        let file = path.to_path_buf();
        let probe = path.with_extension("probe");
        Self::open_by(Box::new(move || builder().open(&file).map_err(failed)), Some(probe), tables)
    }

    /// Opens by a way of one's own: how tests put a failing disk below.
    pub fn open_by(
        opener: Opener,
        probe: Option<PathBuf>,
        tables: Vec<&'static str>,
    ) -> Result<Self> {
        let database = opener()?;
        let redb =
            Redb { database: Some(database), opener, probe, tables, stamps: Stamps::default() };
        redb.create_tables()?;
        Ok(redb)
    }

    /// The settings of the builder, for tests that open on a backend of their own.
    pub fn builder() -> redb::Builder {
        builder()
    }

    /// Tables that a newer version added come into being when it first opens the file.
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
        let mut write = database.begin_write().map_err(failed)?;
        write.set_durability(Durability::Immediate).map_err(failed)?;
        write.set_two_phase_commit(true);
        write.set_quick_repair(true);
        for name in missing {
            write.open_table(definition(name)).map_err(failed)?;
        }
        write.commit().map_err(failed)
    }

    fn database(&self) -> Result<&Database> {
        self.database.as_ref().ok_or_else(|| Error::internal("the database is closed"))
    }

    fn reader(&self) -> Result<Arc<dyn Reader>> {
        let transaction = self.database()?.begin_read().map_err(failed)?;
        let tables = self.tables.iter().map(|name| (*name, OnceLock::new())).collect();
        Ok(Arc::new(Snapshot { transaction, tables, stamps: self.stamps }))
    }

    fn write(&self, writes: &Writes) -> Result<()> {
        let mut transaction = self.database()?.begin_write().map_err(failed)?;
        transaction.set_durability(Durability::Immediate).map_err(failed)?;
        transaction.set_two_phase_commit(true);
        transaction.set_quick_repair(true);
        for (name, changes) in &writes.tables {
            let mut table = transaction.open_table(definition(name)).map_err(failed)?;
            for (key, op) in changes {
                match op {
                    Op::Put(value) | Op::Insert(value) => {
                        table.insert(key.as_slice(), value.as_slice()).map_err(failed)?;
                    }
                    Op::Delete => {
                        table.remove(key.as_slice()).map_err(failed)?;
                    }
                }
            }
        }
        transaction.commit().map_err(failed)
    }
}

fn builder() -> redb::Builder {
    let mut builder = Database::builder();
    builder.set_cache_size(CACHE_BYTES);
    builder
}

impl Disk for Redb {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.reader()
    }

    fn commit(&mut self, writes: &Writes) -> Commit {
        if let Err(error) = self.write(writes) {
            return Commit::Unknown(error);
        }
        self.stamps.commits += 1;
        if writes.decide_access {
            self.stamps.access = self.stamps.commits;
        }
        match self.reader() {
            Ok(reader) => Commit::Done(reader),
            Err(error) => Commit::Unknown(error),
        }
    }

    fn reopen(&mut self, publish: &mut dyn FnMut(Arc<dyn Reader>)) -> Result<()> {
        // A disk that is still full or broken: what is open can be read, so it stays open.
        if let Some(probe) = &self.probe {
            try_disk(probe).map_err(failed)?;
        }
        publish(Arc::new(Closed));
        self.database = None;
        // The file stays locked until the last reader has left.
        let deadline = Instant::now() + Duration::from_secs(READERS_LEAVE_SECS);
        let database = loop {
            match (self.opener)() {
                Ok(database) => break database,
                Err(error) if Instant::now() > deadline => return Err(error),
                Err(_) => std::thread::sleep(Duration::from_millis(2)),
            }
        };
        self.database = Some(database);
        self.stamps.commits += 1;
        self.stamps.access = self.stamps.commits;
        publish(self.reader()?);
        Ok(())
    }
}

fn try_disk(probe: &Path) -> std::io::Result<()> {
    // A page of redb's, more than a file system gives away from its reserve by chance.
    let mut file = File::create(probe)?;
    let tried = file.write_all(&[0; 64 * 1024]).and_then(|()| file.sync_all());
    std::fs::remove_file(probe)?;
    tried
}

/// What readers see while the database is opened again.
struct Closed;

impl Closed {
    fn error() -> Error {
        Error::busy("reopening", "the database is being opened again", 1)
    }
}

impl Reader for Closed {
    fn get(
        &self,
        _: &'static str,
        _: &[u8],
        _: &mut dyn FnMut(&[u8]) -> Result<()>,
    ) -> Result<bool> {
        Err(Self::error())
    }
    fn scan(&self, _: &'static str, _: Span<'_>, _: Order, _: &mut Each<'_>) -> Result<()> {
        Err(Self::error())
    }
    fn access_stamp(&self) -> Option<u64> {
        None
    }
}

struct Snapshot {
    transaction: ReadTransaction,
    tables: HashMap<&'static str, OnceLock<Table>>,
    stamps: Stamps,
}

impl Snapshot {
    /// `None` for a table that nobody has written to yet.
    fn table(&self, name: &'static str) -> Result<Option<&Table>> {
        let place = self
            .tables
            .get(name)
            .ok_or_else(|| Error::internal(format!("the table {name} is in no catalogue")))?;
        if let Some(table) = place.get() {
            return Ok(Some(table));
        }
        match self.transaction.open_table(definition(name)) {
            Ok(table) => Ok(Some(place.get_or_init(|| table))),
            Err(TableError::TableDoesNotExist(_)) => Ok(None),
            Err(error) => Err(failed(error)),
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
        match table.get(key).map_err(failed)? {
            Some(value) => see(value.value()).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(
        &self,
        table: &'static str,
        span: Span<'_>,
        order: Order,
        each: &mut Each<'_>,
    ) -> Result<()> {
        let Some(table) = self.table(table)? else { return Ok(()) };
        if span.to.is_some_and(|to| to <= span.from) {
            return Ok(());
        }
        let mut range = match span.to {
            Some(to) => table.range(span.from..to),
            None => table.range(span.from..),
        }
        .map_err(failed)?;
        while let Some(entry) = match order {
            Order::Ascending => range.next(),
            Order::Descending => range.next_back(),
        } {
            let (key, value) = entry.map_err(failed)?;
            if each(key.value(), value.value())? == Step::Enough {
                break;
            }
        }
        Ok(())
    }

    fn access_stamp(&self) -> Option<u64> {
        Some(self.stamps.access)
    }
}
