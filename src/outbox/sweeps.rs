//! Sweeps: periodic work in small steps, so that requests run in between. Most of them delete
//! expired records.

use std::ops::ControlFlow;

use uuid::Uuid;

use crate::base::{Result, Time};
use crate::store::{ListSource, Order, Record, Tx, View};

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
    /// The same, behind this record: some before it stay as they are.
    MoreBehind(SweepPosition),
}

/// A record in an index by time: what its key begins with, and its id.
pub type SweepPosition = (Time, Uuid);

impl SweepProgress {
    /// Returns whether a step that handled this many rows, at most [`SWEEP_ROWS`], left some.
    pub fn after(rows: usize) -> Self {
        if rows < SWEEP_ROWS { SweepProgress::Clean } else { SweepProgress::More }
    }
}

/// A step of a sweep deletes at most 500 rows, so that requests run between two steps.
pub const SWEEP_ROWS: usize = 500;

/// A step ends after 4 MiB of records as stored: 500 large ones are more than a transaction may read,
/// and the sweep would never get beyond them.
const SWEEP_BYTES: usize = 4 * 1024 * 1024;

/// The operator's settings for background work, and how far a sweep is.
#[derive(Clone, Debug)]
pub struct RetentionSettings {
    /// How long deleted and superseded memories are kept, in seconds (`--memory-retention`).
    pub memory_retention_secs: i64,
    /// How long events and their deliveries, audit entries, moves of labels and closed drafts are
    /// kept, in seconds (`--log-retention`).
    pub log_retention_secs: i64,
    /// How long an agent may be silent before it counts as stale, in seconds (`--stale-after`).
    pub stale_after_secs: i64,
    /// When the server started.
    pub started_at: Time,
    /// Where a step begins: where the one before it ended, if that has said so.
    pub behind: Option<SweepPosition>,
}

impl Default for RetentionSettings {
    fn default() -> Self {
        const DAY_SECS: i64 = 24 * 3600;
        RetentionSettings {
            memory_retention_secs: 30 * DAY_SECS,
            log_retention_secs: 365 * DAY_SECS,
            stale_after_secs: 15 * 60,
            started_at: Time::from_millis(0),
            behind: None,
        }
    }
}

/// Returns the due records at the front of a source ordered by time, as many as one step may have,
/// and whether there may be more.
pub fn due<R: Record>(
    view: &View,
    by_time: impl Into<ListSource<R>>,
    is_due: impl Fn(&R) -> bool,
) -> Result<(Vec<R>, SweepProgress)> {
    let (mut due, mut bytes) = (Vec::new(), 0);
    let mut progress = SweepProgress::Clean;
    view.for_each_sized(by_time.into(), &[], Order::Ascending, |size, record| {
        if !is_due(&record) {
            return Ok(ControlFlow::Break(()));
        }
        due.push(record);
        bytes += size;
        if due.len() == SWEEP_ROWS || bytes >= SWEEP_BYTES {
            progress = SweepProgress::More;
            return Ok(ControlFlow::Break(()));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((due, progress))
}

/// Deletes the due records at the front of a source ordered by time: one step of a sweep.
pub fn delete_due<R: Record>(
    tx: &mut Tx,
    by_time: impl Into<ListSource<R>>,
    is_due: impl Fn(&R) -> bool,
) -> Result<SweepProgress> {
    let (due, progress) = due(&tx.view(), by_time, is_due)?;
    for record in &due {
        tx.remove(record)?;
    }
    Ok(progress)
}
