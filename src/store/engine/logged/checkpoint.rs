//! Writing a part of the log to the database.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use redb::{Database, Table};

use super::part::Part;
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
pub struct Checkpoint {
    /// The database.
    pub database: Arc<Database>,
    /// What is written.
    pub part: Part,
    /// The numbers of its tables.
    pub tables: Arc<TableNumbers>,
    /// The position afterwards.
    pub position: Position,
    /// How many bytes a step writes, about, with [`CHANGE_BYTES`] for each change: if it is urgent, and
    /// if not.
    pub step_bytes: [usize; 2],
    /// The first change of the next step.
    pub next: (u16, Vec<u8>),
    /// How many changes have been written, and how many there are; the latter is counted with the first
    /// step.
    pub written: (usize, usize),
}

type OpenTable<'a> = Table<'a, &'static [u8], &'static [u8]>;

/// Each change counts as so many bytes more: of a small one the page it is in is most of the work.
const CHANGE_BYTES: usize = 200;

impl Checkpoint {
    /// Does one step. Returns whether it was the last.
    ///
    /// # Errors
    /// If the database fails; it must then be reopened.
    pub fn step(&mut self, is_urgent: bool) -> Result<bool> {
        let step_bytes = self.step_bytes[usize::from(!is_urgent)];
        if self.written.1 == 0 {
            self.written.1 = self.part.changes_from(0, &[]).count();
        }
        let transaction = begin(&self.database)?;
        let (mut bytes, mut written) = (0, 0);
        let mut next = None;
        {
            let mut open: Option<(u16, OpenTable<'_>)> = None;
            for (number, (key, value)) in self.part.changes_from(self.next.0, &self.next.1) {
                if bytes >= step_bytes {
                    next = Some((number, key.to_vec()));
                    break;
                }
                bytes += key.len() + value.map_or(0, <[u8]>::len) + CHANGE_BYTES;
                written += 1;
                let table = match &mut open {
                    Some((open, table)) if *open == number => table,
                    _ => {
                        // A table is closed before another is opened.
                        drop(open.take());
                        let name = definition(self.tables.name(number));
                        let table = transaction.open_table(name).map_err(failed)?;
                        &mut open.insert((number, table)).1
                    }
                };
                match value {
                    Some(value) => table.insert(key, value).map_err(failed)?,
                    None => table.remove(key).map_err(failed)?,
                };
            }
        }
        if next.is_none() {
            self.position.write(&transaction)?;
        }
        transaction.commit().map_err(failed)?;
        self.written.0 += written;
        let is_last = next.is_none();
        self.next = next.unwrap_or_default();
        Ok(is_last)
    }
}

/// How far a checkpoint is.
#[derive(Clone, Default)]
pub struct Progress {
    /// How many steps are done.
    pub steps: usize,
    /// How many changes they have written, and how many there are.
    pub written: (usize, usize),
    /// The end, with the time that it took.
    pub end: Option<(Result<()>, Duration)>,
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
            .unwrap_or_else(|_| Err(Error::internal("the database panicked")));
        let written = running.written;
        if !matches!(end, Ok(false)) {
            *checkpoint = None;
        }
        let mut progress = self.progress();
        progress.steps += 1;
        progress.written = written;
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
    /// Which part of the changes is in the database: from 0 to 1.
    pub fn share(&self) -> f64 {
        let (written, all) = self.written;
        if all == 0 { 0.0 } else { written as f64 / all as f64 }
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
            shared.progress().end = Some((Err(error), Duration::ZERO));
        }
        Running { shared, worker: thread.ok().map(Worker::Thread), begun }
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

    /// Ends it after the step that is being done.
    pub fn cancel(self) {
        self.shared.is_cancelled.store(true, Ordering::Relaxed);
    }
}

impl Drop for Running {
    /// Waits for the thread, unless it has nothing left to do.
    fn drop(&mut self) {
        let is_over = self.shared.progress().end.is_some();
        if let Some(Worker::Thread(thread)) = self.worker.take()
            && !is_over
        {
            let _ = thread.join();
        }
    }
}
