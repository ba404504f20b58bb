//! Writing a part of the log to the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{Database, Table, WriteTransaction};

use super::part::{Part, PartVersion};
use super::position::Position;
use super::tables::TableNumbers;
use crate::base::{Error, Result};
use crate::store::engine::redb::{begin, definition, failed};
use crate::store::heavy_threads::lower_priority;

/// A part that is to be written to the database.
pub struct Frozen {
    /// Its changes.
    pub part: Part,
    /// What the database has of the log afterwards.
    pub position: Position,
}

/// A checkpoint: writes a part to the database, in steps of one transaction each, and with the last
/// one the position in the log.
///
/// After a crash between two steps the whole part is read from the log again: what the database has
/// of it already is then written once more, to the same effect. So each step is small: others' writes
/// wait less for the disk, and the pages it frees are used by the next.
///
/// The position says that the database has all of the part, which nothing reads from the log again then.
/// So it is written only if the map had as many versions as the records have changes, each behind the
/// one before: the map may be wrong, the log still has everything.
pub struct Checkpoint {
    database: Arc<Database>,
    part: Part,
    tables: Arc<TableNumbers>,
    position: Position,
    step_bytes: [usize; 2],
    /// The last version that was seen.
    last: Option<PartVersion>,
    /// How many versions were seen.
    seen: usize,
}

/// Why a checkpoint failed.
#[derive(Clone, Debug)]
pub enum CheckpointError {
    /// The database failed; it must be reopened.
    Database(Error),
    /// The part in memory is not what its records say; it must be made again from the log.
    Part(Error),
}

impl CheckpointError {
    /// The error itself.
    pub fn error(&self) -> &Error {
        match self {
            CheckpointError::Database(error) | CheckpointError::Part(error) => error,
        }
    }
}

impl From<Error> for CheckpointError {
    fn from(error: Error) -> Self {
        CheckpointError::Database(error)
    }
}

type OpenTable<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// Each change counts as so many bytes more: of a small one the page it is in is most of the work.
const CHANGE_BYTES: usize = 200;

impl Checkpoint {
    /// A checkpoint of a part. A step writes about so many bytes, with [`CHANGE_BYTES`] for each change:
    /// if it is urgent, and if not.
    pub fn new(
        database: Arc<Database>,
        frozen: &Frozen,
        tables: Arc<TableNumbers>,
        step_bytes: [usize; 2],
    ) -> Self {
        let Frozen { part, position } = frozen;
        let (part, position) = (part.clone(), *position);
        Checkpoint { database, part, tables, position, step_bytes, last: None, seen: 0 }
    }

    /// Does one step. Returns whether it was the last.
    ///
    /// # Errors
    /// If the database fails, or the part is not what its records say. Then the position is not
    /// written.
    pub fn step(&mut self, is_urgent: bool) -> Result<bool, CheckpointError> {
        let transaction = begin(&self.database)?;
        let is_last = self.write(&transaction, self.step_bytes[usize::from(!is_urgent)])?;
        if is_last {
            if self.seen != self.part.changes() {
                return Err(self.wrong("versions are missing in"));
            }
            self.position.write(&transaction)?;
        }
        transaction.commit().map_err(failed)?;
        Ok(is_last)
    }

    /// Writes the next changes, about so many bytes. Returns whether they were the last.
    fn write(
        &mut self,
        transaction: &WriteTransaction,
        step_bytes: usize,
    ) -> Result<bool, CheckpointError> {
        let guard = &crossbeam_epoch::pin();
        let part = self.part.clone();
        let mut open: Option<(u16, OpenTable<'_>)> = None;
        let mut bytes = 0;
        for version in part.versions_after(self.last.as_ref(), guard) {
            if self.last.as_ref().is_some_and(|last| last >= version) {
                return Err(self.wrong("versions are out of order in"));
            }
            let is_older = self.last.as_ref().is_some_and(|last| last.has_key_of(version));
            if !is_older && bytes >= step_bytes {
                return Ok(false);
            }
            self.last = Some(version.clone());
            self.seen += 1;
            if is_older {
                continue;
            }
            let (key, value) = (version.key(), version.value());
            bytes += key.len() + value.map_or(0, <[u8]>::len) + CHANGE_BYTES;
            let table = match &mut open {
                Some((open, table)) if *open == version.table() => table,
                _ => {
                    // A table is closed before another is opened.
                    drop(open.take());
                    let name = definition(self.tables.name(version.table()));
                    let table = transaction.open_table(name).map_err(failed)?;
                    &mut open.insert((version.table(), table)).1
                }
            };
            match value {
                Some(value) => table.insert(key, value).map_err(failed)?,
                None => table.remove(key).map_err(failed)?,
            };
        }
        Ok(true)
    }

    fn wrong(&self, what: &str) -> CheckpointError {
        let (seen, all) = (self.seen, self.part.changes());
        CheckpointError::Part(Error::internal(format!(
            "{what} the map of the log ({seen} of {all} seen); it is made again from the log, which has \
             all of them"
        )))
    }
}

/// How far a checkpoint is.
#[derive(Clone, Default)]
pub struct Progress {
    /// How many steps are done.
    pub steps: usize,
    /// How many versions they have seen, and how many there are.
    pub seen: (usize, usize),
    /// The end, with the time that it took.
    pub end: Option<(Result<(), CheckpointError>, Duration)>,
}

/// A checkpoint that is being done, by a thread of its own or a step at a time.
pub struct Running {
    shared: Arc<Shared>,
    worker: Option<Worker>,
    begun: Instant,
}

enum Worker {
    Thread(JoinHandle<()>),
    Stepwise(Option<Box<Checkpoint>>),
}

#[derive(Default)]
struct Shared {
    progress: Mutex<Progress>,
    changed: Condvar,
    is_cancelled: AtomicBool,
    is_urgent: AtomicBool,
}

impl Shared {
    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().expect("no thread panics while holding it")
    }

    /// Does a step of what is in `checkpoint`, and drops that at the end: who hears of the end may
    /// close the database. Returns whether there are more.
    fn step(&self, checkpoint: &mut Option<Box<Checkpoint>>, begun: Instant) -> bool {
        let Some(running) = checkpoint else { return false };
        if self.is_cancelled.load(Ordering::Relaxed) {
            *checkpoint = None;
            return false;
        }
        // A broken file can make redb panic.
        let is_urgent = self.is_urgent.load(Ordering::Relaxed);
        let step = std::panic::AssertUnwindSafe(|| running.step(is_urgent));
        let end = std::panic::catch_unwind(step)
            .unwrap_or_else(|_| Err(Error::internal("the database panicked").into()));
        let seen = (running.seen, running.part.changes());
        if !matches!(end, Ok(false)) {
            *checkpoint = None;
        }
        let mut progress = self.progress();
        progress.steps += 1;
        progress.seen = seen;
        progress.end = match end {
            Ok(false) => None,
            Ok(true) => Some((Ok(()), begun.elapsed())),
            Err(error) => Some((Err(error), begun.elapsed())),
        };
        self.changed.notify_all();
        progress.end.is_none()
    }
}

impl Progress {
    /// Which part of the changes is in the database: from 0 to 1, whatever was counted. The length of the
    /// log is bounded by it.
    pub fn share(&self) -> f64 {
        let (seen, all) = self.seen;
        if all == 0 { 0.0 } else { (seen as f64 / all as f64).min(1.0) }
    }
}

impl Running {
    /// Begins a checkpoint. `is_stepwise`: without a thread, so that the order of what happens is the
    /// same each time.
    pub fn begin(checkpoint: Checkpoint, is_stepwise: bool) -> Self {
        let mut checkpoint = Some(Box::new(checkpoint));
        let shared = Arc::<Shared>::default();
        let begun = Instant::now();
        if is_stepwise {
            let worker = Some(Worker::Stepwise(checkpoint));
            return Running { shared, worker, begun };
        }
        let own = shared.clone();
        let work = move || {
            lower_priority();
            while own.step(&mut checkpoint, begun) {}
        };
        let thread = std::thread::Builder::new().name("checkpoint".into()).spawn(work);
        if let Err(error) = &thread {
            let error = Error::internal(format!("a thread cannot be started: {error}"));
            shared.progress().end = Some((Err(error.into()), Duration::ZERO));
        }
        Running { shared, worker: thread.ok().map(Worker::Thread), begun }
    }

    /// One that has failed.
    #[cfg(test)]
    pub fn failed(error: CheckpointError) -> Self {
        let shared = Arc::<Shared>::default();
        shared.progress().end = Some((Err(error), Duration::ZERO));
        Running { shared, worker: None, begun: Instant::now() }
    }

    /// Returns how far it is. Stepwise, it does a step first.
    pub fn progress(&mut self) -> Progress {
        if let Some(Worker::Stepwise(checkpoint)) = &mut self.worker
            && self.shared.progress().end.is_none()
        {
            self.shared.step(checkpoint, self.begun);
        }
        self.shared.progress().clone()
    }

    /// Says whether commits will soon wait for it.
    pub fn set_urgent(&self, is_urgent: bool) {
        self.shared.is_urgent.store(is_urgent, Ordering::Relaxed);
    }

    /// Waits until it is further than `seen`.
    pub fn wait(&mut self, seen: &Progress) -> Progress {
        if matches!(self.worker, Some(Worker::Thread(_))) {
            let is_same = |now: &mut Progress| now.steps == seen.steps && now.end.is_none();
            let progress = self.shared.progress();
            drop(self.shared.changed.wait_while(progress, is_same));
        }
        self.progress()
    }

    /// Ends it after the step that is being done, for which it waits.
    ///
    /// # Errors
    /// If a step had failed.
    pub fn cancel(mut self) -> Result<(), CheckpointError> {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
        self.join();
        self.shared.progress().end.take().map_or(Ok(()), |(end, _)| end)
    }

    /// Waits for the thread, unless it has nothing left to do.
    fn join(&mut self) {
        let is_over = self.shared.progress().end.is_some();
        if let Some(Worker::Thread(thread)) = self.worker.take()
            && !is_over
        {
            let _ = thread.join();
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.join();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_never_more_than_all() {
        let share = |seen| Progress { seen, ..Progress::default() }.share();
        assert_eq!(
            [share((0, 0)), share((1, 4)), share((4, 4)), share((9, 4))],
            [0.0, 0.25, 1.0, 1.0]
        );
    }
}
