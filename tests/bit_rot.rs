//! Bits that flip in the file at rest: never served, always found by the check.
#![allow(clippy::unwrap_used)] // A test that cannot continue should stop.

mod records;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use records::*;
use roadstead::base::Result;
use roadstead::store::engine::{Redb, integrity};
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
    let store = start(Redb::open(path, tables())?);
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

/// `ROADSTEAD_TEST_CYCLES` sets how many bits are flipped, one at a time (200 by default).
#[test]
fn a_flipped_bit_is_never_served_and_always_found_by_the_check() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let store: Store = start(Redb::create(&path, tables()).unwrap());
    for ids in (0..400).step_by(50) {
        let insert = move |tx: &mut Tx| (ids..ids + 50).try_for_each(|id| tx.insert(&task(id)));
        store.write_blocking(org(0), insert).unwrap();
    }
    drop(store);
    let whole = std::fs::read(&path).unwrap();
    let truth = read(&path).unwrap();
    let used: Vec<usize> = (0..whole.len()).filter(|at| whole[*at] != 0).collect();
    let cycles = std::env::var("ROADSTEAD_TEST_CYCLES").map_or(200, |n| n.parse().unwrap());
    let (mut random, mut refused) = (1u64, 0);
    for cycle in 0..cycles {
        random = random.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        let at = used[(random >> 33) as usize % used.len()];
        let mut flipped = whole.clone();
        flipped[at] ^= 1 << (random >> 61);
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
