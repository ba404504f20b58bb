//! Work that is done again and again, in steps that leave requests their turn: above all, removing
//! what was kept long enough.

use crate::base::Result;
use crate::store::{Order, Record, Source, Step, Tx, View};

/// Work that is done again and again.
pub struct Sweep {
    /// Its name, for the log.
    pub name: &'static str,
    /// How often.
    pub every_secs: u64,
    /// One step, in a transaction of one organization ([`Id::NOTHING`] when `installation`).
    pub run: fn(&mut Tx, &Settings) -> Result<Swept>,
    /// Whether it is about the installation as a whole, not about each organization.
    pub installation: bool,
}

/// Whether a sweep has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// Nothing until its next turn.
    Clean,
    /// There is more; run it again now.
    More,
}

impl Swept {
    /// After a step that came upon `rows` rows: there may be more if it was stopped by the limit.
    pub fn after(rows: usize) -> Self {
        if rows < SWEEP_ROWS { Swept::Clean } else { Swept::More }
    }
}

/// A sweep removes at most so many rows in a step, so that requests get their turn between two.
pub const SWEEP_ROWS: usize = 500;

/// What the person who runs the server chose about work in the background.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Deleted and superseded memories are kept so long (`--memory-retention`).
    pub memory_retention_secs: i64,
    /// Log entries are kept so long (`--log-retention`).
    pub log_retention_secs: i64,
}

/// The records at the front of an index by time that are due: as many as a sweep takes in a step.
pub fn due<R: Record>(
    view: &View,
    by_time: impl Into<Source<R>>,
    is_due: impl Fn(&R) -> bool,
) -> Result<Vec<R>> {
    let mut due = Vec::new();
    view.each(by_time, &(), Order::Ascending, |record| {
        if due.len() == SWEEP_ROWS || !is_due(&record) {
            return Ok(Step::Enough);
        }
        due.push(record);
        Ok(Step::More)
    })?;
    Ok(due)
}

/// Removes the records at the front of an index by time that are due: one step of a sweep.
pub fn remove_due<R: Record>(
    tx: &mut Tx,
    by_time: impl Into<Source<R>>,
    is_due: impl Fn(&R) -> bool,
) -> Result<Swept> {
    let due = due(&tx.view(), by_time, is_due)?;
    for record in &due {
        tx.remove(record)?;
    }
    Ok(Swept::after(due.len()))
}
