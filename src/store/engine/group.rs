//! Group commit: one writer thread takes all attempts that wait, runs each on top of those before
//! it, makes their changes durable together, and then answers all of them.
//!
//! Nobody is answered before the commit, not even who was refused: the reason may lie in a change
//! that did not last. After a commit whose outcome is unknown the disk is opened again before
//! anybody is told, so that whoever then looks sees what is there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{Attempt, Commit, Disk, Engine, Layer, Reader, Writes};
use crate::base::{Error, Result};
use crate::store::signals::Signals;

/// At most 1,024 attempts wait: at 10,000 a second the last of them waits a tenth of a second.
/// More would only grow the time everybody waits; they are told to come back instead.
const MAX_WAITING: usize = 1024;

/// At most 512 attempts share a commit, so that the first of them does not wait for a thousand
/// others to be run.
pub(super) const MAX_GROUP: usize = 512;

/// A commit takes no further attempts once it has 8 MiB to write: it would hold all of them in
/// memory, and the first would wait for the last one's megabyte.
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;

/// How often to see whether the disk must be opened again, or can be after all.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A [`Disk`] with its queue and its writer thread.
pub struct Group {
    newest: Newest,
    queue: Option<SyncSender<Box<dyn Attempt>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Group {
    /// Starts the writer thread. `signals` hears of every commit.
    pub fn start(mut disk: impl Disk, signals: Arc<Signals>) -> Result<Self> {
        let newest = Newest(Arc::new(RwLock::new(disk.snapshot()?)));
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let mut writer =
            Writer { disk, newest: newest.clone(), signals, sound: true, last: Last::none() };
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run(&waiting))
            .map_err(|e| Error::internal(format!("the writer thread cannot be started: {e}")))?;
        Ok(Group { newest, queue: Some(queue), thread: Mutex::new(Some(thread)) })
    }
}

impl Engine for Group {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.newest.get()
    }

    fn submit(&self, attempt: Box<dyn Attempt>) -> Result<()> {
        let queue = self.queue.as_ref().expect("the queue lives as long as we do");
        queue.try_send(attempt).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::busy("overloaded", "too many writes are waiting", 1),
            TrySendError::Disconnected(_) => Error::busy("stopping", "the server is stopping", 5),
        })
    }
}

impl Drop for Group {
    /// Ends when everything handed in has been settled.
    fn drop(&mut self) {
        self.queue = None;
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        // An attempt that held the last handle drops us on the writer's own thread, which cannot
        // wait for itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// The newest durable state, for all who read.
#[derive(Clone)]
struct Newest(Arc<RwLock<Arc<dyn Reader>>>);

impl Newest {
    fn get(&self) -> Arc<dyn Reader> {
        self.0.read().expect("nobody panics holding it").clone()
    }

    fn set(&self, reader: Arc<dyn Reader>) {
        // What was there is dropped after the lock is.
        let _old =
            std::mem::replace(&mut *self.0.write().expect("nobody panics holding it"), reader);
    }
}

struct Writer<D> {
    disk: D,
    newest: Newest,
    signals: Arc<Signals>,
    /// Whether the last commit's outcome is known. Otherwise the disk is opened again first.
    sound: bool,
    last: Last,
}

/// The last commit.
struct Last {
    attempts: usize,
    took: Duration,
    ended: Instant,
}

impl Last {
    fn none() -> Self {
        Last { attempts: 0, took: Duration::ZERO, ended: Instant::now() }
    }

    /// Who else shares a commit with `len` others: whoever waits, and whoever still comes. Those
    /// who were just answered often write again at once, and a commit for a few takes nearly as
    /// long as one for many. So as many as the last time are waited for, but not longer than the
    /// last commit took.
    fn next(&self, waiting: &Receiver<Box<dyn Attempt>>, len: usize) -> Option<Box<dyn Attempt>> {
        if let Ok(next) = waiting.try_recv() {
            return Some(next);
        }
        if len >= self.attempts {
            return None;
        }
        let left = (self.ended + self.took).saturating_duration_since(Instant::now());
        waiting.recv_timeout(left).ok()
    }
}

impl<D: Disk> Writer<D> {
    fn run(&mut self, waiting: &Receiver<Box<dyn Attempt>>) {
        loop {
            match waiting.recv_timeout(LOOK_AFTER) {
                Ok(first) => self.serve(first, waiting),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.recover() {
                        tracing::warn!(%error, "the database cannot be opened again yet");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Serves `first` and whoever else is waiting.
    fn serve(&mut self, first: Box<dyn Attempt>, waiting: &Receiver<Box<dyn Attempt>>) {
        if let Err(error) = self.recover() {
            // The others would each try the broken disk again.
            let others: Vec<_> = waiting.try_iter().take(MAX_WAITING).collect();
            for attempt in std::iter::once(first).chain(others) {
                settle(attempt, Err(error.clone()));
            }
            return;
        }
        let base = self.newest.get();
        let mut writes = Writes::default();
        let mut bytes = 0;
        let mut group = Vec::with_capacity(self.last.attempts);
        let mut next = Some(first);
        while let Some(mut attempt) = next {
            let end = self.run_one(&mut *attempt, &Layer { base: &*base, writes: &writes });
            group.push((
                attempt,
                end.map(|new| {
                    bytes += new.bytes();
                    writes.append(new);
                }),
            ));
            let full = group.len() >= self.disk.max_group() || bytes >= MAX_GROUP_BYTES;
            next = if full { None } else { self.last.next(waiting, group.len()) };
        }
        let start = Instant::now();
        let end = if writes.is_empty() { Ok(()) } else { self.commit(&writes) };
        self.last = Last { attempts: group.len(), ended: Instant::now(), took: start.elapsed() };
        if end.is_ok() {
            self.signals.fire(&writes.topics);
        }
        for (attempt, own) in group {
            settle(attempt, end.clone().and(own));
        }
    }

    /// Runs an attempt. If it panics, that is its own 500 and nobody else's.
    fn run_one(&mut self, attempt: &mut dyn Attempt, layer: &Layer) -> Result<Writes> {
        catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..self.disk.rehearsals() {
                let _ = attempt.run(layer);
            }
            attempt.run(layer)
        }))
        .unwrap_or_else(|_| Err(Error::internal("the operation panicked")))
    }

    fn commit(&mut self, writes: &Writes) -> Result<()> {
        let end = catch_unwind(AssertUnwindSafe(|| self.disk.commit(writes)))
            .unwrap_or_else(|_| Commit::Unknown(Error::internal("the commit panicked")));
        match end {
            Commit::Done(reader) => {
                self.newest.set(reader);
                Ok(())
            }
            Commit::Refused(error) => Err(error),
            Commit::Unknown(error) => {
                tracing::error!(%error, "a commit failed; its outcome is unknown");
                self.sound = false;
                let _ = self.recover();
                Err(unknown().detail(error))
            }
        }
    }

    /// Opens the disk again, if it must be.
    fn recover(&mut self) -> Result<()> {
        if self.sound && !self.disk.failed() {
            return Ok(());
        }
        self.sound = false;
        let reopened = catch_unwind(AssertUnwindSafe(|| self.disk.reopen()))
            .unwrap_or_else(|_| Err(Error::internal("opening the database again panicked")));
        match reopened {
            Ok(reader) => {
                self.newest.set(reader);
                self.sound = true;
                tracing::info!("the database was opened again; writes go on");
                Ok(())
            }
            Err(error) => {
                Err(Error::busy("read_only", "writes are not possible now", 1).detail(error))
            }
        }
    }
}

fn unknown() -> Error {
    Error::busy(
        "outcome_unknown",
        "the write may or may not have been kept; look before you repeat it",
        1,
    )
}

/// Answers. Whatever goes wrong at whoever waited (its values are dropped here) must not end the
/// writer thread.
fn settle(attempt: Box<dyn Attempt>, end: Result<()>) {
    let _ = catch_unwind(AssertUnwindSafe(|| attempt.settle(end)));
}

#[cfg(test)]
mod tests;
