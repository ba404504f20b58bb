//! The redb engine over real files.

use std::io::Write as _;

use super::*;
use crate::store::engine::WriteBatch;

fn there(redb: &mut Redb, key: &str) -> bool {
    redb.snapshot().unwrap().get("t", key.as_bytes(), &mut |_| Ok(())).unwrap()
}

fn write(redb: &mut Redb, changes: &[(&str, WriteOp)]) -> CommitOutcome {
    let mut writes = WriteBatch::default();
    for (key, op) in changes {
        writes.add("t", key.as_bytes().to_vec(), op.clone());
    }
    redb.commit(&writes)
}

fn insert() -> WriteOp {
    WriteOp::Insert(b"value".to_vec())
}

#[test]
fn a_file_is_made_once_and_opened_ever_after() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    assert!(Redb::open(&path, vec!["t"]).is_err(), "missing");

    let mut redb = Redb::create(&path, vec!["t"]).unwrap();
    assert!(matches!(write(&mut redb, &[("a", insert())]), CommitOutcome::Done(_)));
    let error = Redb::open(&path, vec!["t"]).err().unwrap();
    assert!(error.message().ends_with("is in use by another process"), "{error}");
    drop(redb);
    assert!(Redb::create(&path, vec!["t"]).is_err(), "there is one already");

    // A newer version has one more table.
    let mut redb = Redb::open(&path, vec!["t", "u"]).unwrap();
    assert!(there(&mut redb, "a"));
    assert!(!redb.snapshot().unwrap().get("u", b"a", &mut |_| Ok(())).unwrap());
    assert!(redb.snapshot().unwrap().get("v", b"a", &mut |_| Ok(())).is_err(), "no such table");
}

#[test]
fn a_file_that_is_no_database_is_refused_and_unchanged() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    drop(Redb::create(&path, vec!["t"]).unwrap());
    let whole = std::fs::read(&path).unwrap();
    for content in [b"".to_vec(), b"some other text".to_vec(), whole[..whole.len() / 2].to_vec()] {
        std::fs::write(&path, &content).unwrap();
        let error = Redb::open(&path, vec!["t"]).err().unwrap();
        assert!(error.message().contains("store.redb "), "{error}");
        assert!(Redb::create(&path, vec!["t"]).is_err());
        assert!(std::fs::read(&path).unwrap() == content);
    }
}

#[test]
fn an_insert_where_something_is_undoes_the_whole_batch() {
    let dir = tempfile::tempdir().unwrap();
    let mut redb = Redb::create(&dir.path().join("store.redb"), vec!["t"]).unwrap();
    assert!(matches!(write(&mut redb, &[("b", insert())]), CommitOutcome::Done(_)));
    let end = write(&mut redb, &[("a", insert()), ("b", insert()), ("c", insert())]);
    assert!(matches!(end, CommitOutcome::Refused(_)));
    assert!(!there(&mut redb, "a") && there(&mut redb, "b") && !there(&mut redb, "c"));
    let end = write(&mut redb, &[("a", insert()), ("b", WriteOp::Delete)]);
    assert!(matches!(end, CommitOutcome::Done(_)));
    assert!(there(&mut redb, "a") && !there(&mut redb, "b"));
}

/// As if it was looked whether there is space a while ago.
fn looked_long_ago(redb: &mut Redb) {
    let (looked_at, _) = redb.space.as_mut().unwrap();
    *looked_at -= 2 * SPACE_INTERVAL;
}

#[test]
fn after_a_failed_commit_nothing_is_written_until_there_is_room() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut redb = Redb::create(&path, vec!["t"]).unwrap();
    let before = redb.snapshot().unwrap();
    redb.suspect = true;
    // A directory in its place: the trial cannot be written.
    std::fs::create_dir(path.with_extension("room")).unwrap();
    match write(&mut redb, &[("a", insert())]) {
        CommitOutcome::Refused(error) => assert_eq!(error.code(), "read_only"),
        _ => panic!("written without room"),
    }
    assert!(!there(&mut redb, "a"), "reads continue");
    std::fs::remove_dir(path.with_extension("room")).unwrap();
    redb.space.as_mut().unwrap().0 = Instant::now() + SPACE_INTERVAL;
    let soon = write(&mut redb, &[("a", insert())]);
    assert!(matches!(soon, CommitOutcome::Refused(_)), "it is not looked at for each write");
    looked_long_ago(&mut redb);
    assert!(matches!(write(&mut redb, &[("a", insert())]), CommitOutcome::Done(_)));
    assert!(!path.with_extension("room").exists());
    assert!(!redb.suspect);
    redb.reopen().unwrap();

    // Who still reads what was there before the database was opened again reads that, or is told
    // to come back.
    match before.get("t", b"a", &mut |_| Ok(())) {
        Ok(there) => assert!(!there),
        Err(error) => assert_eq!((error.kind(), error.code()), (Kind::Busy, "reopening")),
    }
}

#[test]
fn a_database_is_reopened_only_where_something_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut redb = Redb::create(&path, vec!["t"]).unwrap();
    assert!(matches!(write(&mut redb, &[("a", insert())]), CommitOutcome::Done(_)));
    std::fs::create_dir(path.with_extension("room")).unwrap();
    let before = redb.snapshot().unwrap().access_version();
    assert!(redb.reopen().is_err());
    assert!(there(&mut redb, "a"), "reads continue");
    assert_eq!(redb.snapshot().unwrap().access_version(), before);
    std::fs::remove_dir(path.with_extension("room")).unwrap();
    redb.reopen().unwrap();
    // On a full disk it is reopened, so that something can be deleted.
    let full = OpenOptions::new().write(true).open("/dev/full").unwrap().write_all(&[0]);
    assert!(is_full(&full.unwrap_err()));
}

#[test]
fn without_space_deletions_use_the_reserve_which_is_held_again_afterwards() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let reserve = dir.path().join("reserve");
    let mut redb = Redb::create(&path, vec!["t"]).unwrap();
    redb.hold_reserve(1024 * 1024);
    assert!(matches!(write(&mut redb, &[("a", insert())]), CommitOutcome::Done(_)));
    assert!(reserve.exists() && redb.check_space().is_ok());

    std::fs::create_dir(path.with_extension("room")).unwrap();
    redb.suspect = true;
    let mut deletion = WriteBatch { deletes: true, ..WriteBatch::default() };
    deletion.add("t", b"a".to_vec(), WriteOp::Delete);
    assert!(matches!(redb.commit(&deletion), CommitOutcome::Done(_)));
    assert!(!reserve.exists() && !there(&mut redb, "a"));
    for _ in 0..2 {
        let end = write(&mut redb, &[("b", insert())]);
        assert!(matches!(end, CommitOutcome::Refused(_)), "the reserve is not for this");
    }

    std::fs::remove_dir(path.with_extension("room")).unwrap();
    looked_long_ago(&mut redb);
    assert!(matches!(write(&mut redb, &[("b", insert())]), CommitOutcome::Done(_)));
    assert!(reserve.exists() && !redb.suspect);
}

#[test]
fn a_database_is_not_given_up_for_a_file_that_cannot_be_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut redb = Redb::create(&path, vec!["t"]).unwrap();
    assert!(matches!(write(&mut redb, &[("a", insert())]), CommitOutcome::Done(_)));
    std::fs::rename(&path, dir.path().join("away")).unwrap();
    assert!(redb.reopen().is_err());
    assert!(there(&mut redb, "a"));
    std::fs::rename(dir.path().join("away"), &path).unwrap();
    let stamp = redb.snapshot().unwrap().access_version();
    let reader = redb.reopen().unwrap();
    assert!(reader.access_version() > stamp, "nothing concluded before holds");
    assert!(there(&mut redb, "a"));
}

#[test]
fn free_pages_are_those_that_no_table_uses() {
    let dir = tempfile::tempdir().unwrap();
    let mut redb = Redb::create(&dir.path().join("store.redb"), vec!["t", "u"]).unwrap();
    let count = |redb: &mut Redb| redb.size().unwrap().count_pages.unwrap()().unwrap();
    let names: Vec<String> = (0..400).map(|n| format!("{n:03}")).collect();
    // Of one page and of many.
    let value =
        |n: usize| WriteOp::Insert(vec![b'x'; if n.is_multiple_of(2) { 300 } else { 50_000 }]);
    let all = |op: &dyn Fn(usize) -> WriteOp| -> Vec<(&str, WriteOp)> {
        names.iter().enumerate().map(|(n, name)| (name.as_str(), op(n))).collect()
    };
    let mut free = Vec::new();
    for op in [&value as &dyn Fn(usize) -> WriteOp, &|_| WriteOp::Delete] {
        assert!(matches!(write(&mut redb, &all(op)), CommitOutcome::Done(_)));
        let counted = count(&mut redb);
        let transaction = redb.database.as_ref().unwrap().begin_write().unwrap();
        let stats = transaction.stats().unwrap();
        transaction.abort().unwrap();
        assert_eq!(counted.bytes, stats.page_size() as u64);
        let file_pages = redb.size().unwrap().file_bytes / counted.bytes;
        let unused = file_pages - stats.allocated_pages();
        // What redb keeps for itself: what the last commits freed among it.
        assert!(counted.free >= unused, "{counted:?} {stats:?}");
        free.push((counted.free, unused));
    }
    let value_pages = 200 * 50_000 / 4096;
    assert!(free[1].0 >= free[0].0 + value_pages, "{free:?}");
}
