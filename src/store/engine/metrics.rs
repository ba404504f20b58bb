//! What an engine counts for the metrics.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use crate::base::metrics::{Buckets, Counter, Family, Gauge, Histogram};
use crate::store::engine::writes::WriteBatch;
use crate::store::heavy_threads::lower_priority;

/// Attempts of a commit: 512 at most share one.
static ATTEMPTS: Buckets = Buckets { bounds: &[1, 2, 5, 10, 25, 50, 100, 250, 512], scale: 1 };

/// Rows of a commit: a new organization has some hundred.
static ROWS: Buckets =
    Buckets { bounds: &[1, 5, 10, 25, 50, 100, 250, 500, 1_000, 5_000, 25_000], scale: 1 };

/// Bytes of a commit: a group takes no more attempts at 1 MiB, to which the last may add 8 MiB.
static BYTES: Buckets = Buckets {
    bounds: &[1_024, 4_096, 16_384, 65_536, 262_144, 1_048_576, 4_194_304, 16_777_216],
    scale: 1,
};

/// Microseconds of a commit: below a millisecond on an SSD, tens on a disk; of a checkpoint: a second
/// or a few.
static SECONDS: Buckets = Buckets {
    bounds: &[
        500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000,
        5_000_000,
    ],
    scale: 1_000_000,
};

/// What an engine counts for the metrics.
#[derive(Debug)]
pub struct StoreMeters {
    /// Attempts of each commit.
    pub commit_attempts: Histogram,
    /// Rows that each commit writes or removes: records and entries of indexes.
    pub commit_rows: Histogram,
    /// Bytes of keys and values that each commit writes.
    pub commit_bytes: Histogram,
    /// The time of each commit, in microseconds.
    pub commit_micros: Histogram,
    /// Commits that failed, were refused by the storage, or have an unknown outcome.
    pub failed_commits: Counter,
    /// Attempts that ran again, or were given back, because what they had read has changed.
    pub conflicts: Counter,
    /// Attempts that were refused because the queue was full.
    pub refused: Counter,
    /// Answers of a database server that transactions waited for.
    pub round_trips: Counter,
    /// 1 while writes are refused, since the database server does not finish commits.
    pub refuses_writes: Gauge,
    /// Attempts that wait for the writer.
    pub queued: Gauge,
    /// The bytes that they are going to write.
    pub queued_bytes: Gauge,
    /// Bytes of the log that are not in the database file yet.
    pub log_bytes: Gauge,
    /// The time of each checkpoint, in microseconds.
    pub checkpoint_micros: Histogram,
    pub failed_checkpoints: Counter,
    /// How long commits waited for a checkpoint, in microseconds, of those that did.
    pub log_wait_micros: Histogram,
    /// Bytes of the database file; 0 while unknown.
    pub file_bytes: Gauge,
    /// Bytes of a page of the database; 0 while unknown.
    pub page_bytes: Gauge,
    /// Pages of the database that are free, when they were last counted; valid if `page_bytes` is
    /// known.
    pub free_pages: Gauge,
}

impl Default for StoreMeters {
    fn default() -> Self {
        StoreMeters {
            commit_attempts: Histogram::new(&ATTEMPTS),
            commit_rows: Histogram::new(&ROWS),
            commit_bytes: Histogram::new(&BYTES),
            commit_micros: Histogram::new(&SECONDS),
            failed_commits: Counter::default(),
            conflicts: Counter::default(),
            refused: Counter::default(),
            round_trips: Counter::default(),
            refuses_writes: Gauge::default(),
            queued: Gauge::default(),
            queued_bytes: Gauge::default(),
            log_bytes: Gauge::default(),
            checkpoint_micros: Histogram::new(&SECONDS),
            failed_checkpoints: Counter::default(),
            log_wait_micros: Histogram::new(&SECONDS),
            file_bytes: Gauge::default(),
            page_bytes: Gauge::default(),
            free_pages: Gauge::default(),
        }
    }
}

impl StoreMeters {
    /// Counts what a commit of so many attempts is going to write.
    pub fn commit_begins(&self, attempts: usize, writes: &WriteBatch) {
        self.commit_attempts.observe(attempts as u64);
        self.commit_rows.observe(writes.len() as u64);
        self.commit_bytes.observe(writes.bytes() as u64);
    }

    /// Returns the families for `/metrics`.
    pub fn families(&self) -> Vec<Family> {
        let mut families = vec![
            Family::histogram(
                "roadstead_commit_attempts",
                "Transactions that share a commit",
                &self.commit_attempts,
            ),
            Family::histogram(
                "roadstead_commit_rows",
                "Records and entries of indexes that a commit writes or removes",
                &self.commit_rows,
            ),
            Family::histogram(
                "roadstead_commit_size_bytes",
                "Keys and values that a commit writes",
                &self.commit_bytes,
            ),
            Family::histogram(
                "roadstead_commit_duration_seconds",
                "Time of a commit, until it is synced",
                &self.commit_micros,
            ),
            Family::counter(
                "roadstead_commits_failed",
                "Commits that failed or whose outcome is unknown",
                &self.failed_commits,
            ),
            Family::counter(
                "roadstead_transaction_conflicts",
                "Transactions that ran again because what they had read has changed",
                &self.conflicts,
            ),
            Family::counter(
                "roadstead_transactions_refused",
                "Transactions refused because too many wait for the writer",
                &self.refused,
            ),
        ];
        families.extend(self.log_families());
        families.extend(self.present_families());
        families
    }

    /// Returns the families of what is there at present.
    fn present_families(&self) -> Vec<Family> {
        let mut families = Vec::new();
        if self.round_trips.value() > 0 {
            families.push(Family::counter(
                "roadstead_database_round_trips",
                "Answers of the database server that transactions waited for",
                &self.round_trips,
            ));
        }
        let mut gauge = |name, help, value: u64| {
            families.push(Family::gauge(name, help, value as f64));
        };
        gauge(
            "roadstead_store_writes_refused",
            "Whether writes are refused since the database server does not finish commits",
            self.refuses_writes.value(),
        );
        gauge("roadstead_queue_length", "Transactions waiting for the writer", self.queued.value());
        gauge(
            "roadstead_queue_bytes",
            "Bytes of transactions waiting for the writer",
            self.queued_bytes.value(),
        );
        let file_bytes = self.file_bytes.value();
        if file_bytes > 0 {
            gauge("roadstead_database_file_bytes", "Size of the database file", file_bytes);
        }
        let page_bytes = self.page_bytes.value();
        if page_bytes > 0 {
            gauge("roadstead_database_page_bytes", "Size of a page of the database", page_bytes);
            let free = self.free_pages.value();
            let help = "Pages free for later writes";
            gauge("roadstead_database_free_pages", help, free);
        }
        families
    }

    /// Returns the families of the log.
    fn log_families(&self) -> Vec<Family> {
        vec![
            Family::gauge(
                "roadstead_wal_bytes",
                "Bytes of the write-ahead log that are not in the database file yet",
                self.log_bytes.value() as f64,
            ),
            Family::histogram(
                "roadstead_wal_checkpoint_duration_seconds",
                "Time of writing a part of the write-ahead log to the database file",
                &self.checkpoint_micros,
            ),
            Family::counter(
                "roadstead_wal_checkpoints_failed",
                "Checkpoints that failed and are tried again",
                &self.failed_checkpoints,
            ),
            Family::histogram(
                "roadstead_wal_wait_seconds",
                "Time that commits waited for a checkpoint of the write-ahead log",
                &self.log_wait_micros,
            ),
        ]
    }

    /// Sets the length of the queue.
    pub(super) fn set_queue(&self, items: usize, bytes: usize) {
        self.queued.set(items as u64);
        self.queued_bytes.set(bytes as u64);
    }

    /// Adds a commit that began at `begun`.
    pub(super) fn committed(&self, begun: Instant, is_done: bool) {
        let micros = begun.elapsed().as_micros();
        self.commit_micros.observe(u64::try_from(micros).unwrap_or(u64::MAX));
        self.failed_commits.add(u64::from(!is_done));
    }

    /// Bytes of the file that nothing uses, as far as they were counted.
    pub fn free_bytes(&self) -> u64 {
        self.page_bytes.value().saturating_mul(self.free_pages.value())
    }

    /// Sets what is known about the pages of the storage.
    fn set_pages(&self, pages: Option<Pages>) {
        self.page_bytes.set(pages.map_or(0, |pages| pages.bytes));
        self.free_pages.set(pages.map_or(0, |pages| pages.free));
    }
}

/// How often the size of the storage is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pace {
    /// Now and then, for the metrics.
    Usual,
    /// Within seconds: the disk is full, and writes go on once enough of the file is free.
    Full,
}

impl Pace {
    /// Returns the pace of storage whose disk is full or not.
    pub fn of(is_full: bool) -> Self {
        if is_full { Pace::Full } else { Pace::Usual }
    }

    fn interval(self) -> Duration {
        Duration::from_secs(if self == Pace::Full { 2 } else { 60 })
    }

    /// Returns the pause after a count that took so long. Counting pages reads the whole file, and what
    /// is deleted meanwhile keeps its pages, so it takes at most a hundredth of the time; a tenth, while
    /// the disk is full.
    fn pause(self, took: Duration) -> Duration {
        let share = if self == Pace::Full { 10 } else { 100 };
        (took * share).max(self.interval())
    }
}

/// Measures the size of storage from time to time.
pub(super) struct SizeProbe {
    meters: Arc<StoreMeters>,
    created_at: Instant,
    measured_at: Option<Instant>,
    last_count: Arc<Mutex<LastCount>>,
}

/// The last count of pages.
#[derive(Default)]
struct LastCount {
    is_running: bool,
    /// When the last one ended, and how long it took.
    ended: Option<(Instant, Duration)>,
}

impl SizeProbe {
    /// Creates a probe that has not measured yet.
    pub fn new(meters: Arc<StoreMeters>) -> Self {
        let created_at = Instant::now();
        SizeProbe { meters, created_at, measured_at: None, last_count: Arc::default() }
    }

    /// Whether it has not been measured for so long that a busy writer must.
    pub fn is_overdue(&self, pace: Pace) -> bool {
        self.measured_at.unwrap_or(self.created_at).elapsed() >= pace.interval()
    }

    /// Measures, at most once in an interval. Pages are counted by a thread of lower priority.
    pub fn probe(&mut self, pace: Pace, size: impl FnOnce() -> Option<StorageSize>) {
        if self.measured_at.is_some_and(|at| at.elapsed() < pace.interval()) {
            return;
        }
        self.measured_at = Some(Instant::now());
        // A broken file can make redb panic, which must not end the writer.
        let Ok(Some(size)) = catch_unwind(AssertUnwindSafe(size)) else { return };
        self.meters.file_bytes.set(size.file_bytes);
        match size.count_pages {
            Some(count) => self.count(pace, count),
            // A count of earlier, when the file was smaller, would be wrong now.
            None => self.meters.set_pages(None),
        }
    }

    fn count(&self, pace: Pace, count: CountPages) {
        let is_recent = |(at, took): (Instant, Duration)| at.elapsed() < pace.pause(took);
        let mut last = lock(&self.last_count);
        if last.is_running || last.ended.is_some_and(is_recent) {
            return;
        }
        last.is_running = true;
        drop(last);
        let (meters, last_count, begun) =
            (self.meters.clone(), self.last_count.clone(), Instant::now());
        let work = move || {
            lower_priority();
            meters.set_pages(catch_unwind(AssertUnwindSafe(count)).ok().flatten());
            let ended = Some((Instant::now(), begun.elapsed()));
            *lock(&last_count) = LastCount { is_running: false, ended };
        };
        if std::thread::Builder::new().name("pages".into()).spawn(work).is_err() {
            let ended = Some((begun, Duration::ZERO));
            *lock(&self.last_count) = LastCount { is_running: false, ended };
        }
    }
}

fn lock(last: &Mutex<LastCount>) -> MutexGuard<'_, LastCount> {
    last.lock().expect("no thread panics while holding it")
}

/// The size of storage on this machine.
pub struct StorageSize {
    pub file_bytes: u64,
    /// Counts its pages, where that can be done.
    pub count_pages: Option<CountPages>,
}

/// Counts the pages of a snapshot; `None` if it cannot be read. It takes as long as reading the
/// file.
pub type CountPages = Box<dyn FnOnce() -> Option<Pages> + Send>;

/// The pages of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pages {
    /// Bytes of each.
    pub bytes: u64,
    /// How many are free.
    pub free: u64,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    #[test]
    fn pages_are_counted_once_at_a_time_apart_from_the_writer_and_shown_while_they_are_known() {
        let meters = Arc::new(StoreMeters::default());
        let mut probe = SizeProbe::new(meters.clone());
        let is_shown = |name: &str| meters.families().iter().any(|family| family.name == name);
        let (count, pages) = channel::<Option<Pages>>();
        let counted = move || pages.recv().ok().flatten();
        let size = |count_pages| Some(StorageSize { file_bytes: 4096, count_pages });
        probe.probe(Pace::Usual, || size(Some(Box::new(counted))));
        // The writer has gone on; the next is not begun before that one has ended.
        assert!(is_shown("roadstead_database_file_bytes"));
        assert!(!is_shown("roadstead_database_free_pages"));
        probe.measured_at = None;
        probe.probe(Pace::Usual, || size(Some(Box::new(|| panic!("two at a time")))));
        count.send(Some(Pages { bytes: 4096, free: 0 })).unwrap();
        while lock(&probe.last_count).is_running {
            std::thread::yield_now();
        }
        assert!(is_shown("roadstead_database_free_pages"));
        probe.probe(Pace::Usual, || panic!("it was just measured"));
        probe.measured_at = None;
        probe.probe(Pace::Usual, || size(None));
        assert!(!is_shown("roadstead_database_free_pages"));
    }

    #[test]
    fn pages_are_counted_again_within_seconds_while_the_disk_is_full() {
        let mut probe = SizeProbe::new(Arc::default());
        let before = Instant::now().checked_sub(Duration::from_secs(3)).unwrap();
        let mut is_counted = |pace| {
            probe.measured_at = Some(before);
            // The one before took a tenth of a second.
            let ended = Some((before, Duration::from_millis(100)));
            *lock(&probe.last_count) = LastCount { is_running: false, ended };
            let (count, counted) = channel();
            let count_pages: CountPages = Box::new(move || {
                count.send(()).unwrap();
                None
            });
            probe.probe(pace, || {
                Some(StorageSize { file_bytes: 4096, count_pages: Some(count_pages) })
            });
            counted.recv().is_ok()
        };
        assert!(!is_counted(Pace::Usual));
        assert!(is_counted(Pace::Full));
    }
}
