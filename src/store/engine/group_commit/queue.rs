//! The queue of the writer thread.
//!
//! Light and heavy attempts wait apart, and never share a group: a commit of megabytes takes tens of
//! milliseconds, one of small writes about one. Light ones come first; if heavy ones waited for
//! them, the next group is heavy. So a light one waits for one heavy group at most, and a heavy one
//! for one light group.

use std::collections::{HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Duration;

use super::super::optimistic::ReadSet;
use super::super::{
    Attempt, Bounds, Budget, FairQueue, Lane, OnConflict, StoreMeters, Terms, WriteBatch,
};
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
    /// What keeps the others of its lane waiting until its commit is over.
    pub lane_hold: Option<LaneHold>,
    /// The bytes that it holds in memory, counted once: the queue asks each time that it changes.
    pub(super) bytes: usize,
}

/// The result of running an attempt over a snapshot.
pub struct Ran {
    pub writes: WriteBatch,
    pub reads: ReadSet,
    /// The number of the commit whose state it read.
    pub read_at: u64,
}

impl Prepared {
    /// An attempt that ran, or is to run.
    pub fn new(
        attempt: Box<dyn Attempt>,
        ran: Option<Ran>,
        terms: Terms,
        lane_hold: Option<LaneHold>,
    ) -> Self {
        let bytes = ran.as_ref().map_or(attempt.bytes(), |ran| ran.writes.bytes());
        Prepared { attempt, ran, terms, lane_hold, bytes }
    }

    /// Whether others should not have to wait until it is committed: it writes much, or may have to
    /// run here without being light.
    fn is_heavy(&self) -> bool {
        let is_large = self.ran.is_none() || self.bytes > Budget::LIGHT.written_bytes;
        self.terms.budget != Budget::LIGHT
            && (self.terms.on_conflict == OnConflict::RunOnWriter || is_large)
    }
}

/// The queue of the writer thread.
pub struct Queue {
    waiting: Mutex<QueueState>,
    filled: Condvar,
    /// Tells those who want to hold a lane that it may be free.
    released: Condvar,
    pub meters: Arc<StoreMeters>,
}

struct QueueState {
    light: FairQueue<Prepared>,
    heavy: FairQueue<Prepared>,
    /// Those that hold their lanes, at most one a lane. They count as heavy and come first.
    holders: VecDeque<Prepared>,
    /// The lanes whose other attempts wait.
    held: HashSet<Lane>,
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
        self.light.is_empty() && self.heavy.is_empty() && self.holders.is_empty()
    }

    fn has_light(&self) -> bool {
        self.light.has_in(|lane| !self.held.contains(lane))
    }

    fn has_heavy(&self) -> bool {
        !self.holders.is_empty() || self.heavy.has_in(|lane| !self.held.contains(lane))
    }

    /// Chooses the kind of the next group.
    fn begin_group(&mut self) {
        let is_heavy_turn = self.is_heavy_due && self.has_heavy();
        self.is_heavy_group = !self.has_light() || is_heavy_turn;
        self.is_heavy_due = !self.is_heavy_group && self.has_heavy();
    }

    /// Removes the next attempt of the current group.
    fn pop(&mut self) -> Option<Prepared> {
        let prepared = if self.is_heavy_group {
            self.holders
                .pop_front()
                .or_else(|| self.heavy.pop_in(|lane| !self.held.contains(lane)))?
        } else {
            self.light.pop_in(|lane| !self.held.contains(lane))?
        };
        self.committing.insert(prepared.attempt.lane());
        Some(prepared)
    }
}

/// What the writer thread finds in its queue.
pub enum Next {
    /// The next attempt.
    Prepared(Box<Prepared>),
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
            holders: VecDeque::new(),
            held: HashSet::new(),
            is_heavy_group: false,
            is_heavy_due: false,
            committing: HashSet::new(),
            closed: false,
        };
        let (filled, released) = (Condvar::new(), Condvar::new());
        Queue { waiting: Mutex::new(waiting), filled, released, meters }
    }

    fn lock(&self) -> MutexGuard<'_, QueueState> {
        self.waiting.lock().expect("no thread panics while holding it")
    }

    /// Appends an attempt to its lane.
    ///
    /// # Errors
    /// 503 if the queue or the lane is full, or nothing is taken from it any more.
    pub fn push(&self, prepared: Prepared) -> Result<()> {
        let (lane, bytes) = (prepared.attempt.lane(), prepared.bytes);
        let is_heavy = prepared.is_heavy();
        let refused = {
            let mut waiting = self.lock();
            let refused = if waiting.closed {
                Err(prepared)
            } else if prepared.lane_hold.is_some() {
                waiting.holders.push_back(prepared);
                Ok(())
            } else if is_heavy {
                waiting.heavy.push(lane, bytes, prepared)
            } else {
                waiting.light.push(lane, bytes, prepared)
            };
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

    /// Returns whether light attempts of this lane wait, or any of it are being committed or hold it.
    pub fn has_ahead(&self, lane: Lane) -> bool {
        let waiting = self.lock();
        waiting.committing.contains(&lane)
            || waiting.light.has_lane(lane)
            || waiting.held.contains(&lane)
    }

    /// Keeps the attempts of a lane waiting, once those that are being committed are. Blocks until
    /// then.
    pub fn hold(self: &Arc<Self>, lane: Lane) -> LaneHold {
        let is_held = |waiting: &mut QueueState| waiting.held.contains(&lane);
        let free = self.released.wait_while(self.lock(), is_held);
        let mut waiting = free.expect("no thread panics while holding it");
        waiting.held.insert(lane);
        let hold = LaneHold { queue: self.clone(), lane };
        let is_committing = |waiting: &mut QueueState| waiting.committing.contains(&lane);
        drop(self.released.wait_while(waiting, is_committing));
        hold
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
        all.extend(waiting.holders.drain(..));
        self.count(&waiting);
        all
    }

    fn count(&self, waiting: &QueueState) {
        let QueueState { light, heavy, holders, .. } = waiting;
        let held_bytes: usize = holders.iter().map(|holder| holder.bytes).sum();
        self.meters.set_queue(
            light.len() + heavy.len() + holders.len(),
            light.bytes() + heavy.bytes() + held_bytes,
        );
    }

    /// Forgets the lanes of a group whose commit is over.
    pub fn end_group(&self) {
        let mut waiting = self.lock();
        waiting.committing.clear();
        if !waiting.held.is_empty() {
            self.released.notify_all();
        }
    }

    /// Waits for the first attempt of a group, at most so long.
    pub fn wait(&self, at_most: Duration) -> Next {
        let nothing = |waiting: &mut QueueState| {
            let has_ended = waiting.closed && waiting.is_empty();
            !waiting.has_light() && !waiting.has_heavy() && !has_ended
        };
        let waited = self.filled.wait_timeout_while(self.lock(), at_most, nothing);
        let (mut waiting, _) = waited.expect("no thread panics while holding it");
        waiting.begin_group();
        let next = waiting.pop();
        self.count(&waiting);
        match next {
            Some(prepared) => Next::Prepared(Box::new(prepared)),
            None if waiting.closed && waiting.is_empty() => Next::Closed,
            None => Next::TimedOut,
        }
    }

    /// Makes [`Queue::wait`] end once the queue is empty. Nothing can be appended any more.
    pub fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_one();
    }
}

/// Keeps the attempts of a lane waiting until it is dropped, but for the one that has it.
pub struct LaneHold {
    queue: Arc<Queue>,
    lane: Lane,
}

impl Drop for LaneHold {
    fn drop(&mut self) {
        self.queue.lock().held.remove(&self.lane);
        self.queue.released.notify_all();
        self.queue.filled.notify_one();
    }
}
