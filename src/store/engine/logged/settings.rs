//! How large a log may become.

use std::time::Duration;

/// How large the log may become, and when it is written to the database.
#[derive(Clone, Copy, Debug)]
pub struct LogSettings {
    /// Bytes of a part in memory: its records and their map. A commit that would make the live part
    /// larger waits for the checkpoint. Both parts with the largest group of writes each, some 10 MiB,
    /// stay below 64 MiB in memory, and so on the disk. A part that a reader still has is in memory beside
    /// them.
    pub part_bytes: usize,
    /// Bytes of the live part in memory from which on it is written to the database.
    pub checkpoint_bytes: usize,
    /// Bytes of changes in one transaction of a checkpoint, about, while commits would soon wait for it:
    /// the larger, the sooner it is done.
    pub step_bytes: usize,
    /// The same while there is time: commits meanwhile wait less for the disk.
    pub gentle_step_bytes: usize,
    /// How old the first commit of the live part becomes before it is written to the database.
    pub max_age: Duration,
    /// How soon a checkpoint that failed is tried again.
    pub retry_interval: Duration,
    /// How long a log file grows ahead of what is written, in bytes; 0: not at all.
    pub ahead_bytes: u64,
    /// Bytes of the reserve of disk space. What the log has when the disk is full must become pages of
    /// the database before what is deleted frees any: both parts, in pages that are half full, with
    /// the copies that a step makes. Twice a part is enough where that was tried.
    pub reserve_bytes: u64,
    /// How long a stop writes what is in the log to the database. The next start reads what is left.
    pub close_time: Duration,
    /// Whether commits do the steps of checkpoints, one each, instead of a thread: tests need the same
    /// order each time.
    pub is_stepwise: bool,
}

impl LogSettings {
    /// A log of a few commits, for tests: checkpoints happen all the time.
    pub const SMALL: LogSettings = LogSettings {
        part_bytes: 4096,
        checkpoint_bytes: 2048,
        step_bytes: 1000,
        gentle_step_bytes: 500,
        max_age: Duration::from_secs(3600),
        retry_interval: Duration::ZERO,
        ahead_bytes: 0,
        reserve_bytes: 16 * 1024,
        close_time: Duration::from_secs(60),
        is_stepwise: false,
    };
}

impl Default for LogSettings {
    fn default() -> Self {
        LogSettings {
            part_bytes: 20 * 1024 * 1024,
            checkpoint_bytes: 10 * 1024 * 1024,
            step_bytes: 1024 * 1024,
            gentle_step_bytes: 64 * 1024,
            max_age: Duration::from_secs(30),
            retry_interval: Duration::from_secs(10),
            ahead_bytes: 1024 * 1024,
            reserve_bytes: 48 * 1024 * 1024,
            close_time: Duration::from_secs(5),
            is_stepwise: false,
        }
    }
}
