//! Sweeps: periodic work in small steps, so that requests run in between. Most of them delete
//! expired records.

use crate::base::{Result, Time};
use crate::store::{ListSource, Order, Record, Tx, View};
use std::ops::ControlFlow;

/// A periodic job.
pub struct Sweep {
    /// Its name, for the log.
    pub name: &'static str,
    /// The pause between two rounds, in seconds.
    pub every_secs: u64,
    /// One step, in a transaction of one organization ([`Id::NIL`] when `installation`).
    pub run: fn(&mut Tx, &RetentionSettings) -> Result<SweepProgress>,
    /// Whether it runs once for the installation instead of once for each organization.
    pub installation: bool,
}

/// Whether a sweep has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SweepProgress {
    /// There is nothing left until the next round.
    Clean,
    /// There may be more: the next step follows at once.
    More,
}

impl SweepProgress {
    /// Returns the progress after a step that found `rows` rows: there may be more if it reached
    /// the limit.
    pub fn after(rows: usize) -> Self {
        if rows < SWEEP_ROWS { SweepProgress::Clean } else { SweepProgress::More }
    }
}

/// A step of a sweep deletes at most 500 rows, so that requests run between two steps.
pub const SWEEP_ROWS: usize = 500;

/// The operator's settings for background work.
#[derive(Clone, Debug)]
pub struct RetentionSettings {
    /// How long deleted and superseded memories are kept, in seconds (`--memory-retention`).
    pub memory_retention_secs: i64,
    /// How long events and their deliveries are kept, in seconds (`--log-retention`).
    pub log_retention_secs: i64,
    /// How long an agent may be silent before it counts as stale, in seconds (`--stale-after`).
    pub stale_after_secs: i64,
    /// When the server started.
    pub started_at: Time,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        const DAY_SECS: i64 = 24 * 3600;
        RetentionSettings {
            memory_retention_secs: 30 * DAY_SECS,
            log_retention_secs: 365 * DAY_SECS,
            stale_after_secs: 15 * 60,
            started_at: Time::from_millis(0),
        }
    }
}

/// Returns the due records at the front of a source ordered by time, at most [`SWEEP_ROWS`].
pub fn due<R: Record>(
    view: &View,
    by_time: impl Into<ListSource<R>>,
    is_due: impl Fn(&R) -> bool,
) -> Result<Vec<R>> {
    let mut due = Vec::new();
    view.for_each(by_time, &(), Order::Ascending, |record| {
        if due.len() == SWEEP_ROWS || !is_due(&record) {
            return Ok(ControlFlow::Break(()));
        }
        due.push(record);
        Ok(ControlFlow::Continue(()))
    })?;
    Ok(due)
}

/// Deletes the due records at the front of a source ordered by time: one step of a sweep.
pub fn delete_due<R: Record>(
    tx: &mut Tx,
    by_time: impl Into<ListSource<R>>,
    is_due: impl Fn(&R) -> bool,
) -> Result<SweepProgress> {
    let due = due(&tx.view(), by_time, is_due)?;
    for record in &due {
        tx.remove(record)?;
    }
    Ok(SweepProgress::after(due.len()))
}
