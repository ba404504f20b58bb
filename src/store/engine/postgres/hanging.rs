//! Whether the database server finishes commits, and when it answered last.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::base::metrics::Gauge;

/// Whether the database server does not finish commits, as far as is known: set when the outcome of one
/// could not be found out since it still went on, until a heartbeat is committed. Each that goes on has a
/// connection of the database server, so nothing but the heartbeat is written then.
#[derive(Default)]
pub struct CommitsHang {
    is_so: AtomicBool,
    /// Held while it and its gauge change: between the two of one thread, another would leave the gauge as
    /// it is not, until the next time.
    changing: Mutex<()>,
}

impl CommitsHang {
    /// Whether it is so.
    pub fn is_so(&self) -> bool {
        self.is_so.load(Ordering::Relaxed)
    }

    /// Notes whether it is so, also in the gauge. Returns whether that is new.
    pub fn set(&self, is_so: bool, gauge: &Gauge) -> bool {
        let _both = self.changing.lock().expect("no thread panics while holding it");
        gauge.set(is_so.into());
        self.is_so.swap(is_so, Ordering::Relaxed) != is_so
    }
}

/// When the database server that is in force answered last. A member of a store asks it each second.
pub struct LastAnswer {
    since: Instant,
    millis: AtomicU64,
}

impl Default for LastAnswer {
    fn default() -> Self {
        LastAnswer { since: Instant::now(), millis: AtomicU64::new(0) }
    }
}

impl LastAnswer {
    /// Returns one that is so long ago.
    #[cfg(test)]
    pub fn of_age(age: Duration) -> Self {
        let since = Instant::now().checked_sub(age).expect("the machine is up");
        LastAnswer { since, ..Self::default() }
    }

    /// Notes that it answered.
    pub fn note(&self) {
        let millis = u64::try_from(self.since.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.millis.store(millis, Ordering::Relaxed);
    }

    /// When that was, from the beginning on.
    pub fn at(&self) -> Duration {
        Duration::from_millis(self.millis.load(Ordering::Relaxed))
    }

    /// How long ago that was.
    pub fn age(&self) -> Duration {
        self.since.elapsed().saturating_sub(self.at())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn the_gauge_says_what_is_so_however_many_change_it() {
        let (hang, gauge) = (CommitsHang::default(), Gauge::default());
        assert!(hang.set(true, &gauge) && !hang.set(true, &gauge));
        assert!(hang.is_so() && gauge.value() == 1);
        for _ in 0..200 {
            thread::scope(|scope| {
                for is_so in [true, false, true, false] {
                    let (hang, gauge) = (&hang, &gauge);
                    scope.spawn(move || hang.set(is_so, gauge));
                }
            });
            assert_eq!(u64::from(hang.is_so()), gauge.value());
        }
    }
}
