//! The light attempts that wait for a thread, organizations in turns, and are handed out in groups: those of
//! a lane that wait at the same moment. A lane has one group at a time: the next would conflict with it.
//!
//! Heavy attempts run beside the groups and each other, until one has conflicted several times. Then nothing
//! else of its lane begins before it is over, neither a group nor a run of a heavy attempt, and after more
//! conflicts it runs while nothing else of this server does.

use std::collections::HashSet;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use super::super::group_commit::WAITING;
use super::super::{Attempt, FairQueue, Lane, StoreMeters, Terms};
use super::failure::{Failure, too_many_wait};
use super::membership::Member;
use crate::base::Result;

/// Attempts of a group at most. Sixty creations of tasks are some 700 rows, for which the database server
/// takes some 20 ms.
const MAX_GROUP: usize = 64;

/// The same while other lanes wait for a thread: what is before them is not much longer for it, and most of a
/// transaction is shared by then.
const MAX_GROUP_IN_TURN: usize = 16;

/// After so many conflicts a group is halved, and after each further one: one of it may conflict with
/// others again and again, which the rest need not.
const CONFLICTS_BEFORE_HALVING: usize = 2;

/// How long an attempt that runs alone, in its lane or in the server, waits for those that began before: as
/// long as the slowest ordinary one takes. If one takes longer the attempt runs beside it.
pub const DRAIN_TIME: Duration = Duration::from_millis(500);

/// An attempt that is to run, or to run again.
pub struct Waiting {
    pub attempt: Box<dyn Attempt>,
    pub terms: Terms,
    pub submitted: Instant,
    /// The lease without which it is refused.
    pub lease: Option<Arc<Member>>,
    /// How often it conflicted.
    pub conflicts: usize,
    /// Whether the writes of its last group were refused, which may have been for those of another.
    pub must_be_single: bool,
    /// Why its last run failed, or why it could not run: what its caller is told if there is no time for
    /// another.
    pub last: Option<Failure>,
}

impl Waiting {
    /// An attempt that has not run.
    pub fn new(attempt: Box<dyn Attempt>, terms: Terms, lease: Option<Arc<Member>>) -> Self {
        let (submitted, last) = (Instant::now(), None);
        Waiting { attempt, terms, submitted, lease, conflicts: 0, must_be_single: false, last }
    }

    /// Notes that commits do not end, unless it has failed for a reason of its own: a conflict is none, since
    /// what is in its way may be one of them.
    pub fn note_blocked(&mut self) {
        if matches!(self.last, None | Some(Failure::Conflict)) {
            self.last = Some(Failure::Blocked);
        }
    }

    /// How many attempts its group may have.
    fn max_group(&self) -> usize {
        if self.must_be_single {
            return 1;
        }
        let halvings = self.conflicts.saturating_sub(CONFLICTS_BEFORE_HALVING);
        MAX_GROUP >> halvings.min(MAX_GROUP.ilog2() as usize)
    }
}

/// The queue of the threads that run light attempts.
pub struct Queue {
    state: Mutex<State>,
    /// Tells the threads that a group may run.
    filled: Condvar,
    /// Tells heavy attempts that a lane is free, or all are.
    released: Condvar,
    meters: Arc<StoreMeters>,
}

struct State {
    waiting: FairQueue<Waiting>,
    lanes: Lanes,
    /// The threads on which heavy attempts are, with all their runs.
    heavy_threads: Vec<ThreadId>,
    is_closed: bool,
}

/// What keeps which lane from beginning more.
#[derive(Default)]
struct Lanes {
    /// The lanes that have a group.
    running: HashSet<Lane>,
    /// The lane of each run of a heavy attempt.
    heavy: Vec<Lane>,
    /// The lanes of which a heavy attempt keeps all else from beginning.
    held: HashSet<Lane>,
    /// Whether one runs alone: nothing else begins at all.
    is_all_held: bool,
}

impl Lanes {
    fn may_begin(&self, lane: Lane) -> bool {
        !self.is_all_held && !self.held.contains(&lane) && !self.running.contains(&lane)
    }

    /// Whether a heavy attempt may run, or hold its lane.
    fn may_begin_heavy(&self, lane: Lane, has_hold: bool) -> bool {
        !self.is_all_held && (has_hold || !self.held.contains(&lane))
    }

    fn is_idle(&self, lane: Lane) -> bool {
        !self.running.contains(&lane) && !self.heavy.contains(&lane)
    }

    fn is_any_under_way(&self) -> bool {
        !self.running.is_empty() || !self.heavy.is_empty()
    }
}

impl State {
    fn has_next(&self) -> bool {
        self.waiting.has_in(|lane| self.lanes.may_begin(*lane))
    }

    /// Removes the next group.
    fn next(&mut self) -> Option<(Lane, Vec<Waiting>)> {
        let first = self.waiting.pop_in(|lane| self.lanes.may_begin(*lane))?;
        let lane = first.attempt.lane();
        self.lanes.running.insert(lane);
        let mut most = first.max_group();
        if self.has_next() {
            most = most.min(MAX_GROUP_IN_TURN);
        }
        let mut group = vec![first];
        while group.len() < most {
            let fits =
                |next: &Waiting| next.lease == group[0].lease && next.max_group() > group.len();
            let Some(next) = self.waiting.pop_of(lane, fits) else { break };
            most = most.min(next.max_group());
            group.push(next);
        }
        Some((lane, group))
    }
}

/// A group of a lane is under way until this is dropped.
pub struct GroupRun<'a> {
    queue: &'a Queue,
    lane: Lane,
}

/// A heavy attempt, which is over when this is dropped.
pub struct HeavyAttempt<'a> {
    queue: &'a Queue,
    thread: ThreadId,
}

/// A run of a heavy attempt, which ends when this is dropped.
pub struct HeavyRun<'a> {
    queue: &'a Queue,
    lane: Lane,
    is_alone: bool,
}

/// Keeps all others of a lane from beginning until it is dropped.
pub struct LaneHold<'a> {
    queue: &'a Queue,
    lane: Lane,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(meters: Arc<StoreMeters>) -> Self {
        let state = State {
            waiting: FairQueue::new(WAITING),
            lanes: Lanes::default(),
            heavy_threads: Vec::new(),
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
        let (refused, may_begin) = {
            let mut state = self.lock();
            let is_closed = state.is_closed;
            let refused =
                if is_closed { Err(waiting) } else { state.waiting.push(lane, bytes, waiting) };
            self.count(&state);
            (refused, state.lanes.may_begin(lane))
        };
        // A refused attempt is dropped here, outside of the lock.
        refused.map_err(|_| {
            self.meters.refused.add_one();
            too_many_wait()
        })?;
        if may_begin {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Waits for the next group that may run; `None` once the queue is closed and empty.
    pub fn next_group(&self) -> Option<(Vec<Waiting>, GroupRun<'_>)> {
        let idle =
            |state: &mut State| !(state.has_next() || state.is_closed && state.waiting.is_empty());
        let state = self.filled.wait_while(self.lock(), idle);
        let mut state = state.expect("no thread panics while holding it");
        let (lane, group) = state.next()?;
        self.count(&state);
        if state.is_closed {
            // The others may end now.
            self.filled.notify_all();
        }
        Some((group, GroupRun { queue: self, lane }))
    }

    /// Puts attempts of a group back that are to run in another: they are the next of their lane.
    pub fn put_back(&self, group: Vec<Waiting>) {
        let mut state = self.lock();
        for waiting in group.into_iter().rev() {
            let (lane, bytes) = (waiting.attempt.lane(), waiting.attempt.bytes());
            state.waiting.put_back(lane, bytes, waiting);
        }
        self.count(&state);
    }

    /// Removes what waits that `is_over` accepts, of each lane until the first that it does not.
    pub fn remove(&self, is_over: impl Fn(&Waiting) -> bool) -> Vec<Waiting> {
        let mut state = self.lock();
        let removed = state.waiting.remove(is_over);
        self.count(&state);
        drop(state);
        self.filled.notify_all();
        removed
    }

    /// Notes why what waits cannot run now, unless it has failed itself.
    pub fn tell(&self, failure: &Failure) {
        for waiting in self.lock().waiting.iter_mut() {
            waiting.last.get_or_insert_with(|| failure.clone());
        }
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

    // ── Heavy attempts ───────────────────────────────────────────────────────

    /// Begins a heavy attempt on this thread; `None` if the queue is closed.
    pub fn enter_heavy(&self) -> Option<HeavyAttempt<'_>> {
        let mut state = self.lock();
        if state.is_closed {
            return None;
        }
        let thread = thread::current().id();
        state.heavy_threads.push(thread);
        Some(HeavyAttempt { queue: self, thread })
    }

    /// Waits until the heavy attempts of all other threads are over, at most for so long: one of this thread
    /// cannot end meanwhile.
    pub fn wait_heavy(&self, time: Duration) {
        let own = thread::current().id();
        let are_some = |state: &mut State| state.heavy_threads.iter().any(|one| *one != own);
        drop(self.released.wait_timeout_while(self.lock(), time, are_some));
    }

    /// Keeps all others of the lane from beginning, when nobody else does, and waits for those under way,
    /// but not for one that hangs. `None` if another keeps them from it until `until`.
    pub fn hold(&self, lane: Lane, until: Instant) -> Option<LaneHold<'_>> {
        let mut state = self.wait(until, |lanes| lanes.may_begin_heavy(lane, false));
        if !state.lanes.may_begin_heavy(lane, false) {
            return None;
        }
        state.lanes.held.insert(lane);
        let hold = LaneHold { queue: self, lane };
        drop(state);
        // Whoever else is of the lane waits as long.
        let drained = until.min(Instant::now() + DRAIN_TIME);
        drop(self.wait(drained, |lanes| lanes.is_idle(lane)));
        Some(hold)
    }

    /// Begins a run of a heavy attempt, when nobody else keeps it from that, at the latest at `until`. One
    /// that is to be alone keeps all others from beginning, and waits for those under way, but not for one
    /// that hangs.
    pub fn run_heavy(
        &self,
        lane: Lane,
        has_hold: bool,
        is_alone: bool,
        until: Instant,
    ) -> HeavyRun<'_> {
        let mut state = self.wait(until, |lanes| lanes.may_begin_heavy(lane, has_hold));
        let is_alone = is_alone && !state.lanes.is_all_held;
        if is_alone {
            state.lanes.is_all_held = true;
            drop(state);
            state = self.wait(Instant::now() + DRAIN_TIME, |lanes| !lanes.is_any_under_way());
        }
        state.lanes.heavy.push(lane);
        HeavyRun { queue: self, lane, is_alone }
    }

    fn wait(&self, until: Instant, is_so: impl Fn(&Lanes) -> bool) -> MutexGuard<'_, State> {
        let left = until.saturating_duration_since(Instant::now());
        let is_not = |state: &mut State| !is_so(&state.lanes);
        let waited = self.released.wait_timeout_while(self.lock(), left, is_not);
        waited.expect("no thread panics while holding it").0
    }
}

impl Drop for GroupRun<'_> {
    fn drop(&mut self) {
        self.queue.lock().lanes.running.remove(&self.lane);
        self.queue.filled.notify_one();
        self.queue.released.notify_all();
    }
}

impl Drop for LaneHold<'_> {
    fn drop(&mut self) {
        self.queue.lock().lanes.held.remove(&self.lane);
        self.queue.filled.notify_one();
        self.queue.released.notify_all();
    }
}

impl Drop for HeavyAttempt<'_> {
    fn drop(&mut self) {
        let threads = &mut self.queue.lock().heavy_threads;
        if let Some(own) = threads.iter().position(|thread| *thread == self.thread) {
            threads.swap_remove(own);
        }
        self.queue.released.notify_all();
    }
}

impl Drop for HeavyRun<'_> {
    fn drop(&mut self) {
        let mut state = self.queue.lock();
        let heavy = &mut state.lanes.heavy;
        if let Some(own) = heavy.iter().position(|lane| *lane == self.lane) {
            heavy.swap_remove(own);
        }
        if self.is_alone {
            state.lanes.is_all_held = false;
            self.queue.filled.notify_all();
        }
        drop(state);
        self.queue.released.notify_all();
    }
}

#[cfg(test)]
mod tests;
