//! An engine for tests that proves that attempts may run repeatedly.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::engine::{Attempt, Engine, NextReader, Reader, Snapshot, StoreMeters, Terms};
use crate::base::{Error, Result};

/// Another engine, in which about half of all attempts, or all, run once more than needed: before they are
/// submitted, over the newest state. What they return then is thrown away.
pub struct Rehearsing {
    engine: Arc<dyn Engine>,
    /// The state of a xorshift: enough to be irregular. `None`: all.
    state: Option<Mutex<u64>>,
}

impl Rehearsing {
    /// The same seed makes the same choices.
    pub fn new(engine: Arc<dyn Engine>, seed: u64) -> Self {
        Rehearsing { engine, state: Some(Mutex::new(seed | 1)) }
    }

    /// One in which all attempts run once more.
    pub fn all(engine: Arc<dyn Engine>) -> Self {
        Rehearsing { engine, state: None }
    }

    fn chooses(&self) -> bool {
        let Some(state) = &self.state else { return true };
        let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state & 1 == 1
    }
}

impl Engine for Rehearsing {
    fn snapshot(&self) -> Arc<dyn Reader> {
        self.engine.snapshot()
    }
    fn begin_snapshot(&self) -> Snapshot {
        self.engine.begin_snapshot()
    }
    fn snapshot_after(&self, reader: Arc<dyn Reader>) -> NextReader {
        self.engine.snapshot_after(reader)
    }
    fn is_remote(&self) -> bool {
        self.engine.is_remote()
    }
    fn is_shared(&self) -> bool {
        self.engine.is_shared()
    }
    fn unavailable(&self) -> Option<Error> {
        self.engine.unavailable()
    }
    fn submit(&self, mut attempt: Box<dyn Attempt>, terms: Terms) -> Result<()> {
        if self.chooses() {
            let state = self.engine.snapshot();
            // The run that counts panics as well.
            let _ = catch_unwind(AssertUnwindSafe(|| attempt.run(&*state)));
        }
        self.engine.submit(attempt, terms)
    }
    fn close(&self) {
        self.engine.close();
    }
    fn meters(&self) -> Arc<StoreMeters> {
        self.engine.meters()
    }
}
