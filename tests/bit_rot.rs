//! Bits that flip in the file at rest: never served, always found by the check.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod records;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use records::*;
use roadstead::base::Result;
use roadstead::store::engine::{LoggedRedb, integrity};
use roadstead::store::{ListSource, Store, Tx};

fn task(id: u32) -> Task {
    Task {
        id,
        slug: id.is_multiple_of(2).then(|| format!("slug-{id}")),
        state: (id % 3) as u8,
        assignee: Some(None),
        text: "x".repeat(id as usize % 300),
    }
}

/// Reads everything in every way there is.
fn read(path: &Path) -> Result<Vec<Vec<Task>>> {
    let store = start(LoggedRedb::open(path, tables())?);
    store.read_now(org(0), |view| {
        let mut by_key = Vec::new();
        let mut by_slug = Vec::new();
        for id in 0..400 {
            by_key.extend(view.get::<Task>(&id)?);
            by_slug.extend(view.find(&TASKS_BY_SLUG, &format!("slug-{id}"))?);
        }
        Ok(vec![
            by_key,
            by_slug,
            view.all(ListSource::TABLE, &())?,
            view.all(&TASKS_BY_SLUG, &())?,
            view.all(&TASKS_BY_WORK, &())?,
        ])
    })
}

/// How one file with a flipped bit fares.
#[derive(Debug, PartialEq)]
enum Served {
    Right,
    /// An error or a panic, which is the caller's 500.
    Refused,
    /// Records are not found that are there: a key or a page number in the tree flipped. redb
    /// does not verify pages as it reads; only the check finds these.
    Missing,
    /// Something that was never stored.
    Wrong,
}

fn served(path: &Path, truth: &[Vec<Task>]) -> Served {
    let Ok(Ok(got)) = catch_unwind(AssertUnwindSafe(|| read(path))) else {
        return Served::Refused;
    };
    let known = |(got, truth): (&Vec<Task>, &Vec<Task>)| got.iter().all(|g| truth.contains(g));
    match got {
        got if got == truth => Served::Right,
        got if got.iter().zip(truth).all(known) => Served::Missing,
        _ => Served::Wrong,
    }
}

fn cycles() -> usize {
    std::env::var("ROADSTEAD_TEST_CYCLES").map_or(200, |n| n.parse().unwrap())
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    /// Flips a bit in one of the bytes at `used`; returns which.
    fn flip(&mut self, bytes: &mut [u8], used: &[usize]) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let at = used[(self.0 >> 33) as usize % used.len()];
        bytes[at] ^= 1 << (self.0 >> 61);
        at
    }
}

/// `ROADSTEAD_TEST_CYCLES` sets how many bits are flipped, one at a time (200 by default).
#[test]
fn a_flipped_bit_is_never_served_and_always_found_by_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let store: Store = start(LoggedRedb::create(&path, tables()).unwrap());
    for ids in (0..400).step_by(50) {
        let insert = move |tx: &mut Tx| (ids..ids + 50).try_for_each(|id| tx.insert(&task(id)));
        store.write_blocking(org(0), insert).unwrap();
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let truth = read(&path).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let (mut random, mut refused, cycles) = (Random(1), 0, cycles());
    for cycle in 0..cycles {
        let mut flipped = whole.clone();
        let at = random.flip(&mut flipped, &used);
        std::fs::write(&path, &flipped).unwrap();
        let served = served(&path, &truth);
        assert_ne!(served, Served::Wrong, "flip {cycle} at byte {at}");
        refused += usize::from(served == Served::Refused);
        if served != Served::Right {
            std::fs::write(&path, &flipped).unwrap();
            assert!(!integrity(&path).unwrap(), "flip {cycle} at byte {at}: {served:?}, not found");
        }
    }
    assert!(refused * 10 > cycles, "flips hit what is read");
}

/// A database whose server was killed: nothing of the last writes is in the file, all in the log.
#[test]
fn a_flipped_bit_in_the_log_is_noticed_when_it_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let log = |database: &Path| ["wal-1", "wal-2"].map(|ending| database.with_extension(ending));
    let store: Store = start(LoggedRedb::create(&path, tables()).unwrap());
    for id in 0..40 {
        store.write_blocking(org(0), move |tx| tx.insert(&task(id))).unwrap();
    }
    let last_at = std::fs::read(&log(&path)[0]).unwrap().iter().rposition(|byte| *byte != 0);
    let last_at = last_at.unwrap() + 1;
    store.write_blocking(org(0), |tx| tx.insert(&task(40))).unwrap();
    let killed = tempfile::tempdir().unwrap();
    let crashed = killed.path().join("store.redb");
    let database = std::fs::read(&path).unwrap();
    let files = log(&path).map(|file| std::fs::read(file).unwrap());
    drop(store);
    let put = |contents: &[Vec<u8>; 2]| {
        std::fs::write(&crashed, &database).unwrap();
        for (file, content) in log(&crashed).iter().zip(contents) {
            std::fs::write(file, content).unwrap();
        }
    };
    put(&files);
    let truth = read(&crashed).unwrap();
    assert_eq!(truth[2].len(), 41);
    let (mut random, mut refused) = (Random(1), 0);
    let used: Vec<usize> = (0..files[0].len()).filter(|at| files[0][*at] != 0).collect();
    for cycle in 0..cycles() {
        let mut flipped = files.clone();
        let at = random.flip(&mut flipped[0], &used);
        put(&flipped);
        match read(&crashed) {
            Ok(read) if read == truth => {}
            // As if the power had gone while the last record was written: nobody can tell.
            Ok(read) => assert!(at >= last_at && read[2] == truth[2][..40], "flip {cycle} at {at}"),
            Err(error) => {
                assert!(error.message().starts_with("the log "), "flip {cycle} at {at}: {error}");
                refused += 1;
            }
        }
    }
    assert!(refused * 10 > cycles() * 8, "flips hit what is needed");
}
