//! The engine over real files.

use std::path::PathBuf;

use super::record::{Link, LogId};
use super::*;
use crate::store::engine::{KeyRange, Order, WriteOp};

struct Place(tempfile::TempDir);

impl Place {
    fn new() -> Self {
        Place(tempfile::tempdir().unwrap())
    }

    fn path(&self) -> PathBuf {
        self.0.path().join("store.redb")
    }

    /// The files of the log.
    fn log(&self) -> [PathBuf; 2] {
        ["store.wal-1", "store.wal-2"].map(|name| self.0.path().join(name))
    }

    fn remove_log(&self) {
        self.log().iter().for_each(|file| std::fs::remove_file(file).unwrap());
    }

    fn copy_log(&self, to: &Place) {
        for (from, to) in self.log().iter().zip(to.log()) {
            std::fs::copy(from, to).unwrap();
        }
    }

    /// What a crash now would leave.
    fn crashed(&self) -> Place {
        let copy = Place::new();
        std::fs::copy(self.path(), copy.path()).unwrap();
        self.copy_log(&copy);
        copy
    }

    fn create(&self) -> LoggedRedb {
        LoggedRedb::create(&self.path(), vec!["t"]).unwrap()
    }

    fn open(&self) -> Result<LoggedRedb> {
        LoggedRedb::open(&self.path(), vec!["t"])
    }

    fn refused(&self) -> String {
        self.open().err().expect("it should be refused").to_string()
    }

    fn small(&self) -> LoggedRedb {
        let redb = Redb::create(&self.path(), vec!["t"]).unwrap();
        LoggedRedb::over(redb, Box::new(LogBeside::database(&self.path())), LogSettings::SMALL)
            .unwrap()
    }
}

fn commit(storage: &mut LoggedRedb, changes: &[(&str, WriteOp)]) -> CommitOutcome {
    let mut writes = WriteBatch::default();
    for (key, op) in changes {
        writes.add("t", key.as_bytes().to_vec(), op.clone());
    }
    storage.commit(&writes)
}

fn put(storage: &mut LoggedRedb, key: &str, value: &str) -> Arc<dyn Reader> {
    match commit(storage, &[(key, WriteOp::Put(value.into()))]) {
        CommitOutcome::Done(reader) => reader,
        CommitOutcome::Refused(error) | CommitOutcome::Unknown(error) => panic!("{error:?}"),
    }
}

fn value(reader: &dyn Reader, key: &str) -> Option<String> {
    let mut found = None;
    let get = reader.get("t", key.as_bytes(), &mut |value| {
        found = Some(String::from_utf8(value.to_vec()).unwrap());
        Ok(())
    });
    assert_eq!(get.unwrap(), found.is_some());
    found
}

fn keys(reader: &dyn Reader) -> Vec<String> {
    let mut keys = Vec::new();
    let all = KeyRange { from: &[], to: None };
    let scanned = reader.scan("t", all, Order::Ascending, &mut |key, _| {
        keys.push(String::from_utf8(key.to_vec()).unwrap());
        Ok(std::ops::ControlFlow::Continue(()))
    });
    scanned.unwrap();
    keys
}

#[test]
fn what_was_committed_is_there_after_a_crash_and_in_the_file_alone_after_a_stop() {
    let place = Place::new();
    let mut storage = place.create();
    put(&mut storage, "a", "1");
    put(&mut storage, "b", "2");
    commit(&mut storage, &[("a", WriteOp::Delete)]);
    let crashed = place.crashed();
    for _ in 0..2 {
        let mut storage = crashed.open().unwrap();
        assert_eq!(keys(&*storage.snapshot().unwrap()), ["b"]);
        put(&mut storage, "b", "3");
    }
    drop(storage);
    place.remove_log();
    let mut storage = place.open().unwrap();
    assert_eq!(value(&*storage.snapshot().unwrap(), "b").as_deref(), Some("2"));
    put(&mut storage, "c", "3");
    let mut storage = place.crashed().open().unwrap();
    assert_eq!(keys(&*storage.snapshot().unwrap()), ["b", "c"]);
}

#[test]
fn a_database_and_a_log_that_do_not_belong_together_are_refused() {
    let (place, other) = (Place::new(), Place::new());
    let mut storage = place.create();
    let clean = place.crashed();
    put(&mut storage, "a", "1");
    let mut others = other.create();
    put(&mut others, "b", "1");

    let missing = place.crashed();
    missing.remove_log();
    assert!(missing.refused().contains("is missing"), "{}", missing.refused());
    let half = place.crashed();
    std::fs::remove_file(&half.log()[1]).unwrap();
    assert!(half.refused().contains("is missing"), "{}", half.refused());
    let broken = place.crashed();
    std::fs::write(&broken.log()[1], "x").unwrap();
    assert!(broken.refused().contains("is damaged"), "{}", broken.refused());
    for used in [place.crashed(), clean.crashed()] {
        other.copy_log(&used);
        assert!(used.refused().contains("database"), "{}", used.refused());
    }
    // A copy of the file from before.
    let newer = place.crashed();
    std::fs::copy(clean.path(), newer.path()).unwrap();
    assert!(newer.refused().contains("is newer"), "{}", newer.refused());
    // One that has no records is replaced.
    let unused = clean.crashed();
    let empty = Place::new();
    drop(empty.create());
    empty.copy_log(&unused);
    put(&mut unused.open().unwrap(), "a", "1");
}

#[test]
fn what_an_interrupted_checkpoint_wrote_can_be_deleted_after_the_restart() {
    let place = Place::new();
    let redb = Redb::create(&place.path(), vec!["t"]).unwrap();
    let log = Box::new(LogBeside::database(&place.path()));
    let settings = LogSettings {
        step_bytes: 1,
        gentle_step_bytes: 1,
        is_stepwise: true,
        ..LogSettings::default()
    };
    let mut storage = LoggedRedb::over(redb, log, settings).unwrap();
    commit(&mut storage, &["a", "b"].map(|key| (key, WriteOp::Insert(b"1".to_vec()))));
    storage.begin_checkpoint(true, false).unwrap();
    assert_eq!(storage.look().unwrap().steps, 1);
    let crashed = place.crashed();
    let mut storage = crashed.open().unwrap();
    assert_eq!(value(&*storage.base, "a").as_deref(), Some("1"), "the first step wrote it");
    commit(&mut storage, &["a", "b"].map(|key| (key, WriteOp::Delete)));
    drop(storage);
    assert_eq!(keys(&*crashed.open().unwrap().snapshot().unwrap()), [""; 0]);
}

#[test]
fn a_log_that_lost_an_acknowledged_record_is_not_gone_on_with() {
    let place = Place::new();
    let mut storage = place.create();
    put(&mut storage, "a", "1");
    let reader = put(&mut storage, "b", "2");
    let log = place.log().into_iter().find(|file| {
        // Its records and the zeros ahead.
        std::fs::read(file).unwrap().windows(2).any(|two| two == b"b2")
    });
    let log = log.unwrap();
    storage.log.end_filling();
    let whole = std::fs::read(&log).unwrap();
    let mut damaged = whole.clone();
    let last = damaged.iter().rposition(|byte| *byte != 0).unwrap();
    damaged[last] ^= 1;
    std::fs::write(&log, damaged).unwrap();
    let error = storage.reopen().err().unwrap().to_string();
    assert!(error.contains("was acknowledged"), "{error}");
    assert_eq!(keys(&*reader), ["a", "b"]);
    std::fs::write(&log, whole).unwrap();
    assert_eq!(keys(&*storage.reopen().unwrap()), ["a", "b"]);
}

#[test]
fn while_the_log_is_read_again_readers_are_over_the_reopened_database() {
    let place = Place::new();
    let mut storage = place.small();
    put(&mut storage, "a", "1");
    let renewed = Arc::new(std::sync::Mutex::new(None));
    let newest = renewed.clone();
    storage.renew_with(Box::new(move |reader| *newest.lock().unwrap() = Some(reader)));
    storage.log.end_filling();
    // The log cannot be read.
    place.remove_log();
    assert!(storage.reopen().is_err());
    let reader = renewed.lock().unwrap().take().unwrap();
    assert_eq!(keys(&*reader), ["a"]);
}

#[test]
fn a_checkpoint_is_due_once_many_keys_are_deleted() {
    let place = Place::new();
    let mut storage = place.create();
    let keys: Vec<_> = (0..room::MAX_DELETIONS).map(|n| format!("{n:05}")).collect();
    let write = |storage: &mut LoggedRedb, op: &WriteOp| {
        let changes: Vec<_> = keys.iter().map(|key| (key.as_str(), op.clone())).collect();
        assert!(matches!(commit(storage, &changes), CommitOutcome::Done(_)));
    };
    write(&mut storage, &WriteOp::Insert(b"1".to_vec()));
    assert!(!storage.is_due(0));
    write(&mut storage, &WriteOp::Delete);
    assert!(storage.is_due(0));
}

#[test]
fn a_database_without_a_log_gets_one() {
    let place = Place::new();
    let mut redb = Redb::create(&place.path(), vec!["t"]).unwrap();
    let mut writes = WriteBatch::default();
    writes.add("t", b"a".to_vec(), WriteOp::Insert(b"1".to_vec()));
    assert!(matches!(redb.commit(&writes), CommitOutcome::Done(_)));
    drop(redb);
    let mut storage = place.open().unwrap();
    put(&mut storage, "b", "2");
    let in_use = place.refused();
    assert!(in_use.contains("in use by another process"), "{in_use}");
    let mut storage = place.crashed().open().unwrap();
    assert_eq!(keys(&*storage.snapshot().unwrap()), ["a", "b"]);
}

/// Writes the log of a database again as the first format had it, with one commit in it.
fn write_as_first_format(place: &Place, id: [u8; 16], writes: &WriteBatch) {
    let log = record::LogId::of_first_format(id);
    let (record, _) = record::encode(log, record::Link::default(), writes).unwrap();
    let files = LogBeside::database(&place.path()).create().unwrap();
    files.iter().for_each(|file| files::write_front(file, log).unwrap());
    files[0].set_len(files::FIRST + record.len() as u64).unwrap();
    files[0].write(files::FIRST, &record).unwrap();
}

#[test]
fn a_log_of_the_first_format_is_read_used_and_replaced_once_nothing_is_in_it() {
    let place = Place::new();
    let mut storage = place.create();
    put(&mut storage, "a", "1");
    let id = storage.position.log.id;
    let old = place.crashed();
    let mut writes = WriteBatch::default();
    writes.add("t", b"b".to_vec(), WriteOp::Insert(b"2".to_vec()));
    write_as_first_format(&old, id, &writes);
    let mut storage = old.open().unwrap();
    assert_eq!(keys(&*storage.snapshot().unwrap()), ["b"]);
    assert!(storage.position.log.is_of_first_format());
    put(&mut storage, "c", "3");
    let mut crashed = old.crashed().open().unwrap();
    assert_eq!(keys(&*crashed.snapshot().unwrap()), ["b", "c"]);
    // Stopped: the database has everything.
    drop(storage);
    let mut storage = old.open().unwrap();
    assert!(!storage.position.log.is_of_first_format() && storage.position.log.id != id);
    put(&mut storage, "d", "4");
    let mut crashed = old.crashed().open().unwrap();
    assert_eq!(keys(&*crashed.snapshot().unwrap()), ["b", "c", "d"]);
}

#[test]
fn readers_see_the_same_before_during_and_after_checkpoints() {
    let place = Place::new();
    let mut storage = place.small();
    let mut readers = Vec::new();
    let mut model = std::collections::BTreeMap::new();
    for number in 0..600u32 {
        let key = format!("key {}", number * 7919 % 97);
        if number % 5 == 4 {
            model.remove(&key);
            commit(&mut storage, &[(&key, WriteOp::Delete)]);
        } else {
            let text = format!("{number} {}", "x".repeat(number as usize % 200));
            model.insert(key.clone(), text.clone());
            readers.push((put(&mut storage, &key, &text), model.clone()));
        }
    }
    assert!(storage.position.covered.number > 100, "checkpoints were made");
    for (reader, model) in &readers {
        assert_eq!(keys(&**reader), model.keys().cloned().collect::<Vec<_>>());
        for (key, text) in model {
            assert_eq!(value(&**reader, key).as_ref(), Some(text));
        }
    }
    let mut crashed = place.crashed().open().unwrap();
    assert_eq!(keys(&*crashed.snapshot().unwrap()), model.keys().cloned().collect::<Vec<_>>());
}

#[test]
fn while_nothing_is_written_the_log_goes_to_the_database_and_out_of_memory() {
    let place = Place::new();
    let mut storage = place.create();
    let meters = Arc::<StoreMeters>::default();
    storage.count_in(&meters);
    put(&mut storage, "a", "1");
    assert!(meters.log_bytes.value() > 0);
    let (renew, renewed) = std::sync::mpsc::channel();
    storage.renew_with(Box::new(move |reader| renew.send(reader).unwrap()));
    let reader = loop {
        storage.idle();
        if storage.live.is_empty() && storage.frozen.is_none() {
            break renewed.try_iter().last().expect("a newer reader");
        }
        std::thread::yield_now();
    };
    assert_eq!((meters.log_bytes.value(), value(&*reader, "a").as_deref()), (0, Some("1")));
    assert!(storage.live.is_empty() && storage.running.is_none());
    storage.idle();
    assert!(renewed.try_recv().is_err() && storage.running.is_none(), "there is nothing to do");
    assert_eq!(value(&*storage.base, "a").as_deref(), Some("1"));
}

#[test]
fn an_inspection_leaves_the_database_as_it_is() {
    let place = Place::new();
    let mut storage = place.create();
    put(&mut storage, "a", "1");
    let crashed = place.crashed();
    for _ in 0..2 {
        let mut storage = crashed.open().unwrap().for_inspection();
        assert_eq!(keys(&*storage.snapshot().unwrap()), ["a"]);
        storage.idle();
        assert!(storage.running.is_none());
    }
    let mut redb = Redb::open(&crashed.path(), vec!["t"]).unwrap();
    assert_eq!(keys(&*redb.snapshot().unwrap()), [""; 0]);
}

#[test]
fn a_table_of_an_index_that_is_no_longer_defined_can_be_read_and_emptied() {
    let place = Place::new();
    let mut storage = LoggedRedb::create(&place.path(), vec!["t", "old"]).unwrap();
    let mut writes = WriteBatch::default();
    writes.add("old", b"a".to_vec(), WriteOp::Insert(b"1".to_vec()));
    assert!(matches!(storage.commit(&writes), CommitOutcome::Done(_)));
    let crashed = place.crashed();
    let mut storage = crashed.open().unwrap();
    storage.add_table("old");
    assert!(storage.snapshot().unwrap().get("old", b"a", &mut |_| Ok(())).unwrap());
    let mut writes = WriteBatch::default();
    writes.add("old", b"a".to_vec(), WriteOp::Delete);
    assert!(matches!(storage.commit(&writes), CommitOutcome::Done(_)));
    assert!(!storage.snapshot().unwrap().get("old", b"a", &mut |_| Ok(())).unwrap());
}

#[test]
fn on_a_full_disk_the_space_inside_of_the_file_is_used_while_checkpoints_succeed() {
    let place = Place::new();
    let mut storage = place.create();
    let meters = Arc::<StoreMeters>::default();
    storage.count_in(&meters);
    put(&mut storage, "a", "1");
    storage.redb.note_failure();
    let end_of_commit = |storage: &mut LoggedRedb| {
        // What is written to see whether there is space, is written here.
        std::os::unix::fs::symlink("/dev/full", place.path().with_extension("room")).unwrap();
        storage.redb.note_failure();
        match commit(storage, &[("b", WriteOp::Put(b"2".to_vec()))]) {
            CommitOutcome::Done(_) => "done",
            CommitOutcome::Refused(error) => error.code(),
            _ => "unknown",
        }
    };
    assert_eq!(end_of_commit(&mut storage), "disk_full");
    meters.page_bytes.set(4096);
    meters.free_pages.set(storage.settings.reserve_bytes / 4096 * 2);
    assert_eq!(end_of_commit(&mut storage), "done");
    storage.failed_at = Some(Instant::now());
    assert_eq!(end_of_commit(&mut storage), "disk_full");
}

#[test]
fn steps_are_small_until_the_live_part_fills_faster_than_they_write() {
    let place = Place::new();
    let redb = Redb::create(&place.path(), vec!["t"]).unwrap();
    let log = Box::new(LogBeside::database(&place.path()));
    let settings = LogSettings {
        part_bytes: 8_000,
        checkpoint_bytes: 8_000,
        gentle_step_bytes: 1,
        is_stepwise: true,
        ..LogSettings::default()
    };
    let mut storage = LoggedRedb::over(redb, log, settings).unwrap();
    for number in 0..20 {
        put(&mut storage, &format!("old-{number}"), "1");
    }
    storage.begin_checkpoint(true, false).unwrap();
    for number in 0..5 {
        put(&mut storage, &format!("new-{number}"), "1");
    }
    assert_eq!(storage.running.as_mut().unwrap().progress().steps, 6, "one of a row for each look");
    put(&mut storage, "large", &"x".repeat(3_000));
    put(&mut storage, "next", "1");
    put(&mut storage, "last", "1");
    assert!(storage.running.is_none(), "the rest was one step");
}

#[test]
fn a_commit_waits_rather_than_make_the_log_longer_than_its_bound() {
    let place = Place::new();
    let redb = Redb::create(&place.path(), vec!["t"]).unwrap();
    let log = Box::new(LogBeside::database(&place.path()));
    // A step writes one change, so the log grows faster than it is written to the database.
    let settings = LogSettings {
        part_bytes: 8_000,
        checkpoint_bytes: 4_000,
        step_bytes: 1,
        gentle_step_bytes: 1,
        is_stepwise: true,
        ..LogSettings::default()
    };
    let mut storage = LoggedRedb::over(redb, log, settings).unwrap();
    let meters = Arc::<StoreMeters>::default();
    storage.count_in(&meters);
    let mut longest = 0;
    for number in 0..100 {
        let rows: Vec<_> = (0..10).map(|row| format!("{number:02}-{row}")).collect();
        let insert = |key| (key, WriteOp::Insert(b"1".to_vec()));
        let changes: Vec<_> = rows.iter().map(|key| insert(key.as_str())).collect();
        assert!(matches!(commit(&mut storage, &changes), CommitOutcome::Done(_)));
        let frozen = storage.frozen.as_ref().map_or(0, |frozen| frozen.part.memory());
        longest = longest.max(storage.live.memory() + frozen);
    }
    assert!((8_000..=16_000).contains(&longest), "{longest}");
    assert!(meters.log_wait_micros.sum() > 0 && meters.checkpoint_micros.sum() > 0);
    assert_eq!(keys(&*storage.snapshot().unwrap()).len(), 1_000);
}

/// A part with rows of these keys, in as many records.
fn part_with(keys: &[&str]) -> Part {
    let mut part = Part::default();
    for key in keys {
        let mut writes = WriteBatch::default();
        writes.add("t", key.as_bytes().to_vec(), WriteOp::Put(b"1".to_vec()));
        let (record, _) = record::encode(LogId::new([1; 16]), Link::default(), &writes).unwrap();
        part.add(&record, |_| 0).unwrap();
    }
    part
}

/// A storage with some rows in a part that is being written to the database, and whose map lacks
/// one of them.
fn with_a_wrong_map(place: &Place) -> LoggedRedb {
    let mut storage = place.create();
    for key in ["a", "b", "c"] {
        put(&mut storage, key, "1");
    }
    storage.live.replace_map(&part_with(&["a", "c"]));
    assert_eq!(keys(&*storage.reader()), ["a", "c"], "it is wrong");
    storage
}

#[test]
fn a_checkpoint_of_a_map_that_lacks_a_change_is_refused_and_the_map_made_again_from_the_log() {
    let place = Place::new();
    let mut storage = with_a_wrong_map(&place);
    storage.begin_checkpoint(true, false).unwrap();
    let failed = loop {
        match storage.look() {
            Err(error) => break error,
            Ok(progress) => assert!(progress.end.is_none(), "it was accepted"),
        }
    };
    assert_eq!(failed.code(), "read_only");
    let stored = Position::read(&storage.redb.shared_database().unwrap()).unwrap().unwrap();
    assert!(stored.covered == Link::default(), "the position was not written");
    assert!(storage.failed());
    let reader = storage.reopen().unwrap();
    assert_eq!(keys(&*reader), ["a", "b", "c"]);
    put(&mut storage, "d", "1");
    drop(storage);
    place.remove_log();
    assert_eq!(keys(&*place.open().unwrap().snapshot().unwrap()), ["a", "b", "c", "d"]);
}

#[test]
fn a_commit_that_meets_a_wrong_map_is_refused_with_what_it_concluded() {
    let place = Place::new();
    let mut storage = with_a_wrong_map(&place);
    storage.begin_checkpoint(true, false).unwrap();
    while storage.running.as_mut().unwrap().progress().end.is_none() {
        std::thread::yield_now();
    }
    match commit(&mut storage, &[("b", WriteOp::Insert(b"2".to_vec()))]) {
        CommitOutcome::Refused(error) => assert_eq!(error.code(), "read_only"),
        _ => panic!("it was not refused"),
    }
    assert!(storage.failed(), "it is reopened, and what was read counts as changed");
    let reader = storage.reopen().unwrap();
    assert_eq!(value(&*reader, "b").as_deref(), Some("1"));
    put(&mut storage, "d", "1");
    assert!(!storage.redb.is_suspect(), "the disk is not taken to be full");
}

#[test]
fn after_a_checkpoint_that_failed_unseen_the_database_is_reopened_with_the_log() {
    let place = Place::new();
    let mut storage = place.create();
    put(&mut storage, "a", "1");
    let database = Arc::downgrade(&storage.redb.shared_database().unwrap());
    storage.running = Some(Running::failed(Error::internal("the disk").into()));
    storage.broken = Some(Broken::Log);
    assert_eq!(keys(&*storage.reopen().unwrap()), ["a"]);
    assert!(database.upgrade().is_none());
    // A reopening that failed is one of everything the next time.
    let database = Arc::downgrade(&storage.redb.shared_database().unwrap());
    storage.log.end_filling();
    let log = Place::new();
    place.copy_log(&log);
    place.remove_log();
    storage.broken = Some(Broken::Log);
    assert!(storage.reopen().is_err());
    assert!(database.upgrade().is_some());
    log.copy_log(&place);
    assert_eq!(keys(&*storage.reopen().unwrap()), ["a"]);
    assert!(database.upgrade().is_none());
}

#[test]
fn a_stop_that_meets_a_wrong_map_leaves_everything_in_the_log() {
    let place = Place::new();
    drop(with_a_wrong_map(&place));
    assert_eq!(keys(&*place.open().unwrap().snapshot().unwrap()), ["a", "b", "c"]);
}

#[test]
fn a_stop_without_time_leaves_everything_in_the_log() {
    let place = Place::new();
    let redb = Redb::create(&place.path(), vec!["t"]).unwrap();
    let settings =
        LogSettings { step_bytes: 1, close_time: Duration::ZERO, ..LogSettings::default() };
    let log = Box::new(LogBeside::database(&place.path()));
    let mut storage = LoggedRedb::over(redb, log, settings).unwrap();
    for key in ["a", "b", "c"] {
        put(&mut storage, key, "1");
    }
    drop(storage);
    let mut redb = Redb::open(&place.path(), vec!["t"]).unwrap();
    assert_eq!(keys(&*redb.snapshot().unwrap()), ["a"], "one step was made");
    drop(redb);
    assert_eq!(keys(&*place.open().unwrap().snapshot().unwrap()), ["a", "b", "c"]);
}

#[test]
fn after_a_failure_of_the_log_alone_the_database_stays_open_for_its_readers() {
    let place = Place::new();
    let mut storage = place.create();
    put(&mut storage, "a", "1");
    storage.begin_checkpoint(true, false).unwrap();
    while storage.running.is_some() {
        storage.look().unwrap();
    }
    put(&mut storage, "b", "1");
    let database = Arc::downgrade(&storage.redb.shared_database().unwrap());
    storage.broken = Some(Broken::Log);
    assert_eq!(keys(&*storage.reopen().unwrap()), ["a", "b"]);
    assert!(database.upgrade().is_some(), "it was not closed");
    storage.broken = Some(Broken::Database);
    assert_eq!(keys(&*storage.reopen().unwrap()), ["a", "b"]);
    assert!(database.upgrade().is_none());
}
