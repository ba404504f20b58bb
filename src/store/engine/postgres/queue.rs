//! The light attempts that wait for a thread, organizations in turns.

use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::super::group_commit::WAITING;
use super::super::{Attempt, FairQueue, StoreMeters, Terms};
use super::presence::Presence;
use crate::base::{Error, Result};

/// An attempt that waits for a thread.
pub struct Waiting {
    pub attempt: Box<dyn Attempt>,
    pub terms: Terms,
    pub submitted: Instant,
    /// The lease without which it is refused.
    pub lease: Option<Arc<Presence>>,
}

/// The queue of the threads that run light attempts.
pub struct Queue {
    state: Mutex<State>,
    filled: Condvar,
    meters: Arc<StoreMeters>,
}

struct State {
    waiting: FairQueue<Waiting>,
    is_closed: bool,
}

impl Queue {
    /// Creates an empty queue.
    pub fn new(meters: Arc<StoreMeters>) -> Self {
        let state = State { waiting: FairQueue::new(WAITING), is_closed: false };
        Queue { state: Mutex::new(state), filled: Condvar::new(), meters }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics while holding it")
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
            self.meters.set_queue(state.waiting.len(), state.waiting.bytes());
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

    /// Waits for the next attempt; `None` once the queue is closed and empty.
    pub fn next(&self) -> Option<Waiting> {
        let idle = |state: &mut State| state.waiting.is_empty() && !state.is_closed;
        let state = self.filled.wait_while(self.lock(), idle);
        let mut state = state.expect("no thread panics while holding it");
        let next = state.waiting.pop();
        self.meters.set_queue(state.waiting.len(), state.waiting.bytes());
        next
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
}
