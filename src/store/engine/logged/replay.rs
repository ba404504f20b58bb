//! Reading a log: which records follow what the database has, and whether any are missing.

use std::io;
use std::sync::Arc;

use super::files::{FIRST, LogFile, LogFiles};
use super::position::Position;
use super::record::{self, ALIGNMENT, Link, LogId};
use crate::base::{Error, Kind, Result};

/// The records of one file that the database does not have.
pub struct Run {
    pub file: usize,
    /// The records, in order.
    pub records: Vec<Arc<[u8]>>,
    /// Where the next record begins.
    pub end: u64,
    /// The last record.
    pub last: Link,
}

/// Why a log cannot be used.
#[derive(Debug, PartialEq)]
pub enum Damage {
    /// Records between the one with this number and later ones are missing or damaged.
    Missing(u64),
    /// It does not have the record of this number, which the database has.
    TooOld(u64),
}

impl Damage {
    /// Returns the error that the command line shows. `name` is the log.
    pub fn error(&self, name: &str) -> Error {
        let message = match self {
            Damage::Missing(number) => format!(
                "the log {name} is damaged: records after number {number} are missing or broken, and \
                 there are later ones; copy it and the database file to a safe place, then see what \
                 roadstead repair can read, or restore a backup"
            ),
            Damage::TooOld(number) => format!(
                "the log {name} is older than the database beside it, or damaged: the database has its \
                 record {number}, and it has not; put back the log that belongs to the database, see \
                 what roadstead repair can read, or restore a backup"
            ),
        };
        Error::new(Kind::Internal, "database", message)
    }
}

/// Reads the records that follow those that the database has: at most two runs, the older one first.
/// What is behind the last one was not completely written when the power went, and counts as never
/// written; but nothing valid may follow it.
///
/// # Errors
/// If a file cannot be read; the inner one if records are missing.
pub fn read(files: &LogFiles, position: &Position) -> io::Result<Result<Vec<Run>, Damage>> {
    let Position { log, covered, next_file, .. } = *position;
    let mut runs: Vec<Run> = Vec::new();
    let (mut last, mut has_covered) = (covered, covered.number == 0);
    // One at a time is in memory.
    for (nth, file) in [next_file, 1 - next_file].into_iter().enumerate() {
        let content = content(&files[file])?;
        let mut end = FIRST;
        if runs.len() == nth {
            let (records, newest) = records_after(last, log, &content);
            if !records.is_empty() {
                end += records.iter().map(|record| record.len() as u64).sum::<u64>();
                last = newest;
                runs.push(Run { file, records, end, last });
            }
        }
        for link in links(log, &content, end) {
            if link.number > covered.number {
                return Ok(Err(Damage::Missing(last.number)));
            }
            has_covered |= link == covered;
        }
    }
    if runs.is_empty() && !has_covered {
        return Ok(Err(Damage::TooOld(covered.number)));
    }
    Ok(Ok(runs))
}

/// Returns whether a file begins with a record that is newer than `covered`.
pub fn has_newer(log: LogId, file: &LogFile, covered: Link) -> io::Result<bool> {
    let room = file.len()?.saturating_sub(FIRST);
    let mut front = [0; ALIGNMENT];
    if room < front.len() as u64 {
        return Ok(false);
    }
    file.read(FIRST, &mut front)?;
    let len = record::claimed_len(log, &front).filter(|len| *len as u64 <= room);
    let Some(len) = len else { return Ok(false) };
    let mut first = vec![0; len];
    file.read(FIRST, &mut first)?;
    Ok(record::header(log, &first).is_some_and(|first| first.link.number > covered.number))
}

fn to_usize(position: u64) -> usize {
    usize::try_from(position).expect("files of logs are much smaller than the memory")
}

fn content(file: &LogFile) -> io::Result<Vec<u8>> {
    let mut content = vec![0; to_usize(file.len()?)];
    file.read(0, &mut content)?;
    Ok(content)
}

/// The records at the begin of a file, if they follow `last`, as far as each follows the other; and
/// the place of the newest.
fn records_after(mut last: Link, log: LogId, content: &[u8]) -> (Vec<Arc<[u8]>>, Link) {
    let (mut records, mut at) = (Vec::new(), to_usize(FIRST));
    while let Some(header) = content.get(at..).and_then(|rest| record::header(log, rest))
        && header.follows(last)
    {
        records.push(content[at..at + header.len].into());
        at += header.len;
        last = header.link;
    }
    (records, last)
}

/// The places in the chain of all valid records from `from` on, wherever they begin.
fn links(log: LogId, content: &[u8], from: u64) -> impl Iterator<Item = Link> {
    let places = (to_usize(from)..content.len()).step_by(ALIGNMENT);
    places.filter_map(move |at| record::header(log, &content[at..])).map(|header| header.link)
}

#[cfg(test)]
mod tests;
