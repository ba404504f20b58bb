//! The light attempts that wait for a thread, organizations in turns; and which attempts may run at
//! once.
//!
//! Any number do, until one has conflicted several times. Then no other of its lane begins before it is
//! over, and after more conflicts it runs while no other of this server does. Those that wait for it
//! wait in the queue: a thread that waited with one would be missing to the other lanes.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::super::group_commit::WAITING;
use super::super::{Attempt, FairQueue, Lane, StoreMeters, Terms};
use super::failure::{Failure, too_many_wait};
use super::membership::Member;
use crate::base::Result;

/// How long an attempt that runs alone waits for those that began before: as long as the slowest
/// ordinary one takes. If one hangs for longer the attempt runs beside it.
const DRAIN_TIME: Duration = Duration::from_millis(500);

/// An attempt that is to run, or to run again.
pub struct Waiting {
    pub attempt: Box<dyn Attempt>,
    pub terms: Terms,
    pub submitted: Instant,
    /// The lease without which it is refused.
    pub lease: Option<Arc<Member>>,
    /// How often it conflicted.
    pub conflicts: usize,
    /// Why its last run failed: what its caller is told if there is no time for another.
    pub last: Option<Failure>,
    /// Whether it looks for a key before it inserts it.
    pub looks_before_insert: bool,
}

impl Waiting {
    /// An attempt that has not run.
    pub fn new(attempt: Box<dyn Attempt>, terms: Terms, lease: Option<Arc<Member>>) -> Self {
        let submitted = Instant::now();
        Waiting {
            attempt,
            terms,
            submitted,
            lease,
            conflicts: 0,
            last: None,
            looks_before_insert: false,
        }
    }
}

/// The queue of the threads that run light attempts.
pub struct Queue {
    state: Mutex<State>,
    /// Tells the threads that an attempt may run.
    filled: Condvar,
    /// Tells those that wait with an attempt that others ended.
    released: Condvar,
    meters: Arc<StoreMeters>,
}

struct State {
    waiting: FairQueue<Waiting>,
    /// The lanes of which one attempt holds off the others.
    held: HashSet<Lane>,
    running: usize,
    is_one_alone: bool,
    is_closed: bool,
}

impl State {
    fn may_run(&self, lane: Lane) -> bool {
        !self.is_one_alone && !self.held.contains(&lane)
    }

    fn has_next(&self) -> bool {
        !self.is_one_alone && self.waiting.has_outside(&self.held)
    }
}

/// Holds off the other attempts of a lane until it is dropped.
pub struct LaneHold<'a> {
    queue: &'a Queue,
    lane: Lane,
}

/// A run of an attempt, which ends when this is dropped.
pub struct Run<'a> {
    queue: &'a Queue,
    is_alone: bool,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(meters: Arc<StoreMeters>) -> Self {
        let state = State {
            waiting: FairQueue::new(WAITING),
            held: HashSet::new(),
            running: 0,
            is_one_alone: false,
            is_closed: false,
        };
        let (filled, released) = (Condvar::new(), Condvar::new());
        Queue { state: Mutex::new(state), filled, released, meters }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding it")
    }

    fn count(&self, state: &State) {
        self.meters.set_queue(state.waiting.len(), state.waiting.bytes());
    }

    /// Appends an attempt to its lane.
    ///
    /// # Errors
    /// 503 if the queue or the lane is full, or it is closed.
    pub fn push(&self, waiting: Waiting) -> Result<()> {
        let (lane, bytes) = (waiting.attempt.lane(), waiting.attempt.bytes());
        let refused = {
            let mut state = self.lock();
            let is_closed = state.is_closed;
            let refused =
                if is_closed { Err(waiting) } else { state.waiting.push(lane, bytes, waiting) };
            self.count(&state);
            refused
        };
        // A refused attempt is dropped here, outside of the lock.
        refused.map_err(|_| {
            self.meters.refused.add_one();
            too_many_wait()
        })?;
        self.filled.notify_one();
        Ok(())
    }

    /// Puts an attempt back that must wait for others of its lane.
    pub fn put_back(&self, waiting: Waiting) {
        let (lane, bytes) = (waiting.attempt.lane(), waiting.attempt.bytes());
        let mut state = self.lock();
        state.waiting.put_back(lane, bytes, waiting);
        self.count(&state);
        drop(state);
        self.filled.notify_one();
    }

    /// Waits for the next attempt that may run, and begins a run of it; `None` once the queue is closed
    /// and empty.
    pub fn next(&self) -> Option<(Waiting, Run<'_>)> {
        let idle =
            |state: &mut State| !(state.has_next() || state.is_closed && state.waiting.is_empty());
        let state = self.filled.wait_while(self.lock(), idle);
        let mut state = state.expect("no thread panics while holding it");
        let State { waiting, held, .. } = &mut *state;
        let next = waiting.pop_outside(held)?;
        self.count(&state);
        state.running += 1;
        if state.is_closed {
            // The others may end now.
            self.filled.notify_all();
        }
        Some((next, Run { queue: self, is_alone: false }))
    }

    /// Closes the queue: what waits is still handed out.
    pub fn close(&self) {
        self.lock().is_closed = true;
        self.filled.notify_all();
    }

    /// Returns whether it is closed.
    pub fn is_closed(&self) -> bool {
        self.lock().is_closed
    }

    // ── Which run at once ────────────────────────────────────────────────────

    /// Begins a run when nobody else holds its lane and no attempt runs alone; `None` if that is not
    /// so before `until`.
    pub fn run(&self, lane: Lane, until: Instant) -> Option<Run<'_>> {
        self.wait(until, |state| state.may_run(lane)).map(|state| self.begin(state))
    }

    /// Keeps others of the lane from beginning, when nobody else does. Then runs begin with
    /// [`Queue::run_held`]. `None` if that cannot be before `until`.
    pub fn hold(&self, lane: Lane, until: Instant) -> Option<LaneHold<'_>> {
        let mut state = self.wait(until, |state| !state.held.contains(&lane))?;
        state.held.insert(lane);
        Some(LaneHold { queue: self, lane })
    }

    /// Begins a run in a lane that its caller holds, when no attempt runs alone; `None` if one does
    /// until `until`.
    pub fn run_held(&self, until: Instant) -> Option<Run<'_>> {
        self.wait(until, |state| !state.is_one_alone).map(|state| self.begin(state))
    }

    /// Begins a run while no other of any lane begins, after those under way ended; `None` if another
    /// runs alone until `until`.
    pub fn run_alone(&self, until: Instant) -> Option<Run<'_>> {
        self.wait(until, |state| !state.is_one_alone)?.is_one_alone = true;
        let drained =
            self.released.wait_timeout_while(self.lock(), DRAIN_TIME, |state| state.running > 0);
        drained.expect("no thread panics while holding it").0.running += 1;
        Some(Run { queue: self, is_alone: true })
    }

    fn begin(&self, mut state: MutexGuard<'_, State>) -> Run<'_> {
        state.running += 1;
        Run { queue: self, is_alone: false }
    }

    fn wait(&self, until: Instant, may: impl Fn(&State) -> bool) -> Option<MutexGuard<'_, State>> {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.released.wait_timeout_while(self.lock(), left, |state| !may(state));
        let (state, _) = waited.expect("no thread panics while holding it");
        may(&state).then_some(state)
    }
}

impl Drop for LaneHold<'_> {
    fn drop(&mut self) {
        self.queue.lock().held.remove(&self.lane);
        self.queue.released.notify_all();
        self.queue.filled.notify_all();
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        state.running -= 1;
        let is_last = state.is_one_alone && state.running == 0;
        if self.is_alone {
            state.is_one_alone = false;
        }
        drop(state);
        if self.is_alone || is_last {
            self.queue.released.notify_all();
        }
        if self.is_alone {
            self.queue.filled.notify_all();
        }
    }
}

#[cfg(test)]
mod tests;
