//! Bounds the log lines of events that clients can cause at will.

use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};

/// Allows one line an interval, and counts those left out.
#[derive(Debug)]
pub struct LineLimit {
    interval_millis: i64,
    next_millis: AtomicI64,
    left_out: AtomicU64,
}

impl LineLimit {
    /// Allows one line in so many milliseconds.
    pub const fn new(interval_millis: i64) -> Self {
        let (next_millis, left_out) = (AtomicI64::new(i64::MIN), AtomicU64::new(0));
        LineLimit { interval_millis, next_millis, left_out }
    }

    /// Returns whether a line may be written at `now_millis`: the number of those left out since
    /// the last one; none if this one is left out too.
    pub fn take(&self, now_millis: i64) -> Option<u64> {
        let next = self.next_millis.load(Relaxed);
        let later = now_millis.saturating_add(self.interval_millis);
        // A clock that was set back must not silence the log until it has caught up.
        let is_due = now_millis >= next || next > later;
        if is_due && self.next_millis.compare_exchange(next, later, Relaxed, Relaxed).is_ok() {
            return Some(self.left_out.swap(0, Relaxed));
        }
        self.left_out.fetch_add(1, Relaxed);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_says_how_many_were_left_out() {
        let limit = LineLimit::new(1000);
        let taken: Vec<_> = [0, 1, 999, 1000, 1500, 2000].map(|now| limit.take(now)).into();
        assert_eq!(taken, [Some(0), None, None, Some(2), None, Some(1)]);
        assert_eq!(limit.take(-5000), Some(0), "after the clock was set back");
    }
}
