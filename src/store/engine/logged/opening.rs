//! Opening the log of a database: reading what the database does not have, or creating a log for a
//! database that does not need one that was there.

use std::io;
use std::sync::{Arc, Mutex};

use redb::Database;

use super::checkpoint::Frozen;
use super::files::{LogFiles, LogPlace, read_front, write_front};
use super::log::{Filling, Log};
use super::part::Part;
use super::position::Position;
use super::record::{Link, LogId};
use super::replay::{self, Run};
use super::settings::LogSettings;
use super::tables::TableNumbers;
use crate::base::{Error, Kind, Result};
use crate::store::Clock;

/// A log that was opened.
pub struct Opened {
    /// The part that is being written.
    pub live: Part,
    /// The part before it, if the database does not have it.
    pub frozen: Option<Frozen>,
    /// The end of the log.
    pub log: Log,
    /// What the database has of it.
    pub position: Position,
}

/// What is at the place of a log.
enum Found {
    Nothing,
    /// Files without a valid front.
    Incomplete,
    Log(LogId, LogFiles),
}

impl Opened {
    /// Opens the log at `place` of a database. Tables of the log that have no number get one.
    ///
    /// # Errors
    /// If the log is missing although it is needed, damaged, or another one's.
    pub fn load(
        database: &Database,
        place: &dyn LogPlace,
        settings: &LogSettings,
        tables: &mut Arc<TableNumbers>,
    ) -> Result<Self> {
        let (position, files) = find_or_create(database, place)?;
        let unreadable = |error| unreadable(place, &error);
        let runs = if position.is_closed {
            if has_records(position.log, &files, position.covered).map_err(unreadable)? {
                return Err(unusable(
                    place,
                    "is newer than the database beside it; put back the database that belongs to \
                     it, or move the log away to go on without what is in it",
                ));
            }
            Vec::new()
        } else {
            let runs = replay::read(&files, &position).map_err(unreadable)?;
            runs.map_err(|damage| damage.error(&place.name()))?
        };
        let is_filled = settings.ahead_bytes > 0;
        let again = if is_filled { place.open().map_err(unreadable)? } else { None };
        let filling = again.map(|files| Filling { files, ahead: settings.ahead_bytes });
        let log = Log::new(files, &position, runs.last(), filling);
        let log = log.map_err(unreadable)?;
        let mut parts = parts_of(runs, &position, tables)?;
        let live = parts.pop().map_or_else(Part::default, |last| last.part);
        Ok(Opened { live, frozen: parts.pop(), log, position })
    }
}

/// Makes parts of runs, at the same time: sorting them is most of the time of a start.
fn parts_of(
    runs: Vec<Run>,
    position: &Position,
    tables: &mut Arc<TableNumbers>,
) -> Result<Vec<Frozen>> {
    let tables = Mutex::new(tables);
    let part_of = &|run: Run| {
        let after = Position { covered: run.last, next_file: 1 - run.file, ..*position };
        let number = |name: &str| {
            let mut tables = tables.lock().expect("no thread panics while holding it");
            TableNumbers::shared(&mut tables, name)
        };
        Ok(Frozen { part: Part::of(run.records, number)?, position: after })
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            runs.into_iter().map(|run| scope.spawn(move || part_of(run))).collect();
        let panicked = |_| Err(Error::internal("reading the log panicked"));
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(panicked)).collect()
    })
}

fn unusable(place: &dyn LogPlace, what: &str) -> Error {
    Error::new(Kind::Internal, "database", format!("the log {} {what}", place.name()))
}

fn unreadable(place: &dyn LogPlace, error: &io::Error) -> Error {
    unusable(place, &format!("cannot be opened: {error}"))
}

/// Returns the log of a database. A log that does not belong to it is replaced, if it has no records
/// and the database needs none.
fn find_or_create(database: &Database, place: &dyn LogPlace) -> Result<(Position, LogFiles)> {
    let unreadable = |error| unreadable(place, &error);
    let stored = Position::read(database)?;
    let is_needed = stored.is_some_and(|stored| !stored.is_closed);
    let why = match (find(place).map_err(unreadable)?, stored) {
        (Found::Log(log, files), Some(stored)) if log.id == stored.log.id => {
            let stored = Position { log, ..stored };
            let is_over = stored.is_closed && log.is_of_first_format();
            if is_over && !has_records(log, &files, stored.covered).map_err(unreadable)? {
                return create(database, place);
            }
            return Ok((stored, files));
        }
        (Found::Log(..), _) if is_needed => {
            "is not the one of the database beside it; put back the one that belongs to it, see \
             what roadstead repair can read, or restore a backup"
        }
        (Found::Incomplete, _) if is_needed => {
            "is damaged; see what roadstead repair can read, or restore a backup"
        }
        (Found::Nothing, _) if is_needed => {
            "is missing, and has writes that the database beside it has not: both belong together; \
             put it back, see what roadstead repair can read, or restore a backup"
        }
        (Found::Log(log, files), _)
            if has_records(log, &files, Link::default()).map_err(unreadable)? =>
        {
            "is another database's; move it away, or put back the database that it belongs to"
        }
        _ => return create(database, place),
    };
    Err(unusable(place, why))
}

fn find(place: &dyn LogPlace) -> io::Result<Found> {
    let Some(files) = place.open()? else { return Ok(Found::Nothing) };
    Ok(match (read_front(&files[0])?, read_front(&files[1])?) {
        (Some(log), Some(other)) if log == other => Found::Log(log, files),
        _ => Found::Incomplete,
    })
}

fn has_records(log: LogId, files: &LogFiles, covered: Link) -> io::Result<bool> {
    Ok(replay::has_newer(log, &files[0], covered)? || replay::has_newer(log, &files[1], covered)?)
}

/// Creates an empty log. The database knows of it once it is complete.
fn create(database: &Database, place: &dyn LogPlace) -> Result<(Position, LogFiles)> {
    let log = LogId::new(Clock::system().random());
    let write = || {
        let files = place.create()?;
        write_front(&files[0], log)?;
        write_front(&files[1], log)?;
        place.sync()?;
        Ok(files)
    };
    let files = write()
        .map_err(|error: io::Error| unusable(place, &format!("cannot be created: {error}")))?;
    let position = Position { log, covered: Link::default(), next_file: 0, is_closed: true };
    position.store(database)?;
    Ok((position, files))
}
