//! Logs that were written and then damaged, and files of any bytes.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use super::super::files::{FIRST, LogFile};
use super::super::position::Position;
use super::super::record::{self, ALIGNMENT, Link, LogId};
use super::super::replay::{Damage, Run, read};
use super::{Script, TABLES, row, write_op};
use crate::store::engine::WriteBatch;

const FRONT: usize = 4096;

/// The numbers of valid records by where they are: file and byte.
type Places = BTreeMap<(usize, usize), u64>;

/// A file that cannot be written.
#[derive(Debug)]
struct Content(Vec<u8>);

impl StorageBackend for Content {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let from = usize::try_from(offset).map_err(io::Error::other)?;
        let read = self.0.get(from..from + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(read);
        Ok(())
    }
    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, _: u64, _: &[u8]) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }
}

fn log() -> LogId {
    LogId::new([3; 16])
}

/// A log as it was written, record by record; the first has number 1.
struct Written {
    files: [Vec<u8>; 2],
    records: Vec<Arc<[u8]>>,
    /// What a database has at the begin, and after each time that the files took turns.
    positions: Vec<Position>,
}

/// Of a log, damaged or not, exactly the records are read that follow what the database has; if others
/// are left behind them, the damage is named.
///
/// # Panics
/// If that is not so.
pub fn replay(input: &[u8]) {
    let mut script = Script::new(input);
    if script.byte() == 0 {
        return of_any_bytes(&mut script);
    }
    let mut written = Written::by(&mut script);
    let age = usize::from(script.byte());
    let position = written.positions[written.positions.len() - 1 - age % written.positions.len()];
    let damages = script.byte() % 4;
    for _ in 0..damages {
        damage(&mut written.files, &mut script);
    }
    let found = read_files(written.files.clone(), &position);
    written.assert_read(&position, &found);
    // What the database had two turns ago is overwritten.
    if damages == 0 && age % written.positions.len() < 2 {
        let runs = found.expect("it is not damaged");
        let read = runs.last().map_or(position.covered.number, |run| run.last.number);
        assert_eq!(read, written.records.len() as u64, "all records are read");
    }
}

/// Files of any bytes have no record of this log, whose id they do not know.
fn of_any_bytes(script: &mut Script<'_>) {
    let (len, front) = (script.below(FRONT), script.below(FRONT + 1));
    let number = u64::from(script.byte() % 2);
    let mut file = |len| [&vec![0; front], script.bytes(len)].concat();
    let files = [file(len), file(usize::MAX)];
    let covered = Link { number, checksum: number };
    let position = Position { log: log(), covered, next_file: 0, is_closed: false };
    match read_files(files, &position) {
        Ok(runs) => assert!(number == 0 && runs.is_empty()),
        Err(damage) => assert!(number == 1 && damage == Damage::TooOld(1)),
    }
}

fn read_files(files: [Vec<u8>; 2], position: &Position) -> Result<Vec<Run>, Damage> {
    let files = files.map(|content| Arc::new(Content(content)) as LogFile);
    read(&files, position).expect("files in memory can be read")
}

impl Written {
    fn by(script: &mut Script<'_>) -> Self {
        let at = |covered, next_file| Position { log: log(), covered, next_file, is_closed: false };
        let mut written = Written {
            files: [vec![0; FRONT], vec![0; FRONT]],
            records: Vec::new(),
            positions: vec![at(Link::default(), 0)],
        };
        let (mut file, mut end, mut last) = (0, FRONT, Link::default());
        for _ in 0..script.byte() % 32 {
            let changes = script.byte() % 8;
            if changes == 0 {
                // The files take turns once there are records.
                if end > FRONT {
                    (file, end) = (1 - file, FRONT);
                    written.positions.push(at(last, file));
                }
                continue;
            }
            let mut writes = WriteBatch::default();
            for _ in 0..changes {
                let (table, key, value) = row(script);
                writes.add(TABLES[usize::from(table)], key, write_op(value));
            }
            let record = record::encode(log(), last, &writes);
            let (record, link) = record.expect("a short batch has a record");
            let content = &mut written.files[file];
            content.resize(content.len().max(end + record.len()), 0);
            content[end..end + record.len()].copy_from_slice(&record);
            (end, last) = (end + record.len(), link);
            written.records.push(record);
        }
        written
    }

    /// Where the written records are, bytes compared with bytes.
    fn places(&self) -> Places {
        let mut places = Places::new();
        for (file, content) in self.files.iter().enumerate() {
            for at in (FRONT..content.len()).step_by(ALIGNMENT) {
                let is_here = |record: &&Arc<[u8]>| {
                    let payload = record[4..8].try_into().map_or(0, u32::from_le_bytes) as usize;
                    content.len() - at >= record.len()
                        && content[at..].starts_with(&record[..32 + payload])
                };
                if let Some(nth) = self.records.iter().position(|record| is_here(&record)) {
                    places.insert((file, at), nth as u64 + 1);
                }
            }
        }
        places
    }

    fn assert_read(&self, position: &Position, found: &Result<Vec<Run>, Damage>) {
        let places = self.places();
        let covered = position.covered.number;
        let mut left: Places = places.clone();
        left.retain(|_, number| *number > covered);
        let mut runs: Vec<(usize, Vec<u64>)> = Vec::new();
        let mut last = covered;
        for (nth, file) in [position.next_file, 1 - position.next_file].into_iter().enumerate() {
            let (mut at, mut numbers) = (FRONT, Vec::new());
            while runs.len() == nth && places.get(&(file, at)) == Some(&(last + 1)) {
                left.remove(&(file, at));
                at += self.records[usize::try_from(last).unwrap_or(usize::MAX)].len();
                last += 1;
                numbers.push(last);
            }
            if !numbers.is_empty() {
                runs.push((file, numbers));
            }
        }
        let has_covered = covered == 0 || places.values().any(|number| *number == covered);
        match found {
            Err(Damage::Missing(number)) => assert!(!left.is_empty() && *number >= covered),
            Err(Damage::TooOld(number)) => {
                assert!(left.is_empty() && runs.is_empty() && !has_covered && *number == covered);
            }
            Ok(found) => {
                assert!(left.is_empty() && (has_covered || !runs.is_empty()), "nothing is left");
                assert_eq!(found.iter().map(|run| self.numbers(run)).collect::<Vec<_>>(), runs);
            }
        }
    }

    /// The file of a run, and the numbers of its records.
    fn numbers(&self, run: &Run) -> (usize, Vec<u64>) {
        let bytes: usize = run.records.iter().map(|record| record.len()).sum();
        assert_eq!(run.end, FIRST + bytes as u64);
        let number_of = |record: &Arc<[u8]>| {
            let header = record::header(log(), record).expect("a valid record was read");
            let number = header.link.number;
            let payload = record[4..8].try_into().map_or(0, u32::from_le_bytes) as usize;
            let written = &self.records[usize::try_from(number - 1).unwrap_or(usize::MAX)];
            assert_eq!(record[..32 + payload], written[..32 + payload]);
            number
        };
        let numbers: Vec<u64> = run.records.iter().map(number_of).collect();
        assert_eq!(Some(&run.last.number), numbers.last());
        (run.file, numbers)
    }
}

fn damage(files: &mut [Vec<u8>; 2], script: &mut Script<'_>) {
    let kind = script.byte();
    let file = usize::from(kind >> 7);
    let at = FRONT + script.below(files[file].len().saturating_sub(FRONT));
    let len = usize::from(script.byte()) * 4;
    match kind % 5 {
        0 => {
            if let Some(byte) = files[file].get_mut(at) {
                *byte ^= 1 << (len % 8);
            }
        }
        1 => files[file].truncate(at),
        2 => files[file].iter_mut().skip(at).take(len).for_each(|byte| *byte = 0),
        3 => {
            // Records in another place, or old ones in the place of newer ones.
            let from = at - at % ALIGNMENT;
            let copied: Vec<u8> = files[file].iter().skip(from).take(len).copied().collect();
            let to = usize::from(script.byte() % 2);
            let at = script.below(files[to].len().saturating_sub(FRONT));
            let at = FRONT + at - at % ALIGNMENT;
            let end = files[to].len().max(at + copied.len());
            files[to].resize(end, 0);
            files[to][at..at + copied.len()].copy_from_slice(&copied);
        }
        _ => files[file].extend_from_slice(script.bytes(len)),
    }
}
