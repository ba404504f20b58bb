//! Which logs are read, and which are refused.

use std::sync::{Arc, Mutex};

use redb::StorageBackend;

use super::*;
use crate::store::engine::{WriteBatch, WriteOp};

fn log() -> LogId {
    LogId::new([3; 16])
}

/// A file in memory.
#[derive(Clone, Debug, Default)]
struct InMemory(Arc<Mutex<Vec<u8>>>);

impl StorageBackend for InMemory {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let offset = offset as usize;
        out.copy_from_slice(&self.0.lock().unwrap()[offset..offset + out.len()]);
        Ok(())
    }
    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().unwrap().resize(len as usize, 0);
        Ok(())
    }
    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
        Ok(())
    }
}

/// A log that is written record by record.
struct Written {
    files: [InMemory; 2],
    live: usize,
    end: usize,
    last: Link,
}

impl Written {
    fn new() -> Self {
        let files: [InMemory; 2] = Default::default();
        for file in &files {
            file.set_len(FIRST).unwrap();
        }
        Written { files, live: 0, end: FIRST as usize, last: Link::default() }
    }

    /// Appends records of one change each; returns where they begin.
    fn append(&mut self, count: usize) -> Vec<usize> {
        let begins = (0..count).map(|_| {
            let mut writes = WriteBatch::default();
            let value = vec![7; 100 * (self.last.number as usize % 5)];
            writes.add("t", self.last.number.to_be_bytes().to_vec(), WriteOp::Put(value));
            let (record, link) = record::encode(log(), self.last, &writes).unwrap();
            let begin = self.end;
            self.end += record.len();
            let mut content = self.files[self.live].0.lock().unwrap();
            let len = content.len().max(self.end);
            content.resize(len, 0);
            content[begin..self.end].copy_from_slice(&record);
            self.last = link;
            begin
        });
        begins.collect()
    }

    /// Goes on in the other file; returns what a database has that has everything before.
    fn switch(&mut self) -> Position {
        self.live = 1 - self.live;
        self.end = FIRST as usize;
        self.position()
    }

    fn position(&self) -> Position {
        Position { log: log(), covered: self.last, next_file: self.live, is_closed: false }
    }

    fn flip(&self, file: usize, at: usize) {
        self.files[file].0.lock().unwrap()[at] ^= 1;
    }

    /// The numbers of the records of each run.
    fn read(&self, position: &Position) -> Result<Vec<Vec<u64>>, Damage> {
        let files: LogFiles = self.files.clone().map(|file| Arc::new(file) as LogFile);
        let runs = super::read(&files, position).unwrap()?;
        let numbers = |run: &Run| {
            let headers = run.records.iter().map(|record| record::header(log(), record).unwrap());
            headers.map(|header| header.link.number).collect()
        };
        Ok(runs.iter().map(numbers).collect())
    }
}

fn nothing() -> Position {
    Position { log: log(), covered: Link::default(), next_file: 0, is_closed: false }
}

#[test]
fn records_that_the_database_does_not_have_are_read_in_order() {
    let mut log = Written::new();
    assert_eq!(log.read(&nothing()), Ok(vec![]));
    log.append(3);
    assert_eq!(log.read(&nothing()), Ok(vec![vec![1, 2, 3]]));
    let has_three = log.switch();
    assert_eq!(log.read(&has_three), Ok(vec![]));
    log.append(2);
    assert_eq!(log.read(&nothing()), Ok(vec![vec![1, 2, 3], vec![4, 5]]));
    assert_eq!(log.read(&has_three), Ok(vec![vec![4, 5]]));
    // The first file is used again: what it had is no record of this round.
    log.switch();
    assert_eq!(log.read(&has_three), Ok(vec![vec![4, 5]]));
    log.append(1);
    assert_eq!(log.read(&has_three), Ok(vec![vec![4, 5], vec![6]]));
}

#[test]
fn a_torn_tail_counts_as_never_written() {
    let mut log = Written::new();
    let begins = log.append(4);
    let whole = log.files[0].0.lock().unwrap().clone();
    for len in begins[3]..whole.len() {
        *log.files[0].0.lock().unwrap() = whole[..len].to_vec();
        let padding = whole[len..].iter().all(|byte| *byte == 0);
        let want: &[u64] = if padding && len % ALIGNMENT == 0 { &[1, 2, 3, 4] } else { &[1, 2, 3] };
        assert_eq!(log.read(&nothing()), Ok(vec![want.to_vec()]), "{len}");
        // Where the rest is zeros, as in a file that was filled ahead.
        log.files[0].0.lock().unwrap().resize(whole.len() + 5000, 0);
        let want: &[u64] = if padding { &[1, 2, 3, 4] } else { &[1, 2, 3] };
        assert_eq!(log.read(&nothing()), Ok(vec![want.to_vec()]), "{len}");
    }
    // Nothing of the first record in the next file.
    *log.files[0].0.lock().unwrap() = whole;
    log.switch();
    let begins = log.append(1);
    log.flip(1, begins[0] + 3);
    assert_eq!(log.read(&nothing()), Ok(vec![vec![1, 2, 3, 4]]));
}

#[test]
fn a_record_that_is_broken_while_later_ones_are_valid_is_damage() {
    let mut log = Written::new();
    let begins = log.append(5);
    let has_five = log.switch();
    log.append(2);
    for (number, begin) in begins.iter().enumerate() {
        for at in [0, 5, 9, 20, 30, 40] {
            log.flip(0, begin + at);
            assert_eq!(log.read(&nothing()), Err(Damage::Missing(number as u64)), "{number} {at}");
            // What the database has is not needed.
            assert_eq!(log.read(&has_five), Ok(vec![vec![6, 7]]));
            log.flip(0, begin + at);
        }
    }
    // All of the first file.
    log.files[0].0.lock().unwrap().truncate(FIRST as usize);
    assert_eq!(log.read(&nothing()), Err(Damage::Missing(0)));
}

#[test]
fn a_log_older_than_its_database_is_refused() {
    let mut log = Written::new();
    log.append(3);
    log.switch();
    log.append(2);
    let has_five = log.switch();
    assert_eq!(log.read(&has_five), Ok(vec![]));
    let old = Written::new();
    assert_eq!(old.read(&has_five), Err(Damage::TooOld(5)));
    assert!(Damage::TooOld(5).error("x").message().contains("record 5"));
    // A torn first record over the one before the last.
    log.append(1);
    log.flip(0, FIRST as usize);
    assert_eq!(log.read(&has_five), Ok(vec![]));
}

#[test]
fn records_of_another_log_are_none() {
    let mut log = Written::new();
    log.append(3);
    let other = Position { log: LogId::new([4; 16]), ..nothing() };
    assert_eq!(log.read(&other), Ok(vec![]));
}
