//! A limit for log lines that clients can cause.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Lines of one kind are at most one a second: enough to see that something happens and how often,
/// too few to fill a disk.
const INTERVAL: Duration = Duration::from_secs(1);

/// Admits at most one log line a second, and counts the others. Make one `static` for each kind of
/// line:
///
/// ```ignore
/// static LIMIT: LogLimit = LogLimit::new();
/// if let Some(suppressed) = LIMIT.admit(Instant::now()) {
///     tracing::warn!(suppressed, "…");
/// }
/// ```
pub struct LogLimit(Mutex<LogState>);

struct LogState {
    last: Option<Instant>,
    suppressed: u64,
}

impl LogLimit {
    /// A limit that admits the next line.
    pub const fn new() -> Self {
        LogLimit(Mutex::new(LogState { last: None, suppressed: 0 }))
    }

    /// Returns whether a line may be written: if so, the number of lines that were suppressed since
    /// the last one.
    pub fn admit(&self, now: Instant) -> Option<u64> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.last.is_some_and(|last| now < last + INTERVAL) {
            state.suppressed += 1;
            return None;
        }
        state.last = Some(now);
        Some(std::mem::take(&mut state.suppressed))
    }
}

impl Default for LogLimit {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_a_second_is_admitted_with_the_number_of_the_suppressed_ones() {
        let limit = LogLimit::new();
        let start = Instant::now();
        assert_eq!(limit.admit(start), Some(0));
        assert_eq!(limit.admit(start), None);
        assert_eq!(limit.admit(start + INTERVAL / 2), None);
        assert_eq!(limit.admit(start + INTERVAL), Some(2));
        assert_eq!(limit.admit(start + INTERVAL), None);
        assert_eq!(limit.admit(start + INTERVAL * 9), Some(1));
    }
}
