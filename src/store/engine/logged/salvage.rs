//! What a repair reads of a log that cannot be used as it is: each record that is whole, wherever it
//! is, and which of them are missing.
//!
//! The records become a log of their own, in memory, which is opened like every other: only here is
//! anything gone on with although records are missing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::ops::Bound;
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

/// Valid records with what their headers say.
type Records = Vec<(Header, Arc<[u8]>)>;

/// What was found in the files of a damaged log.
#[derive(Default)]
struct Found {
    /// The valid records that the database does not have by their number; different ones of a number if
    /// the files are of two histories.
    records: BTreeMap<u64, Records>,
    /// All valid records, by number and checksum.
    seen: BTreeSet<(u64, u64)>,
    /// One that is there twice.
    twice: Option<u64>,
    /// Whether the last record is there that the database has: then nothing is missing before the next.
    has_covered: bool,
    /// The numbers of what begins like a record that the database does not have, and is none.
    broken: BTreeSet<u64>,
}

/// Makes a log of what is left of that of `database`, which then belongs to the database. `None` stands
/// for a file that is not there.
///
/// The changes after a gap are made, too: each was acknowledged. What the missing ones deleted or
/// revoked is there again, and a row that only they wrote is not. Nothing shows there whether they are
/// those of a copy of the database, whose log has the same id.
///
/// # Errors
/// If the database cannot be read or written.
pub fn salvage(database: &Database, files: [Option<LogFile>; 2]) -> Result<Salvaged> {
    let failed = |error| Error::internal(format!("a log in memory: {error}"));
    let fronts = files.each_ref().map(|file| read_front(file.as_ref()?).ok().flatten());
    let mut missing = Vec::new();
    let records = match (Position::read(database), fronts) {
        (Ok(Some(position)), _) => {
            let mut found = Found::of(&files, fronts, position.log, position.covered, &mut missing);
            found.has_covered |= position.covered.number == 0;
            if position.is_closed && found.records.is_empty() {
                missing.clear(); // The database needs no log.
            } else if found.records.is_empty() && !found.has_covered {
                let last = position.covered.number;
                missing.push(format!("nothing of the log after its record {last} can be read"));
            }
            in_order(position.covered, found, &mut missing)
        }
        (Ok(None), _) => {
            missing.push("the database does not know this log: nothing of it was read".into());
            Vec::new()
        }
        // Those that follow each other up to the newest are written again, also if the database has them:
        // the end is the same. So nothing may be missing there.
        (Err(_), [Some(log), Some(other)]) if log == other => {
            let mut found = Found::of(&files, fronts, log, Link::default(), &mut missing);
            let read = found.is_whole_to_its_end(&missing).map(|()| found.keep_newest());
            let before = match read {
                Ok(before) => {
                    missing.push(format!(
                        "the database does not say up to where it has the log: its records from {} on \
                         were read; what others that it lacks have changed may be as before",
                        before.number + 1
                    ));
                    before
                }
                Err(why) => {
                    missing.push(format!(
                        "the database does not say up to where it has the log, {why}: nothing of it was \
                         read"
                    ));
                    found = Found::default();
                    Link::default()
                }
            };
            in_order(before, found, &mut missing)
        }
        (Err(_), _) => {
            missing.push(
                "the database does not say which log it has: nothing of the log was read".into(),
            );
            Vec::new()
        }
    };
    let log = LogId::new(Clock::system().random());
    let files = rewritten(log, &records).map_err(failed)?;
    let covered = Link::default();
    Position { log, covered, next_file: 0, is_closed: false }.store(database)?;
    Ok(Salvaged { place: Box::new(InMemoryLog(files)), missing })
}

impl Found {
    /// Reads the files of a log, of which the database has `covered`.
    fn of(
        files: &[Option<LogFile>; 2],
        fronts: [Option<LogId>; 2],
        log: LogId,
        covered: Link,
        missing: &mut Vec<String>,
    ) -> Self {
        let mut found = Found::default();
        // The database does not know of which format its log is. If no front says it, it may be either.
        let same = fronts.into_iter().flatten().find(|front| front.id == log.id);
        let logs = same.map_or_else(|| vec![log, LogId::of_first_format(log.id)], |log| vec![log]);
        for (file, front) in files.iter().zip(fronts) {
            let Some(file) = file else {
                missing.push("a file of the log is not there".into());
                continue;
            };
            if front.is_some_and(|front| front.id != log.id) {
                missing
                    .push("a file of the log is another database's: nothing of it was read".into());
                continue;
            }
            let (content, lost) = readable(file);
            if lost > 0 {
                missing.push(format!("{lost} bytes of the log cannot be read"));
            }
            let (mut at, mut has_first) = (0, false);
            while at < content.len() {
                let len = found.add(&logs, &content[at..], covered);
                has_first |= at as u64 == FIRST && len.is_some();
                at += len.unwrap_or(ALIGNMENT);
            }
            if front.is_none() && lost == 0 && !has_first && !is_unused(&content) {
                missing.push(
                    "a file of the log has no beginning that can be read, as if it was emptied or \
                     overwritten"
                        .into(),
                );
            }
        }
        if let Some(number) = found.twice {
            missing.push(format!(
                "the log has its record {number} twice, as if one file was overwritten by the other"
            ));
        }
        let of_two = found.records.iter().filter(|(_, same)| same.len() > 1);
        let mut of_two = of_two.map(|(number, _)| number);
        if let Some(first) = of_two.next() {
            let last = of_two.next_back().map(|last| format!(" to {last}")).unwrap_or_default();
            missing.push(format!(
                "the log has different records {first}{last}: some are a copy's of the database, or \
                 were never acknowledged"
            ));
        }
        found
    }

    /// Adds the record that begins here, if there is one; returns its length.
    fn add(&mut self, logs: &[LogId], rest: &[u8], covered: Link) -> Option<usize> {
        let Some(header) = logs.iter().find_map(|log| record::header(*log, rest)) else {
            let claimed = logs.iter().find_map(|log| record::claimed_number(*log, rest));
            self.broken.extend(claimed.filter(|number| *number > covered.number));
            return None;
        };
        self.has_covered |= header.link == covered;
        if !self.seen.insert((header.link.number, header.link.checksum)) {
            self.twice = Some(header.link.number);
        } else if header.link.number > covered.number {
            let same = self.records.entry(header.link.number).or_default();
            same.push((header, rest[..header.len].into()));
        }
        Some(header.len)
    }

    /// Whether the newest record is the newest that there was and nothing is missing before it but a
    /// whole beginning, as far as can be known; else why not.
    fn is_whole_to_its_end(&self, missing: &[String]) -> Result<(), &'static str> {
        if !missing.is_empty() {
            return Err("whose files have other faults");
        }
        let Some(last) = self.records.keys().next_back() else {
            return Err(match self.broken.is_empty() {
                true => "in which no record was found",
                false => "of whose records none is whole",
            });
        };
        let mut pairs = self.records.iter().zip(self.records.iter().skip(1));
        let follows = |((number, before), (next, after)): ((&u64, &Records), (&u64, &Records))| {
            *next != number + 1 || after[0].0.follows(before[0].0.link)
        };
        if self.broken.last() > Some(last) {
            Err("whose newest records are missing or broken")
        } else if !pairs.all(follows) {
            Err("whose records do not follow each other, as if some were a copy's")
        } else {
            Ok(())
        }
    }

    /// Leaves only the newest records without a gap; returns the place before the first of them.
    fn keep_newest(&mut self) -> Link {
        let (mut before, mut kept) = (Link::default(), BTreeMap::new());
        for (number, same) in std::mem::take(&mut self.records).into_iter().rev() {
            if !kept.is_empty() && number != before.number {
                break;
            }
            before = Link { number: number - 1, checksum: same[0].0.previous };
            kept.insert(number, same);
        }
        self.records = kept;
        before
    }

    /// Takes the records that go on from `covered`, each of which follows the one before or is the first
    /// behind a gap: of such ways the longest. It ends before a gap in which more was found.
    fn take_most(&mut self, covered: Link) -> Records {
        let mut ways = Ways::default();
        for (number, same) in self.records.iter().rev() {
            for (nth, (header, _)) in same.iter().enumerate() {
                let rest = ways.after(header.link);
                let way = Way {
                    len: rest.map_or(0, |way| way.len) + 1,
                    first: Reverse(*number),
                    cuts: rest.map_or(Reverse(0), |way| way.cuts),
                    nth: Reverse(nth),
                };
                let before = (number - 1, header.previous);
                ways.add(before, way, !self.seen.contains(&before));
            }
        }
        let (mut taken, mut last) = (Records::new(), covered);
        loop {
            // What was found in a gap is whole, too: if it is more, what is behind the gap is its.
            let found = |end| self.records.range(last.number + 1..end).count() as u64;
            let is_more = |way: &Way| way.len > found(way.first.0);
            let Some(way) = ways.after(last).filter(is_more) else { break };
            let (Reverse(number), Reverse(nth)) = (way.first, way.nth);
            let same = self.records.remove(&number).unwrap_or_default();
            let Some(record) = same.into_iter().nth(nth) else { break };
            last = record.0.link;
            taken.push(record);
        }
        taken
    }
}

/// A way to go on. The greater one is longer, or begins first, or has fewer cuts, or is in the first file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Way {
    /// How many records it has.
    len: u64,
    /// The number of its first record.
    first: Reverse<u64>,
    /// How often it leaves out a record that follows, for others behind a gap.
    cuts: Reverse<u64>,
    /// Which record of its first number it begins with.
    nth: Reverse<usize>,
}

/// The greatest ways to go on.
#[derive(Default)]
struct Ways {
    /// By the number and checksum of the record that they follow.
    following: BTreeMap<(u64, u64), Way>,
    /// Of those whose first record follows none that was found: the greatest that begins at this number
    /// or above.
    behind_gaps: BTreeMap<u64, Way>,
}

impl Ways {
    /// Adds a way that follows this record, or what was in its place. Those that begin later were added
    /// before.
    fn add(&mut self, before: (u64, u64), way: Way, is_behind_gap: bool) {
        let greatest = self.following.get(&before).map_or(way, |other| way.max(*other));
        self.following.insert(before, greatest);
        if is_behind_gap {
            let greatest = self.behind_gaps.values().next().map_or(way, |other| way.max(*other));
            self.behind_gaps.insert(way.first.0, greatest);
        }
    }

    /// The greatest way behind a record: without a gap, if none behind a gap is longer.
    fn after(&self, link: Link) -> Option<Way> {
        let behind_gap = self.behind_gaps.range(link.number.saturating_add(2)..).next();
        let behind_gap = behind_gap.map(|(_, way)| *way);
        let following = self.following.get(&(link.number, link.checksum)).copied();
        match (following, behind_gap) {
            (Some(following), Some(way)) if way.len > following.len => {
                Some(Way { cuts: Reverse(way.cuts.0 + 1), ..way })
            }
            _ => following.or(behind_gap),
        }
    }
}

/// Whether a file without a valid front had no records yet: the front is damaged alone.
fn is_unused(content: &[u8]) -> bool {
    let first = usize::try_from(FIRST).unwrap_or(usize::MAX);
    content.split_at_checked(first).is_some_and(|(front, records)| {
        front.iter().any(|byte| *byte != 0) && records.iter().all(|byte| *byte == 0)
    })
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

/// The records that go on from `covered`, in their order. What belongs to no way or a shorter one is a
/// copy's of the database, or was never acknowledged.
fn in_order(covered: Link, mut found: Found, missing: &mut Vec<String>) -> Vec<Arc<[u8]>> {
    let (mut records, mut last) = (Vec::new(), covered);
    for (header, record) in found.take_most(covered) {
        let (number, next) = (header.link.number, last.number + 1);
        if number > next {
            missing.push(match number - next {
                1 => format!("the record {next} of the log is missing or broken"),
                _ => {
                    format!("the records {next} to {} of the log are missing or broken", number - 1)
                }
            });
        }
        let mut others = found.records.range(next..number).map(|(other, _)| other);
        if let Some(first) = others.next() {
            let what = match others.next_back() {
                None => format!("the record {first} that the log has was"),
                Some(last) => format!("the records from {first} to {last} that the log has were"),
            };
            missing.push(format!("{what} left out, as of a copy, or never acknowledged"));
        }
        if found.broken.contains(&number) {
            missing.push(format!(
                "beside its record {number} the log has a broken one of this number: one of them is a \
                 copy's, or was never acknowledged"
            ));
        }
        records.push(record);
        last = header.link;
    }
    let behind = found.records.range((Bound::Excluded(last.number), Bound::Unbounded)).next();
    if let Some((number, _)) = behind {
        missing.push(format!(
            "the record {number} of the log does not follow record {}, the last that was read, as in the \
             log of a copy: it and those after it were left out",
            last.number
        ));
    } else if found.broken.last() > Some(&last.number) {
        missing.push(format!(
            "what the log has after its record {} is broken, or was never written completely",
            last.number
        ));
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
