//! The queue of the writer thread.
//!
//! Light and heavy attempts wait apart, and never share a group: a commit of megabytes takes tens of
//! milliseconds, one of small writes about one. Light ones come first; if heavy ones waited for
//! them, the next group is heavy. So a light one waits for one heavy group at most, and a heavy one
//! for one light group.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::super::optimistic::ReadSet;
use super::super::{Attempt, Bounds, Budget, FairQueue, Lane, StoreMeters, Terms, WriteBatch};
use crate::base::{Error, Result};

/// The bounds of the attempts of either kind that wait. 1,024 attempts of one organization: at 10,000
/// a second the last of them waits a tenth of a second, and so many agents may write at one moment,
/// as when all of them hear of a deployment. 64 MiB: eight of the largest. One organization gets a
/// quarter of either, so that none can fill the queue for the others; they take turns.
pub const WAITING: Bounds =
    Bounds { items: 4096, lane_items: 1024, bytes: 64 * 1024 * 1024, lane_bytes: 16 * 1024 * 1024 };

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

    /// Whether others should not have to wait until it is committed: it writes much, or may have to
    /// run here without being light.
    fn is_heavy(&self) -> bool {
        let is_large = |ran: &Ran| ran.writes.bytes() > Budget::LIGHT.written_bytes;
        self.terms.budget != Budget::LIGHT
            && (self.terms.rerun_on_conflict || self.ran.as_ref().is_none_or(is_large))
    }
}

/// The queue of the writer thread.
pub struct Queue {
    waiting: Mutex<QueueState>,
    filled: Condvar,
    pub meters: Arc<StoreMeters>,
}

struct QueueState {
    light: FairQueue<Prepared>,
    heavy: FairQueue<Prepared>,
    /// Whether the current group is of heavy attempts.
    is_heavy_group: bool,
    /// Whether heavy attempts waited when the current group of light ones began.
    is_heavy_due: bool,
    /// The lanes of the group that is being committed.
    committing: HashSet<Lane>,
    closed: bool,
}

impl QueueState {
    fn is_empty(&self) -> bool {
        self.light.is_empty() && self.heavy.is_empty()
    }

    /// Chooses the kind of the next group.
    fn begin_group(&mut self) {
        let is_heavy_turn = self.is_heavy_due && !self.heavy.is_empty();
        self.is_heavy_group = self.light.is_empty() || is_heavy_turn;
        self.is_heavy_due = !self.is_heavy_group && !self.heavy.is_empty();
    }

    /// Removes the next attempt of the current group.
    fn pop(&mut self) -> Option<Prepared> {
        let queue = if self.is_heavy_group { &mut self.heavy } else { &mut self.light };
        let prepared = queue.pop()?;
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
        let waiting = QueueState {
            light: FairQueue::new(WAITING),
            heavy: FairQueue::new(WAITING),
            is_heavy_group: false,
            is_heavy_due: false,
            committing: HashSet::new(),
            closed: false,
        };
        Queue { waiting: Mutex::new(waiting), filled: Condvar::new(), meters }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.waiting.lock().expect("no thread panics while holding it")
    }

    /// Appends an attempt to its lane.
    ///
    /// # Errors
    /// 503 if the queue or the lane is full, or nothing is taken from it any more.
    pub fn push(&self, prepared: Prepared) -> Result<()> {
        let (lane, bytes) = (prepared.attempt.lane(), prepared.bytes());
        let is_heavy = prepared.is_heavy();
        let refused = {
            let mut waiting = self.lock();
            let is_closed = waiting.closed;
            let queue = if is_heavy { &mut waiting.heavy } else { &mut waiting.light };
            let refused = if is_closed { Err(prepared) } else { queue.push(lane, bytes, prepared) };
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

    /// Returns whether light attempts of this lane wait, or any of it are being committed.
    pub fn has_ahead(&self, lane: Lane) -> bool {
        let waiting = self.lock();
        waiting.committing.contains(&lane) || waiting.light.has_lane(lane)
    }

    /// Removes the next attempt of the current group; it is being committed from then on.
    pub fn pop(&self) -> Option<Prepared> {
        let mut waiting = self.lock();
        let next = waiting.pop();
        self.count(&waiting);
        next
    }

    /// Removes all attempts.
    pub fn drain(&self) -> Vec<Prepared> {
        let mut waiting = self.lock();
        let mut all: Vec<_> = std::iter::from_fn(|| waiting.light.pop()).collect();
        all.extend(std::iter::from_fn(|| waiting.heavy.pop()));
        self.count(&waiting);
        all
    }

    fn count(&self, waiting: &QueueState) {
        let QueueState { light, heavy, .. } = waiting;
        self.meters.set_queue(light.len() + heavy.len(), light.bytes() + heavy.bytes());
    }

    /// Forgets the lanes of a group whose commit is over.
    pub fn end_group(&self) {
        self.lock().committing.clear();
    }

    /// Waits for the first attempt of a group, at most so long.
    pub fn wait(&self, at_most: Duration) -> Next {
        let nothing = |waiting: &mut QueueState| waiting.is_empty() && !waiting.closed;
        let waited = self.filled.wait_timeout_while(self.lock(), at_most, nothing);
        let (mut waiting, _) = waited.expect("no thread panics while holding it");
        waiting.begin_group();
        let next = waiting.pop();
        self.count(&waiting);
        match next {
            Some(prepared) => Next::Prepared(prepared),
            None if waiting.closed => Next::Closed,
            None => Next::TimedOut,
        }
    }

    /// Makes [`Queue::wait`] end once the queue is empty. Nothing can be appended any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}
