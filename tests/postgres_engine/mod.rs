//! What a transaction has read once, and at once, is what single reads find, and is validated as they are.

mod audit;
mod commits;
mod crowded;
mod deadline;
mod groups;
mod lanes;
mod replaced;
mod settings;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

use roadstead::base::Result;
use roadstead::store::engine::conformance::TABLE;
use roadstead::store::engine::postgres::{Owner, Postgres};
use roadstead::store::engine::{
    Attempt, Budget, Engine, GivenBack, OnConflict, Reader, Terms, WriteBatch, WriteOp,
};

use crate::open;
use crate::postgres_server::{PostgresServer, new_schema, shared};

const TERMS: Terms = Terms { budget: Budget::FULL, on_conflict: OnConflict::RunOnWriter };

type Run = Box<dyn FnMut(&dyn Reader) -> Result<WriteBatch> + Send>;

/// A transaction that does this in each of its runs.
struct Does(Run, Sender<Result<()>>);

impl Attempt for Does {
    fn run(&mut self, reader: &dyn Reader) -> Result<WriteBatch> {
        (self.0)(reader)
    }

    fn complete(self: Box<Self>, end: Result<()>) {
        self.1.send(end).unwrap();
    }

    fn give_back(self: Box<Self>, why: GivenBack) {
        panic!("given back: {why:?}");
    }
}

/// Runs a heavy attempt; returns how it ended, unless the engine does not take it.
pub fn submit(
    engine: &Postgres,
    run: impl FnMut(&dyn Reader) -> Result<WriteBatch> + Send + 'static,
) -> Result<Result<()>> {
    let (end, ended) = channel();
    engine.submit(Box::new(Does(Box::new(run), end)), TERMS)?;
    Ok(ended.recv().unwrap())
}

pub fn commit(
    engine: &Postgres,
    run: impl FnMut(&dyn Reader) -> Result<WriteBatch> + Send + 'static,
) -> Result<()> {
    submit(engine, run).unwrap()
}

pub fn put(rows: &[(&str, &[u8])]) -> WriteBatch {
    let mut writes = WriteBatch::default();
    for (key, value) in rows {
        writes.add(TABLE, key.as_bytes().to_vec(), WriteOp::Put(value.to_vec()));
    }
    writes
}

fn get(reader: &dyn Reader, key: &[u8]) -> Option<Vec<u8>> {
    let mut found = None;
    let see = &mut |value: &[u8]| {
        found = Some(value.to_vec());
        Ok(())
    };
    let is_there = reader.get(TABLE, key, see).unwrap();
    assert_eq!(is_there, found.is_some());
    found
}

/// An entry and its record, found as those of a unique index are.
fn find(reader: &dyn Reader, entry: &str) -> Option<(Vec<u8>, Option<Vec<u8>>)> {
    reader.will_find((TABLE, entry.as_bytes()), (TABLE, b"of ")).unwrap();
    let key = get(reader, entry.as_bytes())?;
    let record = get(reader, &[b"of ", key.as_slice()].concat());
    Some((key, record))
}

#[test]
fn rows_are_read_once_and_an_entry_with_its_record_at_once() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let (small, large) = (vec![7; 20_000], vec![8; 200_000]);
    let rows: [(&str, &[u8]); 6] = [
        ("one", b"small"),
        ("of small", &small),
        ("two", b"large"),
        ("of large", &large),
        ("three", b"gone"),
        ("small", b"another's"),
    ];
    let rows = put(&rows);
    commit(&engine, move |_| Ok(rows.clone())).unwrap();
    let count = || engine.meters().round_trips.value();
    let reader = engine.snapshot();
    for (entry, expected, trips) in [
        ("one", Some((b"small".to_vec(), Some(small.clone()))), 1),
        // It is not kept, so it is not brought along.
        ("two", Some((b"large".to_vec(), Some(large.clone()))), 2),
        ("three", Some((b"gone".to_vec(), None)), 1),
        ("four", None, 1),
    ] {
        let before = count();
        assert_eq!(find(&*reader, entry), expected, "{entry}");
        assert_eq!(count() - before, trips, "{entry}");
        assert_eq!(find(&*reader, entry), expected, "{entry}, again");
    }
    // Once nothing more is kept, each is read as it would be otherwise.
    for nth in 0..20_000 {
        get(&*reader, format!("absent {nth}").as_bytes());
    }
    let before = count();
    assert_eq!(find(&*reader, "five"), None);
    assert_eq!(count() - before, 1);
}

#[test]
fn rows_that_are_said_to_be_read_are_read_at_once() {
    let Some(server) = shared() else { return };
    let engine = open(server, &new_schema(), None);
    let large = vec![8; 200_000];
    let rows = put(&[("a", b"1"), ("b", b"2"), ("large", &large)]);
    commit(&engine, move |_| Ok(rows.clone())).unwrap();
    let count = || engine.meters().round_trips.value();
    let before = count();
    let reader = engine.snapshot();
    let keys = ["a", "absent", "b", "large"].map(|key| key.as_bytes().to_vec());
    reader.will_get(TABLE, &keys).unwrap();
    assert_eq!(count() - before, 1);
    reader.will_get(TABLE, &keys[..3]).unwrap();
    reader.will_get(TABLE, &[]).unwrap();
    let found = keys.each_ref().map(|key| get(&*reader, key));
    assert_eq!(found, [Some(b"1".to_vec()), None, Some(b"2".to_vec()), Some(large)]);
    // The large one is not kept, so it is not brought along.
    assert_eq!(count() - before, 2);
}

#[test]
fn what_is_read_at_once_locks_no_other_rows_though_statistics_are_old() {
    // Locks of transactions that have ended stay for as long as any that ran beside them.
    let Some(server) = PostgresServer::start(&["fsync=off"]) else { return };
    let schema = new_schema();
    let engine = open(&server, &schema, None);
    // They say that nearly no row is of the table that is read.
    server.sql(&format!(
        "INSERT INTO {schema}.kv SELECT 9999, int4send(n), '' FROM generate_series(1, 5000) AS n; \
         ANALYZE {schema}.kv"
    ));
    let keys: Vec<_> = (0..500).map(|nth| format!("{nth:03}")).collect();
    let rows: Vec<(&str, &[u8])> = keys.iter().map(|key| (&**key, b"entry".as_slice())).collect();
    let rows = put(&rows);
    commit(&engine, move |_| Ok(rows.clone())).unwrap();
    let locks = format!(
        "SELECT c.relname FROM pg_locks l JOIN pg_class c ON c.oid = l.relation \
         WHERE l.mode = 'SIReadLock' AND l.locktype <> 'tuple' AND c.relname = 'kv' \
         AND c.relnamespace = '{schema}'::regnamespace"
    );
    commit(&engine, move |reader| {
        let keys = ["010", "200", "absent"].map(|key| key.as_bytes().to_vec());
        reader.will_get(TABLE, &keys).unwrap();
        assert_eq!(server.sql(&locks), "");
        find(reader, "300").unwrap();
        assert_eq!(server.sql(&locks), "");
        Ok(put(&[("x", b"1")]))
    })
    .unwrap();
}

/// How often a transaction runs during whose first run another one is committed.
fn runs_beside(
    mut run: impl FnMut(&dyn Reader) -> WriteBatch + Send + 'static,
    other: fn(&dyn Reader) -> WriteBatch,
) -> Option<usize> {
    let server = shared()?;
    let schema = new_schema();
    let (engine, second) = (open(server, &schema, None), open(server, &schema, None));
    commit(&engine, |_| Ok(put(&[("entry", b"key"), ("there", b"1"), ("a", b"1"), ("b", b"1")])))
        .unwrap();
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = runs.clone();
    commit(&engine, move |reader| {
        let writes = run(reader);
        if counted.fetch_add(1, Ordering::SeqCst) == 0 {
            commit(&second, move |reader| Ok(other(reader))).unwrap();
        }
        Ok(writes)
    })
    .unwrap();
    Some(runs.load(Ordering::SeqCst))
}

#[test]
fn what_was_found_to_be_absent_at_once_is_validated() {
    let run = |reader: &dyn Reader| match find(reader, "entry").unwrap().1 {
        None => put(&[("x", b"there was no record")]),
        Some(_) => put(&[("y", b"there was one")]),
    };
    let other = |reader: &dyn Reader| match get(reader, b"x") {
        None => put(&[("of key", b"there was no x")]),
        Some(_) => WriteBatch::default(),
    };
    let Some(runs) = runs_beside(run, other) else { return };
    assert_eq!(runs, 2);
}

#[test]
fn what_was_said_to_be_read_and_is_absent_is_validated() {
    let run = |reader: &dyn Reader| {
        reader.will_get(TABLE, &[b"m".to_vec(), b"n".to_vec()]).unwrap();
        match get(reader, b"m") {
            None => put(&[("x", b"there was none")]),
            Some(_) => put(&[("y", b"there was one")]),
        }
    };
    let other = |reader: &dyn Reader| match get(reader, b"x") {
        None => put(&[("m", b"there was no x")]),
        Some(_) => WriteBatch::default(),
    };
    let Some(runs) = runs_beside(run, other) else { return };
    assert_eq!(runs, 2);
}

#[test]
fn what_is_read_again_of_what_is_kept_is_validated() {
    let run = |reader: &dyn Reader| {
        let [first, again] = [0; 2].map(|_| get(reader, b"there").unwrap());
        assert_eq!(first, again);
        put(&[("x", &first)])
    };
    let other = |reader: &dyn Reader| {
        assert_eq!(get(reader, b"x"), None);
        put(&[("there", b"2")])
    };
    let Some(runs) = runs_beside(run, other) else { return };
    assert_eq!(runs, 2);
}

#[test]
fn of_two_changes_of_access_the_second_sees_the_first() {
    fn change(reader: &dyn Reader, key: &str) -> WriteBatch {
        assert!(get(reader, b"there").is_some());
        WriteBatch { changes_access: true, ..put(&[(key, b"a right")]) }
    }
    let run = |reader: &dyn Reader| change(reader, "a");
    let Some(runs) = runs_beside(run, |reader| change(reader, "b")) else { return };
    assert_eq!(runs, 2);
}

#[test]
fn the_version_of_access_changes_with_each_change_and_with_each_who_comes() {
    let Some(server) = shared() else { return };
    let schema = new_schema();
    let engine = open(server, &schema, None);
    let version = || engine.snapshot().access_version().unwrap();
    let before = version();
    assert_eq!(version(), before);
    commit(&engine, |_| Ok(put(&[("a", b"no right")]))).unwrap();
    assert_eq!(version(), before);
    let right = WriteBatch { changes_access: true, ..put(&[("a", b"a right")]) };
    commit(&engine, move |_| Ok(right.clone())).unwrap();
    let after = version();
    assert!(after > before && version() == after);
    let owner = open(server, &schema, Some(Owner::new("a tool")));
    assert!(version() > after);
    owner.close();
}
