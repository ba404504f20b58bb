//! Long histories of the storage that a server uses, beside a sorted map: many tables, keys of every
//! shape in every order, checkpoints and reopenings anywhere.
//!
//! `ROADSTEAD_TEST_HISTORIES` sets how many are tried (120 by default: half a minute of one core in a
//! debug build). What fails names its seed; `ROADSTEAD_TEST_SEED` runs that one alone.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::ops::{Bound, ControlFlow};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use roadstead::store::engine::{
    CommitOutcome, KeyRange, LocalStorage as _, LogBeside, LogSettings, LoggedRedb, Order, Reader,
    Redb, WriteBatch, WriteOp,
};

use crate::random::{Random, number_from};

const TABLES: usize = 40;
const ORGANIZATIONS: u64 = 12;

/// The rows that there should be, by table.
type Model = Vec<BTreeMap<Vec<u8>, Vec<u8>>>;

fn table_names() -> Vec<&'static str> {
    // As many for each history: a leaked name of a test is the price of a static one.
    static NAMES: std::sync::OnceLock<Vec<&'static str>> = std::sync::OnceLock::new();
    let name =
        |number| -> &'static str { Box::leak(format!("table-{number:02}").into_boxed_str()) };
    NAMES.get_or_init(|| (0..TABLES).map(name).collect()).clone()
}

/// In which order new keys of a history come.
#[derive(Clone, Copy, Debug)]
enum Direction {
    Growing,
    Falling,
    Scattered,
}

/// How large the parts of the log are: from a few commits to more than the history has.
fn settings(random: &mut Random) -> LogSettings {
    let middle = LogSettings {
        part_bytes: 256 * 1024,
        checkpoint_bytes: 128 * 1024,
        step_bytes: 16 * 1024,
        gentle_step_bytes: 4 * 1024,
        retry_interval: Duration::ZERO,
        ..LogSettings::default()
    };
    let sizes = [LogSettings::SMALL, middle, middle, LogSettings::default()];
    LogSettings { is_stepwise: random.one_in(4), ..sizes[random.below(sizes.len())] }
}

struct History {
    random: Random,
    direction: Direction,
    settings: LogSettings,
    dir: tempfile::TempDir,
    storage: Option<LoggedRedb>,
    reader: Arc<dyn Reader>,
    model: Model,
    /// The keys of each table, to choose from.
    keys: Vec<Vec<Vec<u8>>>,
    /// An earlier snapshot, with what it should have.
    earlier: Option<(Arc<dyn Reader>, Model)>,
    added: u64,
}

fn open(dir: &Path, settings: LogSettings, is_new: bool) -> LoggedRedb {
    let path = dir.join("store.redb");
    let redb = if is_new {
        Redb::create(&path, table_names()).unwrap()
    } else {
        Redb::open(&path, table_names()).unwrap()
    };
    LoggedRedb::over(redb, Box::new(LogBeside::database(&path)), settings).unwrap()
}

/// In memory, where that is possible: what a disk does is tested elsewhere.
fn new_dir() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

impl History {
    fn new(seed: u64) -> Self {
        let mut random = Random(seed);
        let directions = [Direction::Growing, Direction::Falling, Direction::Scattered];
        let direction = directions[random.below(3)];
        let (settings, dir) = (settings(&mut random), new_dir());
        let mut storage = open(dir.path(), settings, true);
        let reader = storage.snapshot().unwrap();
        History {
            random,
            direction,
            settings,
            dir,
            storage: Some(storage),
            reader,
            model: vec![BTreeMap::new(); TABLES],
            keys: vec![Vec::new(); TABLES],
            earlier: None,
            added: 0,
        }
    }

    fn storage(&mut self) -> &mut LoggedRedb {
        self.storage.as_mut().unwrap()
    }

    /// The next key in the direction of the history.
    fn number(&mut self) -> u64 {
        self.added += 1;
        match self.direction {
            Direction::Growing => self.added,
            Direction::Falling => u64::MAX - self.added,
            Direction::Scattered => self.random.next(),
        }
    }

    /// A new key, in the shape of its table: of records, of indexes by text or time, of hashes, or of
    /// counters, of which there are few.
    fn new_key(&mut self, table: usize) -> Vec<u8> {
        let organization = (self.random.below(ORGANIZATIONS as usize) as u64 + 1)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let org = [organization.to_be_bytes(), (!organization).to_be_bytes()].concat();
        let number = self.number().to_be_bytes();
        match table % 5 {
            0 => [org, number.to_vec(), self.random.next().to_be_bytes().to_vec()].concat(),
            1 => {
                let len = self.random.below(40);
                let text = &b"name-of-something-that-is-rather-long-here"[..len];
                [org, text.to_vec(), number[6..].to_vec(), vec![0]].concat()
            }
            2 => (0..4).flat_map(|_| self.random.next().to_be_bytes()).collect(),
            3 => [org, number.map(|byte| !byte).to_vec()].concat(),
            _ => [org, vec![self.random.below(3) as u8]].concat(),
        }
    }

    fn value(&mut self) -> Vec<u8> {
        let longest = if self.random.one_in(200) { 5_000 } else { 120 };
        let len = self.random.below(longest);
        let mut value = self.random.next().to_be_bytes().to_vec();
        value.resize(8 + len, b'x');
        value
    }

    /// Commits a batch as a transaction makes it: each key once, an insertion only of a new key.
    fn commit(&mut self) {
        let mut writes = WriteBatch::default();
        let names = table_names();
        for _ in 0..1 + self.random.below(40) {
            let table = self.random.below(TABLES);
            let is_new = self.keys[table].is_empty() || self.random.below(10) < 6;
            let key = if is_new {
                self.new_key(table)
            } else {
                let at = self.random.below(self.keys[table].len());
                self.keys[table][at].clone()
            };
            if writes.tables.get(names[table]).is_some_and(|keys| keys.contains_key(&key)) {
                continue;
            }
            let exists = self.model[table].contains_key(&key);
            let op = if exists && self.random.one_in(2) {
                self.model[table].remove(&key);
                self.keys[table].retain(|other| *other != key);
                WriteOp::Delete
            } else {
                let value = self.value();
                self.model[table].insert(key.clone(), value.clone());
                if exists {
                    WriteOp::Put(value)
                } else {
                    self.keys[table].push(key.clone());
                    WriteOp::Insert(value)
                }
            };
            writes.add(names[table], key, op);
        }
        match self.storage().commit(&writes) {
            CommitOutcome::Done(reader) => self.reader = reader,
            CommitOutcome::Refused(error) | CommitOutcome::Unknown(error) => panic!("{error:?}"),
        }
    }

    /// Reopens the storage in place, closes and opens it, or opens what a crash would have left.
    fn reopen(&mut self) {
        match self.random.below(3) {
            0 => self.reader = self.storage().reopen().unwrap(),
            1 => {
                self.storage = None;
                self.open();
            }
            _ => {
                let crashed = new_dir();
                for (name, content) in self.files_at_once() {
                    std::fs::write(crashed.path().join(name), content).unwrap();
                }
                self.storage = None;
                self.dir = crashed;
                self.open();
            }
        }
        self.earlier = None;
    }

    /// The files as they were at one moment, which a checkpoint may write to: read twice alike. What is
    /// read while they change no crash would leave.
    fn files_at_once(&self) -> BTreeMap<OsString, Vec<u8>> {
        let read = || {
            let files = std::fs::read_dir(self.dir.path()).unwrap().map(Result::unwrap);
            files.map(|file| (file.file_name(), std::fs::read(file.path()).unwrap())).collect()
        };
        let mut before: BTreeMap<_, _> = read();
        loop {
            let now = read();
            if now == before {
                return now;
            }
            before = now;
        }
    }

    fn open(&mut self) {
        let mut storage = open(self.dir.path(), self.settings, false);
        self.reader = storage.snapshot().unwrap();
        self.storage = Some(storage);
    }

    fn run(&mut self, batches: usize) {
        let reopenings = 1 + batches / 4;
        for batch in 0..batches {
            self.commit();
            if self.random.one_in(8) {
                self.storage().idle();
            }
            if self.random.one_in(16) {
                self.compare_some();
            }
            if self.random.one_in(64) {
                self.earlier = Some((self.reader.clone(), self.model.clone()));
            }
            if self.random.one_in(reopenings) && batch > 0 {
                self.reopen();
                self.compare_some();
            }
        }
        self.compare_all();
        self.storage = None;
        self.open();
        self.compare_all();
    }

    /// Compares keys and ranges of some tables.
    fn compare_some(&mut self) {
        for _ in 0..4 {
            let table = self.random.below(TABLES);
            let from = self.some_key(table);
            let to = self.random.one_in(2).then(|| self.some_key(table));
            compare(&*self.reader, &self.model, table, &from, to.as_deref(), 50);
            if let Some((reader, model)) = &self.earlier {
                compare(&**reader, model, table, &from, to.as_deref(), 50);
            }
            for key in [from, self.new_key(table)] {
                let want = self.model[table].get(&key);
                assert_eq!(get(&*self.reader, table, &key).as_ref(), want);
            }
        }
    }

    fn some_key(&mut self, table: usize) -> Vec<u8> {
        if self.keys[table].is_empty() || self.random.one_in(3) {
            return self.new_key(table);
        }
        let at = self.random.below(self.keys[table].len());
        self.keys[table][at].clone()
    }

    fn compare_all(&self) {
        for (table, rows) in self.model.iter().enumerate() {
            compare(&*self.reader, &self.model, table, &[], None, usize::MAX);
            for (key, value) in rows {
                assert_eq!(get(&*self.reader, table, key).as_ref(), Some(value));
            }
        }
    }
}

fn get(reader: &dyn Reader, table: usize, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let get = reader.get(table_names()[table], key, &mut |value| {
        found = Some(value.to_vec());
        Ok(())
    });
    assert_eq!(get.unwrap(), found.is_some());
    found
}

/// The first `most` rows of a range are as the model has them, in both directions.
fn compare(
    reader: &dyn Reader,
    model: &Model,
    table: usize,
    from: &[u8],
    to: Option<&[u8]>,
    most: usize,
) {
    if to.is_some_and(|to| to <= from) {
        return;
    }
    let end = to.map_or(Bound::Unbounded, Bound::Excluded);
    let range = model[table].range::<[u8], _>((Bound::Included(from), end));
    for order in [Order::Ascending, Order::Descending] {
        let want: Vec<_> = match order {
            Order::Ascending => range.clone().take(most).collect(),
            Order::Descending => range.clone().rev().take(most).collect(),
        };
        let mut seen = 0;
        let scanned =
            reader.scan(table_names()[table], KeyRange { from, to }, order, &mut |key, value| {
                assert_eq!(
                    Some((key, value)),
                    want.get(seen).map(|(k, v)| (k.as_slice(), v.as_slice()))
                );
                seen += 1;
                Ok(if seen == most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            });
        scanned.unwrap();
        assert_eq!(seen, want.len());
    }
}

fn run(seed: u64, batches: usize) {
    let history = std::panic::AssertUnwindSafe(|| History::new(seed).run(batches));
    if let Err(panic) = std::panic::catch_unwind(history) {
        eprintln!("with ROADSTEAD_TEST_SEED={seed}");
        std::panic::resume_unwind(panic);
    }
}

#[test]
fn long_histories_of_the_storage_read_as_a_sorted_map() {
    if let Some(seed) = number_from("ROADSTEAD_TEST_SEED") {
        return run(seed, 300);
    }
    let histories = number_from("ROADSTEAD_TEST_HISTORIES").unwrap_or(120);
    (0..histories).for_each(|seed| run(seed, 300));
}

#[test]
fn a_hundred_thousand_keys_of_forty_tables_are_found() {
    // Some 20 changes a batch, of which half are of new keys.
    run(1_000_003, 10_000);
}
