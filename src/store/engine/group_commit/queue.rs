//! The queue of the writer thread.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::super::optimistic::ReadSet;
use super::super::{Attempt, Bounds, FairQueue, Lane, StoreMeters, Terms, WriteBatch};
use crate::base::{Error, Result};

/// The bounds of the writer's queue. 1,024 attempts: at 10,000 a second the last of them waits a tenth
/// of a second; more would only increase the wait of all. 64 MiB: eight of the largest. One
/// organization gets a quarter of either, so that none can fill the queue for the others.
pub const WAITING: Bounds =
    Bounds { items: 1024, lane_items: 256, bytes: 64 * 1024 * 1024, lane_bytes: 16 * 1024 * 1024 };

/// An attempt queued for a commit.
pub struct Prepared {
    pub attempt: Box<dyn Attempt>,
    /// `None` if it was queued without having run, or there was no state that could be read.
    pub ran: Option<Ran>,
    pub terms: Terms,
}

/// The result of running an attempt over a snapshot.
pub struct Ran {
    pub writes: WriteBatch,
    pub reads: ReadSet,
    /// The number of the commit whose state it read.
    pub read_at: u64,
}

impl Prepared {
    /// The bytes that it holds in memory.
    pub fn bytes(&self) -> usize {
        self.ran.as_ref().map_or(self.attempt.bytes(), |ran| ran.writes.bytes())
    }
}

/// The queue of the writer thread.
pub struct Queue {
    waiting: Mutex<Waiting>,
    filled: Condvar,
    pub meters: Arc<StoreMeters>,
}

struct Waiting {
    prepared: FairQueue<Prepared>,
    /// The lanes of the group that is being committed.
    committing: HashSet<Lane>,
    closed: bool,
}

impl Waiting {
    fn pop(&mut self) -> Option<Prepared> {
        let prepared = self.prepared.pop()?;
        self.committing.insert(prepared.attempt.lane());
        Some(prepared)
    }
}

/// What the writer thread finds in its queue.
pub enum Next {
    /// The next attempt.
    Prepared(Prepared),
    /// Nothing, for the given time.
    TimedOut,
    /// Nothing, and nothing will come.
    Closed,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(meters: Arc<StoreMeters>) -> Self {
        let waiting = Waiting {
            prepared: FairQueue::new(WAITING),
            committing: HashSet::new(),
            closed: false,
        };
        Queue { waiting: Mutex::new(waiting), filled: Condvar::new(), meters }
    }

    fn lock(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().expect("no thread panics while holding it")
    }

    /// Appends an attempt to its lane.
    ///
    /// # Errors
    /// 503 if the queue or the lane is full.
    pub fn push(&self, prepared: Prepared) -> Result<()> {
        let (lane, bytes) = (prepared.attempt.lane(), prepared.bytes());
        let refused = {
            let mut waiting = self.lock();
            let refused = waiting.prepared.push(lane, bytes, prepared);
            self.count(&waiting);
            refused
        };
        // A refused attempt is dropped here, outside of the lock.
        refused.map_err(|_| {
            self.meters.refused.add_one();
            Error::busy("overloaded", "too many writes are waiting", 1)
        })?;
        self.filled.notify_one();
        Ok(())
    }

    /// Returns whether attempts of this lane wait or are being committed.
    pub fn has_ahead(&self, lane: Lane) -> bool {
        let waiting = self.lock();
        waiting.committing.contains(&lane) || waiting.prepared.has_lane(lane)
    }

    /// Removes the next attempt; it belongs to the group that is being committed from then on.
    pub fn pop(&self) -> Option<Prepared> {
        let mut waiting = self.lock();
        let next = waiting.pop();
        self.count(&waiting);
        next
    }

    fn count(&self, waiting: &Waiting) {
        self.meters.set_queue(waiting.prepared.len(), waiting.prepared.bytes());
    }

    /// Forgets the lanes of a group whose commit is over.
    pub fn end_group(&self) {
        self.lock().committing.clear();
    }

    /// Waits for an attempt, at most so long.
    pub fn wait(&self, at_most: Duration) -> Next {
        let nothing = |waiting: &mut Waiting| waiting.prepared.is_empty() && !waiting.closed;
        let waited = self.filled.wait_timeout_while(self.lock(), at_most, nothing);
        let (mut waiting, _) = waited.expect("no thread panics while holding it");
        let next = waiting.pop();
        self.count(&waiting);
        match next {
            Some(prepared) => Next::Prepared(prepared),
            None if waiting.closed => Next::Closed,
            None => Next::TimedOut,
        }
    }

    /// Makes [`Queue::wait`] end once the queue is empty.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}
