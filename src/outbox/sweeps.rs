//! Work that is done again and again, in steps that leave requests their turn: above all, removing
//! what was kept long enough.

use crate::base::Result;
use crate::store::{Key, Order, Record, Source, Step, Tx, View, codec};

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

/// The first records whose keys begin with `prefix`: fewer than `at_most` only if those are all. A
/// page would not do, which may end early.
pub fn first<R: Record>(view: &View, prefix: &impl Key, at_most: usize) -> Result<Vec<R>> {
    let mut first = Vec::new();
    view.each(Source::TABLE, prefix, Order::Ascending, |record| {
        if first.len() == at_most {
            return Ok(Step::Enough);
        }
        first.push(record);
        Ok(Step::More)
    })?;
    Ok(first)
}

/// Long records count for more than one row: so many bytes of one count as one.
const ROW_BYTES: usize = 8 * 1024;

/// For how many rows a record counts in a step.
///
/// # Errors
/// If it cannot be written.
pub fn rows_of<R: Record>(record: &R) -> Result<usize> {
    Ok(1 + codec::encode(record, &[])?.len() / ROW_BYTES)
}

/// The first records whose keys begin with `prefix`, up to the one with which they count for
/// `at_most` rows; and for how many they count, which is less only if those are all.
pub fn first_rows<R: Record>(
    view: &View,
    prefix: &impl Key,
    at_most: usize,
    rows_of: impl Fn(&R) -> Result<usize>,
) -> Result<(Vec<R>, usize)> {
    let (mut first, mut rows) = (Vec::new(), 0);
    view.each(Source::TABLE, prefix, Order::Ascending, |record| {
        if rows >= at_most {
            return Ok(Step::Enough);
        }
        rows += rows_of(&record)?;
        first.push(record);
        Ok(Step::More)
    })?;
    Ok((first, rows.min(at_most)))
}

/// Removes the first records whose keys begin with `prefix`; says for how many rows they count,
/// which is less than `at_most` only if those were all.
pub fn remove_first<R: Record>(tx: &mut Tx, prefix: &impl Key, at_most: usize) -> Result<usize> {
    let (first, rows) = first_rows::<R>(&tx.view(), prefix, at_most, rows_of)?;
    first.iter().try_for_each(|record| tx.remove(record))?;
    Ok(rows)
}
