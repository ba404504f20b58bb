//! Lanes in which one attempt at a time runs, after it has conflicted several times.
//!
//! Other attempts of its lane wait until it is over; those of other organizations do not, and rarely
//! read or write the same.

use std::collections::HashSet;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Instant;

use super::super::Lane;

/// The lanes in which an attempt runs alone.
#[derive(Default)]
pub struct Alone {
    lanes: Mutex<HashSet<Lane>>,
    freed: Condvar,
}

/// Ends the solitude of an attempt when it is dropped.
pub struct AloneGuard<'a> {
    alone: &'a Alone,
    lane: Lane,
}

impl Alone {
    /// Waits until no attempt of this lane runs alone, at most until `deadline`.
    pub fn wait(&self, lane: Lane, deadline: Instant) {
        drop(self.free(lane, deadline));
    }

    /// Waits as [`Alone::wait`] does, and keeps others of the lane from beginning.
    pub fn enter(&self, lane: Lane, deadline: Instant) -> AloneGuard<'_> {
        self.free(lane, deadline).insert(lane);
        AloneGuard { alone: self, lane }
    }

    fn free(&self, lane: Lane, deadline: Instant) -> MutexGuard<'_, HashSet<Lane>> {
        let lanes = self.lanes.lock().expect("no thread panics while holding it");
        let left = deadline.saturating_duration_since(Instant::now());
        let is_taken = |lanes: &mut HashSet<Lane>| lanes.contains(&lane);
        let waited = self.freed.wait_timeout_while(lanes, left, is_taken);
        waited.expect("no thread panics while holding it").0
    }
}

impl Drop for AloneGuard<'_> {
    fn drop(&mut self) {
        let lanes = self.alone.lanes.lock();
        lanes.expect("no thread panics while holding it").remove(&self.lane);
        self.alone.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn others_of_the_lane_wait_and_other_lanes_do_not() {
        let alone = Alone::default();
        let (now, long) = (Instant::now(), Instant::now() + Duration::from_secs(60));
        let guard = alone.enter([1; 16], now);
        alone.wait([2; 16], long);
        drop(alone.enter([2; 16], long));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| alone.wait([1; 16], long));
            alone.wait([1; 16], Instant::now() + Duration::from_millis(5));
            drop(guard);
            waiting.join().unwrap();
        });
        assert!(alone.lanes.lock().unwrap().is_empty());
    }
}
