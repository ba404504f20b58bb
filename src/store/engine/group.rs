//! Group commit: one writer thread takes all attempts that wait, runs each on top of those before
//! it, makes their changes durable together, and then answers all of them.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;

use super::{Attempt, Commit, Disk, Engine, Layer, Reader, Writes};
use crate::base::{Error, Result};
use crate::store::signals::Signals;

/// At most 1,024 attempts wait: at 10,000 a second the last of them waits a tenth of a second.
/// More would only grow the time everybody waits; they are told to come back instead.
const MAX_WAITING: usize = 1024;

/// At most 512 attempts share a commit, so that the first of them does not wait for a thousand
/// others to be run.
const MAX_GROUP: usize = 512;

/// A [`Disk`] with its queue and its writer thread.
pub struct Group {
    newest: Arc<RwLock<Arc<dyn Reader>>>,
    queue: Option<SyncSender<Box<dyn Attempt>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Group {
    /// Starts the writer thread. `signals` hears of every commit.
    pub fn start(mut disk: impl Disk, signals: Arc<Signals>) -> Result<Self> {
        let newest = Arc::new(RwLock::new(disk.snapshot()?));
        let (queue, waiting) = sync_channel(MAX_WAITING);
        let mut writer = Writer { disk, newest: newest.clone(), signals, sound: true };
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .spawn(move || writer.run(&waiting))
            .map_err(|e| Error::internal(format!("the writer thread cannot be started: {e}")))?;
        Ok(Group { newest, queue: Some(queue), thread: Mutex::new(Some(thread)) })
    }
}

impl Engine for Group {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.newest.read().expect("nobody panics holding it").clone()
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
        if let Some(thread) = self.thread.lock().ok().and_then(|mut thread| thread.take()) {
            // A panic there has been settled as everybody's 500 already.
            let _ = thread.join();
        }
    }
}

struct Writer<D> {
    disk: D,
    newest: Arc<RwLock<Arc<dyn Reader>>>,
    signals: Arc<Signals>,
    /// Whether the last commit's outcome is known. Otherwise the disk is opened again first.
    sound: bool,
}

impl<D: Disk> Writer<D> {
    fn run(&mut self, waiting: &Receiver<Box<dyn Attempt>>) {
        while let Ok(first) = waiting.recv() {
            let mut group = vec![first];
            while group.len() < MAX_GROUP
                && let Ok(next) = waiting.try_recv()
            {
                group.push(next);
            }
            self.settle(group);
        }
    }

    fn settle(&mut self, mut group: Vec<Box<dyn Attempt>>) {
        loop {
            if let Err(error) = self.recover() {
                return answer(group, vec![], &Err(error));
            }
            let (ends, writes) = self.run_all(&mut group);
            if writes.is_empty() {
                self.signals.fire(&writes.topics);
                return answer(group, ends, &Ok(()));
            }
            let committed = catch_unwind(AssertUnwindSafe(|| self.disk.commit(&writes)))
                .unwrap_or_else(|_| Commit::Unknown(Error::internal("the commit panicked")));
            let end = match committed {
                Commit::Done(reader) => {
                    *self.newest.write().expect("nobody panics holding it") = reader;
                    self.signals.fire(&writes.topics);
                    Ok(())
                }
                Commit::Conflict => continue,
                Commit::Refused(error) => Err(error),
                Commit::Unknown(error) => {
                    tracing::error!(%error, "a commit failed; its outcome is unknown");
                    self.sound = false;
                    Err(unknown().detail(error))
                }
            };
            return answer(group, ends, &end);
        }
    }

    /// Runs every attempt on top of those before it. A panic is that attempt's own 500.
    fn run_all(&mut self, group: &mut [Box<dyn Attempt>]) -> (Vec<Result<()>>, Writes) {
        let base = self.newest.read().expect("nobody panics holding it").clone();
        let mut writes = Writes::default();
        let mut ends = Vec::with_capacity(group.len());
        for attempt in group {
            let layer = Layer { base: &*base, writes: &writes };
            let run = catch_unwind(AssertUnwindSafe(|| {
                for _ in 0..self.disk.rehearsals() {
                    let _ = attempt.run(&layer);
                }
                attempt.run(&layer)
            }))
            .unwrap_or_else(|_| Err(Error::internal("the operation panicked")));
            ends.push(run.map(|new| writes.append(new)));
        }
        (ends, writes)
    }

    fn recover(&mut self) -> Result<()> {
        if self.sound {
            return Ok(());
        }
        let newest = self.newest.clone();
        let reopened = self.disk.reopen(&mut |reader| {
            *newest.write().expect("nobody panics holding it") = reader;
        });
        match reopened {
            Ok(()) => {
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

/// What an attempt was refused for was judged on top of changes that did not last either, so a
/// failed commit is everybody's answer.
fn answer(group: Vec<Box<dyn Attempt>>, ends: Vec<Result<()>>, end: &Result<()>) {
    let mut ends = ends.into_iter();
    for attempt in group {
        let own = ends.next().unwrap_or(Ok(()));
        attempt.settle(end.clone().and(own));
    }
}
