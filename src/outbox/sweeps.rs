//! Sweeps: periodic work in small steps, so that requests get their turn in between. Most of them
//! remove what was kept long enough.

use crate::base::Result;
use crate::store::{Key, Order, Record, Source, Step, Tx, View, codec};

/// Periodic work.
pub struct Sweep {
    /// Its name, for the log.
    pub name: &'static str,
    /// The pause between two rounds.
    pub every_secs: u64,
    /// One step, in a transaction of one organization ([`Id::NOTHING`] when `installation`).
    pub run: fn(&mut Tx, &Settings) -> Result<Swept>,
    /// Whether it runs once for the installation instead of once for each organization.
    pub installation: bool,
}

/// Whether a sweep has more to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Swept {
    /// Nothing until the next round.
    Clean,
    /// There may be more: the next step follows at once.
    More,
}

impl Swept {
    /// The result of a step that found `rows` rows: there may be more if the limit ended it.
    pub fn after(rows: usize) -> Self {
        if rows < SWEEP_ROWS { Swept::Clean } else { Swept::More }
    }
}

/// The most rows that a sweep removes in a step, so that requests get their turn between two.
pub const SWEEP_ROWS: usize = 500;

/// The operator's settings for background work.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long deleted and superseded memories are kept (`--memory-retention`).
    pub memory_retention_secs: i64,
    /// How long events and their deliveries are kept (`--log-retention`).
    pub log_retention_secs: i64,
}

/// Returns the due records at the front of a source ordered by time, at most [`SWEEP_ROWS`].
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

/// Removes the due records at the front of a source ordered by time: one step of a sweep.
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

/// Returns the first records whose keys begin with `prefix`; fewer than `at_most` only if those are
/// all. (A page may end early.)
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

/// A long record counts for more than one row: one for each 8 KiB.
const ROW_BYTES: usize = 8 * 1024;

/// Returns for how many rows a record counts in a step.
///
/// # Errors
/// If it cannot be encoded.
pub fn rows_of<R: Record>(record: &R) -> Result<usize> {
    Ok(1 + codec::encode(record, &[])?.len() / ROW_BYTES)
}

/// Returns the first records whose keys begin with `prefix`, up to the one that makes them count for
/// `at_most` rows, and for how many rows they count; less only if those are all.
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

/// Removes the first records whose keys begin with `prefix`; returns for how many rows they counted,
/// less than `at_most` only if those were all.
pub fn remove_first<R: Record>(tx: &mut Tx, prefix: &impl Key, at_most: usize) -> Result<usize> {
    let (first, rows) = first_rows::<R>(&tx.view(), prefix, at_most, rows_of)?;
    first.iter().try_for_each(|record| tx.remove(record))?;
    Ok(rows)
}
