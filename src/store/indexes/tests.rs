//! Indexes over rows that an older definition wrote, on storage that may fail at any commit.

use std::ops::ControlFlow;
use std::sync::Mutex;

use bincode::{Decode, Encode};

use super::*;
use crate::base::{Id, Keys, Time};
use crate::store::engine::{CommitOutcome, Memory, Redb};
use crate::store::{AnyIndex, Clock, Index, ListSource, Store, Tx, sample::org, table_names};

/// What is stored: the same in every release, apart from the indexes.
#[derive(Clone, Debug, PartialEq, Encode, Decode)]
struct Row<const RELEASE: u8> {
    id: u32,
    name: String,
    tag: Option<String>,
}

static OLD_BY_TAG: Index<Row<1>, String> = Index::non_unique("rows.by_tag", |row| row.tag.clone());
static OLD_BY_END: Index<Row<1>, Option<u32>> =
    Index::non_unique("rows.by_end", |row| Some(row.name.chars().last().map(u32::from)));

impl Record for Row<1> {
    const TABLE: &'static str = "rows";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&OLD_BY_TAG, &OLD_BY_END];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

/// Another key than before, so another version.
static BY_TAG: Index<Row<2>, String> =
    Index::non_unique("rows.by_tag", |row: &Row<2>| row.tag.as_deref().map(str::to_lowercase))
        .version(2);
/// New.
static BY_NAME: Index<Row<2>, String> =
    Index::unique("rows.by_name", "name_taken", "the name is taken", |row| Some(row.name.clone()));

impl Record for Row<2> {
    const TABLE: &'static str = "rows";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_NAME, &BY_TAG];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

const OLD: &[TableInfo] = &[TableInfo::of::<Row<1>>()];
const NEW: &[TableInfo] = &[TableInfo::of::<Row<2>>()];

/// Memory that outlives the store, and whose commits from the `fails_at`-th on fail, having been
/// kept or not.
#[derive(Clone, Default)]
struct Flaky(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    memory: Memory,
    commits: usize,
    largest: usize,
    fails_at: Option<(usize, bool)>,
}

impl LocalStorage for Flaky {
    fn snapshot(&mut self) -> Result<Arc<dyn Reader>> {
        self.0.lock().unwrap().memory.snapshot()
    }
    fn commit(&mut self, writes: &WriteBatch) -> CommitOutcome {
        let mut state = self.0.lock().unwrap();
        state.commits += 1;
        state.largest = state.largest.max(writes.len());
        match state.fails_at {
            Some((at, is_kept)) if state.commits >= at => {
                if state.commits == at && is_kept {
                    state.memory.commit(writes);
                }
                CommitOutcome::Unknown(Error::internal("the power went"))
            }
            _ => state.memory.commit(writes),
        }
    }
    fn reopen(&mut self) -> Result<Arc<dyn Reader>> {
        self.snapshot()
    }
}

type Rows = Vec<(&'static str, Vec<u8>, Vec<u8>)>;

impl Flaky {
    fn set(&self, fails_at: Option<(usize, bool)>) {
        let mut state = self.0.lock().unwrap();
        (state.commits, state.largest, state.fails_at) = (0, 0, fails_at);
    }

    /// All that is in the tables of both releases.
    fn rows(&self) -> Rows {
        let reader = self.0.lock().unwrap().memory.snapshot().unwrap();
        let mut rows = Vec::new();
        for table in ["rows", "rows.by_tag", "rows.by_end", "rows.by_name", "indexes"] {
            reader
                .scan(table, ALL, Order::Ascending, &mut |key, value| {
                    rows.push((table, key.to_vec(), value.to_vec()));
                    Ok(ControlFlow::Continue(()))
                })
                .unwrap();
        }
        rows
    }

    fn start(&self, tables: &[TableInfo]) -> Store {
        let clock = Clock::at(Time::from_millis(1_800_000_000_000));
        Store::start(self.clone(), clock, Keys::new([7; 32]), tables).unwrap()
    }
}

fn row<const RELEASE: u8>(id: u32) -> Row<RELEASE> {
    let tag = (!id.is_multiple_of(3)).then(|| format!("TAG {}", id % 4));
    Row { id, name: format!("name {id}"), tag }
}

/// Storage that the old release filled with rows of two organizations.
fn filled(rows: u32) -> Flaky {
    let mut storage = Flaky::default();
    build(&mut storage, OLD, &|_| {}).unwrap();
    let store = storage.start(OLD);
    for owner in [1, 2] {
        let write = move |tx: &mut Tx| (0..rows).try_for_each(|id| tx.insert(&row::<1>(id)));
        store.write_blocking(org(owner), write).unwrap();
    }
    drop(store);
    storage.set(None);
    storage
}

/// Reads an index of the new release.
fn tagged(store: &Store) -> Result<usize> {
    store.read_now(org(1), |view| view.count(&BY_TAG, &(), 1000))
}

#[test]
fn what_differs_is_built_in_bounded_steps_and_what_is_gone_is_removed() {
    let mut storage = filled(30);
    let lines = Mutex::new(Vec::new());
    build(&mut storage, NEW, &|line| lines.lock().unwrap().push(line.to_string())).unwrap();
    let lines = lines.into_inner().unwrap();
    assert!(lines.contains(&"building the index rows.by_name: 7 records".to_string()), "{lines:?}");
    assert!(lines.contains(&"building the index rows.by_tag: 60 records".to_string()), "{lines:?}");
    assert_eq!(lines.last().unwrap(), "");
    let (commits, largest) = {
        let state = storage.0.lock().unwrap();
        (state.commits, state.largest)
    };
    assert!(commits > 20 && largest <= MAX_STEP_RECORDS + 1, "{commits} of {largest}");

    // The same as if the rows had been written by the new release.
    let mut fresh = Flaky::default();
    build(&mut fresh, NEW, &|_| panic!("nothing takes long")).unwrap();
    assert_eq!(fresh.0.lock().unwrap().commits, 1);
    let store = fresh.start(NEW);
    for owner in [1, 2] {
        let write = |tx: &mut Tx| (0..30).try_for_each(|id| tx.insert(&row::<2>(id)));
        store.write_blocking(org(owner), write).unwrap();
    }
    assert_eq!(storage.rows(), fresh.rows());

    let store = storage.start(NEW);
    assert_eq!(store.unbuilt(), Vec::<&str>::new());
    let findings = store.check(NEW).unwrap();
    assert_eq!((findings.wrong, findings.records, findings.entries), (0, 60, 60 + 40));
    drop(store);
    storage.set(None);
    build(&mut storage, NEW, &|_| panic!("nothing differs")).unwrap();
    assert_eq!(storage.0.lock().unwrap().commits, 0, "a complete index is not rebuilt");
}

#[test]
fn a_build_resumes_after_a_crash_at_any_step_and_no_list_is_short() {
    let whole = filled(20);
    build(&mut whole.clone(), NEW, &|_| {}).unwrap();
    let (rows, commits) = (whole.rows(), whole.0.lock().unwrap().commits);
    for at in 1..=commits {
        for is_kept in [false, true] {
            let mut storage = filled(20);
            storage.set(Some((at, is_kept)));
            build(&mut storage, NEW, &|_| {}).unwrap_err();
            storage.set(None);
            let store = storage.start(NEW);
            match tagged(&store) {
                Ok(count) => assert_eq!(count, 13, "crash at {at}"),
                Err(error) => assert_eq!(error.kind(), Kind::Internal),
            }
            drop(store);
            // What takes over may be interrupted as well, and may be the old release.
            storage.set(Some((2, is_kept)));
            let _ = build(&mut storage, if at % 2 == 0 { OLD } else { NEW }, &|_| {});
            storage.set(None);
            build(&mut storage, NEW, &|_| {}).unwrap();
            assert_eq!(storage.rows(), rows, "crash at {at}");
        }
    }
}

#[test]
fn going_back_to_the_old_release_builds_its_indexes_again() {
    let mut storage = filled(20);
    let before = storage.rows();
    build(&mut storage, NEW, &|_| {}).unwrap();
    build(&mut storage, OLD, &|_| {}).unwrap();
    assert_eq!(storage.rows(), before);
}

#[test]
fn an_index_that_is_not_whole_is_not_read_and_nothing_is_written() {
    let storage = filled(20);
    let store = storage.start(NEW);
    assert_eq!(store.unbuilt(), ["rows.by_name", "rows.by_tag"]);
    let detail = |error: Error| error.log_detail().unwrap_or_default().to_string();
    assert!(detail(tagged(&store).unwrap_err()).contains("rows.by_tag must be built"));
    let found = store.read_now(org(1), |view| view.find(&BY_NAME, &"name 1".to_string()));
    assert!(detail(found.unwrap_err()).contains("rows.by_name must be built"));
    let written = store.write_blocking(org(1), |tx| tx.insert(&row::<2>(99)));
    assert!(detail(written.unwrap_err()).contains("must be built"));
    // The rest is there, and is checked.
    let all = store.read_now(org(1), |view| view.all::<Row<2>>(ListSource::TABLE, &())).unwrap();
    assert_eq!(all.len(), 20);
    let findings = store.check(NEW).unwrap();
    assert_eq!((findings.wrong, findings.records, findings.entries), (0, 40, 0));
    assert_eq!(findings.unbuilt, ["rows.by_name", "rows.by_tag"]);
}

#[test]
fn old_rows_that_collide_in_a_unique_index_are_named() {
    let mut storage = filled(20);
    let store = storage.start(OLD);
    let twin = Row { name: "name 3".into(), ..row::<1>(1000) };
    store.write_blocking(org(2), move |tx| tx.insert(&twin)).unwrap();
    drop(store);
    let key = |id: u32| codec::hex(&(org(2), id).to_bytes());
    for _ in 0..2 {
        let error = build(&mut storage, NEW, &|_| {}).unwrap_err();
        let message = error.message();
        for part in ["rows.by_name", " of rows ", &key(3), &key(1000), "unique"] {
            assert!(message.contains(part), "{part}: {message}");
        }
    }
    // The old release is still good for it, and then the new one.
    build(&mut storage, OLD, &|_| {}).unwrap();
    let store = storage.start(OLD);
    store
        .write_blocking(org(2), |tx| {
            let twin: Row<1> = tx.fetch(&1000)?;
            tx.replace(&twin, &Row { name: "another".into(), ..twin.clone() })
        })
        .unwrap();
    drop(store);
    build(&mut storage, NEW, &|_| {}).unwrap();
    let findings = storage.start(NEW).check(NEW).unwrap();
    assert_eq!((findings.wrong, findings.records), (0, 41));
}

#[test]
fn an_undecodable_record_is_reported_with_its_key() {
    let mut storage = filled(3);
    let mut writes = WriteBatch::default();
    writes.add("rows", (org(1), 1u32).to_bytes(), WriteOp::Put(b"broken, as a whole".to_vec()));
    storage.commit(&writes);
    let error = build(&mut storage, NEW, &|_| {}).unwrap_err();
    assert!(error.message().contains("rows.by_name of rows cannot be built"), "{error}");
    assert!(error.message().contains("has a wrong checksum"), "{error}");
}

#[test]
fn on_a_file_the_indexes_of_the_next_release_are_built_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let clock = || Clock::at(Time::from_millis(1_800_000_000_000));
    let mut redb = Redb::create(&path, table_names(OLD)).unwrap();
    build(&mut redb, OLD, &|_| {}).unwrap();
    let store = Store::start(redb, clock(), Keys::new([7; 32]), OLD).unwrap();
    let write = |tx: &mut Tx| (0..30).try_for_each(|id| tx.insert(&row::<1>(id)));
    store.write_blocking(org(1), write).unwrap();
    drop(store);

    let mut redb = Redb::open(&path, table_names(NEW)).unwrap();
    build(&mut redb, NEW, &|_| {}).unwrap();
    let store = Store::start(redb, clock(), Keys::new([7; 32]), NEW).unwrap();
    assert_eq!(tagged(&store).unwrap(), 20);
    let findings = store.check(NEW).unwrap();
    assert_eq!((findings.wrong, findings.records, findings.entries), (0, 30, 30 + 20));
    let states = store.read_now(Id::NIL, |view| view.all::<IndexState>(ListSource::TABLE, &()));
    let states: Vec<_> = states.unwrap().into_iter().map(|state| state.name).collect();
    assert_eq!(states, ["rows.by_name", "rows.by_tag"]);
    drop(store);
    // Of the index that is gone nothing is left in its table either.
    let old = Redb::open(&path, table_names(OLD)).unwrap().snapshot().unwrap();
    old.scan("rows.by_end", ALL, Order::Ascending, &mut |_, _| panic!("an entry")).unwrap();
}

/// Each letter of a name, also one that is in it twice.
static BY_LETTER: Index<Row<3>, String> = Index::of_several("rows.by_letter", |row| {
    row.name.chars().filter(|c| c.is_alphabetic()).map(String::from).collect()
});

impl Record for Row<3> {
    const TABLE: &'static str = "rows";
    const INDEXES: &'static [&'static dyn AnyIndex<Self>] = &[&BY_LETTER];
    type Key = u32;
    fn key(&self) -> u32 {
        self.id
    }
}

#[test]
fn an_index_of_several_keys_is_built_for_what_is_stored_and_kept_by_each_change() {
    const LETTERS: &[TableInfo] = &[TableInfo::of::<Row<3>>()];
    let mut storage = filled(4);
    build(&mut storage, LETTERS, &|_| {}).unwrap();
    let store = storage.start(LETTERS);
    let found = |letter: &str| -> Vec<u32> {
        let all = |view: &crate::store::View| view.all(&BY_LETTER, &letter.to_string());
        store.read_now(org(1), all).unwrap().iter().map(|row: &Row<3>| row.id).collect()
    };
    assert_eq!(found("m"), [0, 1, 2, 3]);
    let change = |name: &'static str| {
        let write = move |tx: &mut Tx| {
            let old: Row<3> = tx.fetch(&2)?;
            tx.replace(&old, &Row { name: name.into(), ..old.clone() })
        };
        store.write_blocking(org(1), write).unwrap();
    };
    change("moon");
    assert_eq!((found("o"), found("m"), found("a")), (vec![2], vec![0, 1, 2, 3], vec![0, 1, 3]));
    change("42");
    assert_eq!((found("o"), found("m")), (vec![], vec![0, 1, 3]));
    store.write_blocking(org(1), |tx| tx.insert(&row::<3>(9))).unwrap();
    store.write_blocking(org(1), |tx| tx.remove(&row::<3>(1))).unwrap();
    assert_eq!(found("e"), [0, 3, 9]);
    let findings = store.check(LETTERS).unwrap();
    assert_eq!((findings.wrong, findings.records), (0, 8), "{:?}", findings.messages);
    drop(store);
    build(&mut storage, LETTERS, &|_| panic!("nothing differs")).unwrap();
}
