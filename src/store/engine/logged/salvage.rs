//! What a repair reads of a log that cannot be used as it is: each record that is whole, wherever it
//! is, and which of them are missing.
//!
//! The records become a log of their own, in memory, which is opened like every other: only here is
//! anything gone on with although records are missing.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use redb::Database;
use redb::backends::InMemoryBackend;

use super::files::{FIRST, LogFile, LogFiles, LogPlace, read_front, write_front};
use super::position::Position;
use super::record::{self, ALIGNMENT, Header, Link, LogId};
use crate::base::{Error, Result};
use crate::store::Clock;

/// A file is read in pieces of so many bytes: of a disk that fails, the others are read.
const PIECE_BYTES: usize = 4096;

/// What is left of a log.
pub struct Salvaged {
    /// The log that has it.
    pub place: Box<dyn LogPlace>,
    /// What is missing, a sentence each.
    pub missing: Vec<String>,
}

/// The valid records of the damaged log by their number, usually one of each.
type Found = BTreeMap<u64, Vec<(Header, Arc<[u8]>)>>;

/// Makes a log of what is left of that of `database`, which then belongs to the database. `None` stands
/// for a file that is not there.
///
/// The changes after a gap are made, too: each was acknowledged. What the missing ones deleted or
/// revoked is there again, and a row that only they wrote is not.
///
/// # Errors
/// If the database cannot be read or written.
pub fn salvage(database: &Database, files: [Option<LogFile>; 2]) -> Result<Salvaged> {
    let failed = |error| Error::internal(format!("a log in memory: {error}"));
    let mut missing = Vec::new();
    let records = match Position::read(database) {
        Ok(Some(position)) => {
            let found = whole_records(&files, &position, &mut missing);
            if found.is_empty() && !position.is_closed {
                let last = position.covered.number;
                missing.push(format!("nothing of the log after its record {last} can be read"));
            }
            in_order(position.covered, found, &mut missing)
        }
        Ok(None) => Vec::new(),
        Err(error) => {
            missing.push(format!("{}: nothing of the log was read", error.message()));
            Vec::new()
        }
    };
    let log = LogId::new(Clock::system().random());
    let files = rewritten(log, &records).map_err(failed)?;
    let covered = Link::default();
    Position { log, covered, next_file: 0, is_closed: false }.store(database)?;
    Ok(Salvaged { place: Box::new(InMemoryLog(files)), missing })
}

/// Reads the records that the database does not have.
fn whole_records(
    files: &[Option<LogFile>; 2],
    position: &Position,
    missing: &mut Vec<String>,
) -> Found {
    let mut found = Found::new();
    let fronts = files.each_ref().map(|file| read_front(file.as_ref()?).ok().flatten());
    // The database does not know of which format its log is. If no front says it, it is the newer one.
    let same = fronts.iter().flatten().find(|front| front.id == position.log.id);
    let log = *same.unwrap_or(&position.log);
    for (file, front) in files.iter().zip(&fronts) {
        let Some(file) = file else {
            missing.push("a file of the log is not there".into());
            continue;
        };
        if front.is_some_and(|front| front != log) {
            missing.push("a file of the log is another database's: nothing of it was read".into());
            continue;
        }
        let (content, lost) = readable(file);
        if lost > 0 {
            missing.push(format!("{lost} bytes of the log cannot be read"));
        }
        let mut at = 0;
        while at < content.len() {
            let header = record::header(log, &content[at..]);
            let len = header.map_or(ALIGNMENT, |header| header.len);
            if let Some(header) =
                header.filter(|header| header.link.number > position.covered.number)
            {
                let record = content[at..at + len].into();
                found.entry(header.link.number).or_default().push((header, record));
            }
            at += len;
        }
    }
    found
}

/// What can be read of a file, with zeros for the rest, and how many bytes that is.
fn readable(file: &LogFile) -> (Vec<u8>, u64) {
    let len = file.len().ok().and_then(|len| usize::try_from(len).ok()).unwrap_or(0);
    let (mut content, mut lost) = (vec![0; len], 0);
    let mut at = 0;
    for piece in content.chunks_mut(PIECE_BYTES) {
        if file.read(at, piece).is_err() {
            piece.fill(0);
            lost += piece.len() as u64;
        }
        at += piece.len() as u64;
    }
    (content, lost)
}

/// One record of each number, in their order. Of several, it is the one that follows the one before.
fn in_order(covered: Link, found: Found, missing: &mut Vec<String>) -> Vec<Arc<[u8]>> {
    let (mut records, mut last) = (Vec::new(), covered);
    for (number, mut same) in found {
        let next = last.number + 1;
        if number > next {
            missing.push(match number - next {
                1 => format!("the record {next} of the log is missing or broken"),
                _ => {
                    format!("the records {next} to {} of the log are missing or broken", number - 1)
                }
            });
        }
        let nth = same.iter().position(|(header, _)| header.follows(last));
        if nth.is_none() && number == next {
            missing
                .push(format!("the record {number} of the log does not follow the one before it"));
        }
        let (header, record) = same.swap_remove(nth.unwrap_or(0));
        records.push(record);
        last = header.link;
    }
    records
}

/// The files of a new log that has these records.
fn rewritten(log: LogId, records: &[Arc<[u8]>]) -> io::Result<LogFiles> {
    let files: LogFiles = [(); 2].map(|()| Arc::new(InMemoryBackend::new()) as LogFile);
    files.iter().try_for_each(|file| write_front(file, log))?;
    let (mut at, mut last) = (FIRST, Link::default());
    for old in records {
        let (record, link) = record::following(log, last, old);
        files[0].set_len(at + record.len() as u64)?;
        files[0].write(at, &record)?;
        (at, last) = (at + record.len() as u64, link);
    }
    Ok(files)
}

/// A log in memory.
struct InMemoryLog(LogFiles);

impl LogPlace for InMemoryLog {
    fn open(&self) -> io::Result<Option<LogFiles>> {
        Ok(Some(self.0.clone()))
    }
    fn create(&self) -> io::Result<LogFiles> {
        Err(io::ErrorKind::AlreadyExists.into())
    }
    fn sync(&self) -> io::Result<()> {
        Ok(())
    }
    fn name(&self) -> String {
        "of what was left of it".into()
    }
}

#[cfg(test)]
mod tests;
