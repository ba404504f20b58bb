//! Group commit: one writer thread takes all waiting attempts, runs each on top of those before it,
//! makes their changes durable together, and then answers all of them.
//!
//! No attempt is answered before the commit, not even a refused one: the reason may be a change
//! that was not kept. After a commit with an unknown outcome the storage is reopened before anyone
//! is answered, so that a caller who then reads sees the actual state.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use super::{Attempt, Commit, Disk, Engine, Layer, Reader, Writes};
use crate::base::{Error, Kind, Result};
use crate::store::signals::Signals;

/// At most 1,024 attempts wait: at 10,000 a second the last of them waits a tenth of a second.
/// More would only add to the waiting time of all; they get a 503 instead.
const MAX_WAITING: usize = 1024;

/// At most 512 attempts share a commit, so that the first does not wait until a thousand others
/// have run.
pub(super) const MAX_GROUP: usize = 512;

/// A group accepts no further attempts once it has 8 MiB to write: they are all held in memory, and
/// the first waits for the last.
const MAX_GROUP_BYTES: usize = 8 * 1024 * 1024;

/// How often to check whether the storage must be, or can be, reopened.
const LOOK_AFTER: Duration = Duration::from_secs(1);

/// A group that conflicts runs at most eight times; then its callers get a 503 and may retry.
const MAX_RUNS: usize = 8;

/// A [`Disk`] with its queue and its writer thread.
pub struct Group {
    newest: Newest,
    queue: Option<SyncSender<Box<dyn Attempt>>>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Group {
    /// Starts the writer thread. `signals` is fired after every commit.
    pub fn start(mut disk: impl Disk, signals: Arc<Signals>) -> Result<Self> {
        let newest = Newest(Arc::new(RwLock::new(disk.snapshot()?)));
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
    /// Returns when all queued attempts have been settled.
    fn drop(&mut self) {
        self.queue = None;
        let thread = self.thread.lock().ok().and_then(|mut thread| thread.take());
        // An attempt that held the last handle drops this on the writer thread, which cannot join
        // itself.
        if let Some(thread) = thread
            && thread.thread().id() != std::thread::current().id()
        {
            let _ = thread.join();
        }
    }
}

/// The newest durable state, shared by all readers.
#[derive(Clone)]
struct Newest(Arc<RwLock<Arc<dyn Reader>>>);

impl Newest {
    fn get(&self) -> Arc<dyn Reader> {
        self.0.read().expect("nobody panics holding it").clone()
    }

    fn set(&self, reader: Arc<dyn Reader>) {
        // The old reader is dropped after the lock is released.
        let _old =
            std::mem::replace(&mut *self.0.write().expect("nobody panics holding it"), reader);
    }
}

struct Writer<D> {
    disk: D,
    newest: Newest,
    signals: Arc<Signals>,
    /// Whether the last commit's outcome is known. If not, the storage is reopened first.
    sound: bool,
}

impl<D: Disk> Writer<D> {
    fn run(&mut self, waiting: &Receiver<Box<dyn Attempt>>) {
        loop {
            match waiting.recv_timeout(LOOK_AFTER) {
                Ok(first) => self.serve(first, &mut waiting.try_iter()),
                Err(RecvTimeoutError::Timeout) => {
                    if let Err(error) = self.recover() {
                        tracing::warn!(%error, "the database cannot be opened again yet");
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Runs `first` and other waiting attempts as one group.
    fn serve(
        &mut self,
        first: Box<dyn Attempt>,
        waiting: &mut dyn Iterator<Item = Box<dyn Attempt>>,
    ) {
        if let Err(error) = self.recover() {
            // Each of the others would try the broken storage again.
            let others: Vec<_> = waiting.take(MAX_WAITING).collect();
            for attempt in std::iter::once(first).chain(others) {
                settle(attempt, Err(error.clone()));
            }
            return;
        }
        let base = self.newest.get();
        let mut writes = Writes::default();
        let mut bytes = 0;
        let mut group = Vec::new();
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
            next = if full { None } else { waiting.next() };
        }
        let end = self.commit_or_run_again(&mut group, &mut writes);
        // The storage refused the writes of one of them: each is committed alone. Where it accepts
        // nothing at all (busy), trying again for each would only take time.
        if group.len() > 1 && end.as_ref().is_err_and(|error| error.kind() == Kind::Internal) {
            for (attempt, _) in group {
                self.serve(attempt, &mut std::iter::empty());
            }
            return;
        }
        if end.is_ok() {
            self.signals.fire(&writes.topics);
        }
        for (attempt, own) in group {
            settle(attempt, end.clone().and(own));
        }
    }

    /// Runs an attempt. If it panics, only its own caller gets a 500.
    fn run_one(&mut self, attempt: &mut dyn Attempt, layer: &Layer) -> Result<Writes> {
        catch_unwind(AssertUnwindSafe(|| {
            for _ in 0..self.disk.rehearsals() {
                let _ = attempt.run(layer);
            }
            attempt.run(layer)
        }))
        .unwrap_or_else(|_| Err(Error::internal("the operation panicked")))
    }

    /// Commits what the group wrote. After a conflict its attempts run again on the current state.
    fn commit_or_run_again(
        &mut self,
        group: &mut [(Box<dyn Attempt>, Result<()>)],
        writes: &mut Writes,
    ) -> Result<()> {
        for _ in 0..MAX_RUNS {
            if writes.is_empty() {
                return Ok(());
            }
            match self.commit(writes) {
                End::Known(end) => return end,
                End::Conflict => {}
            }
            let base = self.newest.get();
            *writes = Writes::default();
            for (attempt, own) in group.iter_mut() {
                let end = self.run_one(&mut **attempt, &Layer { base: &*base, writes });
                *own = end.map(|new| writes.append(new));
            }
        }
        Err(Error::busy("overloaded", "others keep changing the same things; try again", 1))
    }

    fn commit(&mut self, writes: &Writes) -> End {
        let end = catch_unwind(AssertUnwindSafe(|| self.disk.commit(writes)))
            .unwrap_or_else(|_| Commit::Unknown(Error::internal("the commit panicked")));
        match end {
            Commit::Done(reader) => {
                self.newest.set(reader);
                End::Known(Ok(()))
            }
            Commit::Refused(error) => End::Known(Err(error)),
            Commit::Conflict => End::Conflict,
            Commit::Unknown(error) => {
                tracing::error!(%error, "a commit failed; its outcome is unknown");
                self.sound = false;
                let _ = self.recover();
                End::Known(Err(unknown().detail(error)))
            }
        }
    }

    /// Reopens the storage, if it must be.
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

/// The outcome of a commit for its group.
enum End {
    /// It is known.
    Known(Result<()>),
    /// It must be tried again.
    Conflict,
}

fn unknown() -> Error {
    Error::busy(
        "outcome_unknown",
        "the write may or may not have been kept; look before you repeat it",
        1,
    )
}

/// Answers an attempt. A panic in it (its values are dropped here) must not end the writer thread.
fn settle(attempt: Box<dyn Attempt>, end: Result<()>) {
    let _ = catch_unwind(AssertUnwindSafe(|| attempt.settle(end)));
}

#[cfg(test)]
mod tests;
