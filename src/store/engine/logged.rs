//! Storage in a redb file with a log in front of it: a write-ahead log, with checkpoints as databases
//! have them.
//!
//! redb writes whole pages for every commit, however little changes: some 40 for a request. So a
//! commit appends its changes to a log and syncs that, and a checkpoint in the background writes the
//! changes of thousands of commits to redb in one go. Readers see both: the changes of the log are also
//! in memory, in a map over redb's snapshot, with every version: a snapshot reads up to its number.
//!
//! The log has two parts, a file each. Commits go to the live part. When it is large or old enough,
//! and the one before it is in redb, it is frozen and written to redb, while commits go to the other
//! file. The row that says up to which record redb has the log ([`Position`]) is written in the same
//! transaction as the last changes. Opening reads what redb does not have.

mod checkpoint;
mod files;
#[cfg(any(test, fuzzing))]
pub mod fuzzing;
mod layers;
mod log;
mod opening;
mod part;
mod position;
mod read_only;
mod record;
mod replay;
mod room;
mod salvage;
mod settings;
mod space;
mod tables;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::redb::{Redb, is_no_space};
use super::storage::{IDLE_INTERVAL, RenewFn};
use super::{CommitOutcome, LocalStorage, Reader, StorageSize, StoreMeters, WriteBatch};
use crate::base::{Error, Result};
use checkpoint::{Checkpoint, CheckpointError, Frozen, Progress, Running};
use layers::LayeredReader;
use log::Log;
use opening::Opened;
use part::Part;
use position::Position;
use space::SpaceInFile;
use tables::TableNumbers;

pub use files::{LogBeside, LogFile, LogFiles, LogPlace};
pub use read_only::{open_read_only, open_salvaged};
pub use settings::LogSettings;

/// Storage in a redb file with a log in front of it.
///
/// It does not look whether a key that is inserted exists: whoever inserts it has, and the writer
/// thread has compared what was read with what changed since. Looking again would be most of the
/// processor time of a commit.
pub struct LoggedRedb {
    // Dropped in this order: what uses the database first.
    running: Option<Running>,
    frozen: Option<Frozen>,
    live: Part,
    /// When the first record of the live part was added.
    live_since: Option<Instant>,
    log: Log,
    place: Box<dyn LogPlace>,
    settings: LogSettings,
    position: Position,
    tables: Arc<TableNumbers>,
    /// A snapshot of the database, at most one step of a checkpoint old.
    base: Arc<dyn Reader>,
    /// How many steps of the running checkpoint that snapshot has.
    base_steps: usize,
    commits: u64,
    access_version: u64,
    /// What must be read again or reopened: something failed, or is being done.
    broken: Option<Broken>,
    /// When a checkpoint failed last.
    failed_at: Option<Instant>,
    /// What a full disk has inside of the database file.
    space: SpaceInFile,
    /// Whether nothing is written to the database.
    is_for_inspection: bool,
    meters: Arc<StoreMeters>,
    renew: RenewFn,
    redb: Redb,
}

/// What must not be gone on with.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Broken {
    /// The log and the parts in memory: they are read again. The database is as it was, and readers go
    /// on over it meanwhile.
    Log,
    /// The database, too.
    Database,
}

impl LoggedRedb {
    /// Creates a new database file with its log.
    ///
    /// # Errors
    /// If the file exists or cannot be written.
    pub fn create(path: &Path, tables: Vec<&'static str>) -> Result<Self> {
        Self::over(
            Redb::create(path, tables)?,
            Box::new(LogBeside::database(path)),
            LogSettings::default(),
        )
    }

    /// Opens a database file with its log. One that has no log gets one.
    ///
    /// # Errors
    /// If it is missing, empty, broken or served by another process; if its log is missing, damaged or
    /// another one's.
    pub fn open(path: &Path, tables: Vec<&'static str>) -> Result<Self> {
        Self::over(
            Redb::open(path, tables)?,
            Box::new(LogBeside::database(path)),
            LogSettings::default(),
        )
    }

    /// Opens the log at `place` of an open database.
    ///
    /// # Errors
    /// If the log is missing, damaged or another one's.
    pub fn over(mut redb: Redb, place: Box<dyn LogPlace>, settings: LogSettings) -> Result<Self> {
        let mut tables = Arc::new(TableNumbers::new(redb.tables()));
        let database = redb.shared_database()?;
        let opened = Opened::load(&database, &*place, &settings, &mut tables)?;
        let base = redb.snapshot()?;
        Ok(LoggedRedb {
            running: None,
            frozen: opened.frozen,
            live_since: (!opened.live.is_empty()).then(Instant::now),
            live: opened.live,
            log: opened.log,
            place,
            settings,
            position: opened.position,
            tables,
            base,
            base_steps: 0,
            commits: 0,
            access_version: 0,
            broken: None,
            failed_at: None,
            space: SpaceInFile::default(),
            is_for_inspection: false,
            meters: Arc::default(),
            renew: Box::new(drop),
            redb,
        })
    }

    /// Leaves the database file as it is: what is in the log stays there.
    pub fn for_inspection(mut self) -> Self {
        self.is_for_inspection = true;
        self
    }

    /// Holds a reserve of disk space from now on; see [`Redb::hold_reserve`].
    pub fn hold_reserve(&mut self) {
        self.redb.hold_reserve(self.settings.reserve_bytes);
    }

    /// Returns a reader of the newest state.
    fn reader(&self) -> Arc<dyn Reader> {
        let frozen = self.frozen.as_ref().map(|frozen| frozen.part.clone());
        Arc::new(LayeredReader {
            live: self.live.clone(),
            frozen,
            base: self.base.clone(),
            tables: self.tables.clone(),
            access_version: self.access_version,
        })
    }

    // ── Checkpoints ──────────────────────────────────────────────────────────

    /// Notices how far the running checkpoint is, if one runs. From now on readers are over the newest
    /// snapshot of the database: what an older one holds is space that the next steps cannot use.
    ///
    /// # Errors
    /// If it failed: it must be reopened.
    fn look(&mut self) -> Result<Progress> {
        let Some(running) = &mut self.running else { return Ok(Progress::default()) };
        let progress = running.progress();
        let is_newer = progress.steps > self.base_steps;
        if is_newer {
            self.base = self.redb.snapshot().inspect_err(|_| {
                // The database cannot be used any more, however the step ended.
                (self.broken, self.failed_at) = (Some(Broken::Database), Some(Instant::now()));
            })?;
            self.base_steps = progress.steps;
        }
        if let Some((end, took)) = &progress.end {
            self.running = None;
            self.end_checkpoint(end, *took)?;
        }
        if is_newer {
            (self.renew)(self.reader());
        }
        Ok(if progress.end.is_some() { Progress::default() } else { progress })
    }

    fn end_checkpoint(&mut self, end: &Result<(), CheckpointError>, took: Duration) -> Result<()> {
        if let Err(end) = end {
            let error = end.error();
            tracing::error!(%error, "a checkpoint failed; it will be tried again");
            self.meters.failed_checkpoints.add_one();
            self.failed_at = Some(Instant::now());
            if matches!(end, CheckpointError::Part(_)) {
                self.broken = Some(Broken::Log);
                return Err(not_now().detail(error));
            }
            self.redb.note_failure();
            self.broken = Some(Broken::Database);
            return Err(self.redb.check_space().err().unwrap_or_else(not_now).detail(error));
        }
        self.meters.checkpoint_micros.observe(micros(took));
        self.position = self.frozen.take().map_or(self.position, |frozen| frozen.position);
        self.failed_at = None;
        self.redb.note_success();
        self.measure();
        Ok(())
    }

    /// Begins a checkpoint of the frozen part; of the live part, if there is no frozen one and
    /// `is_due`. One that failed is tried again after a while, or at once.
    fn begin_checkpoint(&mut self, is_due: bool, at_once: bool) -> Result<()> {
        let is_soon = |at: Instant| at.elapsed() < self.settings.retry_interval;
        let waits = !at_once && self.failed_at.is_some_and(is_soon);
        if self.running.is_some() || self.broken.is_some() || self.is_for_inspection || waits {
            return Ok(());
        }
        if self.frozen.is_none() && is_due && !self.live.is_empty() {
            self.freeze();
        }
        let Some(frozen) = &self.frozen else { return Ok(()) };
        if self.failed_at.is_some() && self.redb.is_suspect() {
            // What is in the log was acknowledged: it may take the space that is held in reserve.
            let _ = self.redb.release_reserve();
        }
        let checkpoint = self.checkpoint_of(frozen)?;
        self.base_steps = 0;
        self.running = Some(Running::begin(checkpoint, self.settings.is_stepwise));
        Ok(())
    }

    fn freeze(&mut self) {
        let position = self.log.position();
        self.frozen = Some(Frozen { part: std::mem::take(&mut self.live), position });
        self.live_since = None;
        self.log.switch();
    }

    fn checkpoint_of(&self, frozen: &Frozen) -> Result<Checkpoint> {
        let step_bytes = [self.settings.step_bytes, self.settings.gentle_step_bytes];
        let database = self.redb.shared_database()?;
        Ok(Checkpoint::new(database, frozen, self.tables.clone(), step_bytes))
    }

    // ── Commits ──────────────────────────────────────────────────────────────

    /// Makes durable that the log is in use, before the first record after it was closed.
    fn use_log(&mut self) -> Result<()> {
        let position = Position { is_closed: false, ..self.position };
        let database = self.redb.shared_database()?;
        self.broken = Some(Broken::Database);
        position.store(&database)?;
        self.broken = None;
        self.position = position;
        Ok(())
    }

    /// Appends a batch to the log; the error is any other outcome of the commit.
    fn write(&mut self, writes: &WriteBatch) -> Result<Arc<dyn Reader>, CommitOutcome> {
        self.make_room(Part::memory_of(writes)).map_err(CommitOutcome::Refused)?;
        if self.position.is_closed {
            self.use_log().map_err(CommitOutcome::Unknown)?;
        }
        let (record, link) = record::encode(self.log.id(), self.log.last(), writes)
            .ok_or_else(|| CommitOutcome::Refused(Error::internal("too much for one record")))?;
        // Until all of it has succeeded, without a panic.
        self.broken = Some(Broken::Log);
        let failed = |error| CommitOutcome::Unknown(Error::internal(format!("the log: {error}")));
        // The reserve is for deletions and the next checkpoint.
        let may_fill = !self.redb.is_reserve_released();
        self.log.append(&record, link, may_fill).map_err(failed)?;
        let number = |name: &str| TableNumbers::shared(&mut self.tables, name);
        self.space.append(record.len());
        self.live.add(&record, number).map_err(CommitOutcome::Unknown)?;
        self.broken = None;
        self.live_since.get_or_insert_with(Instant::now);
        self.commits += 1;
        if writes.changes_access {
            self.access_version = self.commits;
        }
        self.measure();
        Ok(self.reader())
    }

    /// Sets the gauge of the log.
    fn measure(&self) {
        let frozen = self.frozen.as_ref().map_or(0, |frozen| frozen.part.bytes());
        self.meters.log_bytes.set((self.live.bytes() + frozen) as u64);
    }

    /// Writes all of the log to the database and closes it, so that the file alone has everything.
    fn close(&mut self) -> Result<()> {
        if let Some(running) = self.running.take() {
            // What it has not written is written here, or read from the log at the next start.
            if let Err(end) = running.cancel() {
                return Err(end.error().clone());
            }
        }
        self.log.end_filling();
        if self.failed() || self.is_for_inspection {
            return Ok(());
        }
        let begun = Instant::now();
        while !self.position.is_closed {
            if self.frozen.is_none() && !self.live.is_empty() {
                self.freeze();
            }
            match self.frozen.take() {
                Some(frozen) => {
                    let mut checkpoint = self.checkpoint_of(&frozen)?;
                    while !checkpoint.step(true).map_err(|end| end.error().clone())? {
                        if begun.elapsed() >= self.settings.close_time {
                            return Err(Error::internal("it would take too long"));
                        }
                    }
                    self.position = frozen.position;
                }
                None => {
                    let position = Position { is_closed: true, ..self.position };
                    position.store(&*self.redb.shared_database()?)?;
                    self.position = position;
                }
            }
        }
        Ok(())
    }
}

/// How often the steps of a checkpoint are looked at while nothing is to be written: at each of them
/// readers get a new snapshot. Some ten steps.
const CHECKPOINT_INTERVAL: Duration = Duration::from_millis(50);

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

/// The error of a write while the database cannot be written to.
fn not_now() -> Error {
    Error::busy("read_only", "writes are not possible now", 1)
}

impl LocalStorage for LoggedRedb {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.base = self.redb.snapshot()?;
        Ok(self.reader())
    }

    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        let space = self.check_space();
        if let Err(error) = self.redb.admit(space, writes) {
            return CommitOutcome::Refused(error);
        }
        match self.write(writes) {
            Ok(reader) => {
                if self.failed_at.is_none() {
                    self.redb.note_success();
                }
                CommitOutcome::Done(reader)
            }
            Err(end) => {
                if matches!(end, CommitOutcome::Unknown(_)) {
                    self.redb.note_failure();
                }
                end
            }
        }
    }

    /// On a full disk there may be space in the database file itself.
    fn check_space(&mut self) -> Result<()> {
        let Err(error) = self.redb.check_space() else { return Ok(()) };
        let is_in_file = is_no_space(&error) && self.failed_at.is_none() && {
            let needed = self.settings.reserve_bytes.saturating_add(self.redb.bytes_not_on_disk());
            self.space.has(needed, self.meters.free_bytes())
        };
        if is_in_file { Ok(()) } else { Err(error) }
    }

    fn is_full(&self) -> bool {
        self.redb.is_suspect()
    }

    fn idle_interval(&self) -> Duration {
        // The pages that a step freed can be used once readers are over a newer snapshot.
        if self.running.is_some() { CHECKPOINT_INTERVAL } else { IDLE_INTERVAL }
    }

    fn failed(&self) -> bool {
        self.broken.is_some() || self.redb.failed()
    }

    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        let mut broken = self.broken.unwrap_or(Broken::Database);
        if let Some(running) = self.running.take()
            && matches!(running.cancel(), Err(CheckpointError::Database(_)))
        {
            broken = Broken::Database;
        }
        // Whatever fails from here on, the next try reopens everything.
        self.broken = Some(Broken::Database);
        self.log.end_filling();
        if broken == Broken::Database || self.redb.failed() {
            self.redb.reopen()?;
            // The snapshots before can be read only as far as they are in memory, and reading the log
            // takes a while. What is in memory is what was acknowledged.
            self.base = self.redb.snapshot()?;
            (self.renew)(self.reader());
        } else {
            self.redb.require_writable()?;
        }
        let database = self.redb.shared_database()?;
        let opened = Opened::load(&database, &*self.place, &self.settings, &mut self.tables)?;
        if opened.log.last().number < self.log.last().number {
            // At a start it could not be told from a record that was never written whole.
            return Err(Error::internal("the log has lost a record that was acknowledged"));
        }
        self.base = self.redb.snapshot()?;
        (self.live, self.frozen) = (opened.live, opened.frozen);
        (self.log, self.position) = (opened.log, opened.position);
        self.live_since = (!self.live.is_empty()).then(Instant::now);
        self.broken = None;
        self.commits += 1;
        self.access_version = self.commits;
        self.measure();
        Ok(self.reader())
    }

    fn idle(&mut self) {
        if self.settings.is_stepwise {
            return;
        }
        // If it fails or cannot begin, the next commit says why.
        let _ = self.look().and_then(|_| self.begin_checkpoint(true, false));
    }

    fn renew_with(&mut self, renew: RenewFn) {
        self.renew = renew;
    }

    fn count_in(&mut self, meters: &Arc<StoreMeters>) {
        self.meters = meters.clone();
        self.measure();
    }

    fn add_table(&mut self, name: &'static str) {
        self.redb.add_table(name);
        Arc::make_mut(&mut self.tables).add(name);
    }

    fn size(&mut self) -> Option<StorageSize> {
        self.redb.size()
    }
}

impl Drop for LoggedRedb {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::warn!(%error, "the log was not written to the database; it is read at the next start");
        }
    }
}

#[cfg(test)]
mod tests;
