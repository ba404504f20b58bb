//! The ledger as a file: what is recorded is there after a crash, and damage is not overlooked.

use tempfile::TempDir;

use super::*;
use crate::app::DataDir;
use crate::store::{Clock, Org};

const KEY: u32 = 7;

fn directory() -> (TempDir, DataDir, Store) {
    let place = tempfile::tempdir().unwrap();
    let dir = DataDir::at(place.path().join("data"));
    let store = dir.create().unwrap();
    (place, dir, store)
}

fn org(number: u128) -> Id<Org> {
    Id::new(uuid::Uuid::from_u128(number))
}

fn erase(store: &Store, org: Id<Org>, prefix: u32) {
    store.write_blocking(org, move |tx| tx.record_erasure("memories", &prefix)).unwrap();
}

fn key(org: Id<Org>, rest: &[u8]) -> Vec<u8> {
    [org.bytes().as_slice(), rest].concat()
}

#[tokio::test]
async fn an_acknowledged_erasure_is_in_the_file() {
    let (_place, dir, store) = directory();
    store.write(org(1), |tx| tx.record_erasure("memories", &KEY)).await.unwrap();
    let read = Erasures::read(dir.path()).unwrap();
    assert_eq!(read.all.len(), 1);
    assert!(read.has("memories", &key(org(1), &[0, 0, 0, 7])));
    assert!(read.has("memories", &key(org(1), &[0, 0, 0, 7, 1, 2])), "all keys that begin so");
    assert!(!read.has("memories", &key(org(2), &[0, 0, 0, 7])));
    assert!(!read.has("tasks", &key(org(1), &[0, 0, 0, 7])));
    assert!(!read.has("memories", org(1).bytes()));
}

#[tokio::test]
async fn recorded_erasures_are_forgotten_by_the_store() {
    let (_place, dir, store) = directory();
    for _ in 0..200 {
        store.write(org(1), |tx| tx.record_erasure("memories", &KEY)).await.unwrap();
    }
    assert!(store.erasures().unwrap().len() < FORGET_AT_ONCE);
    assert_eq!(Erasures::read(dir.path()).unwrap().all.len(), 200, "each is recorded once");
}

#[test]
fn what_was_not_recorded_before_a_crash_is_recorded_at_the_next_start() {
    let (_place, dir, store) = directory();
    erase(&store, org(1), KEY);
    drop(store);
    assert_eq!(Erasures::read(dir.path()).unwrap().all.len(), 0);
    drop(dir.open().unwrap());
    assert_eq!(Erasures::read(dir.path()).unwrap().all.len(), 1);
}

#[test]
fn what_the_store_could_not_forget_is_not_recorded_again() {
    let (_place, dir, store) = directory();
    let ledger = Ledger::open(dir.path(), &store).unwrap();
    for number in 0..=FORGET_AT_ONCE {
        erase(&store, org(1), u32::try_from(number).unwrap());
    }
    let all = store.erasures().unwrap();
    for _ in 0..3 {
        assert!(ledger.record(&all).unwrap(), "they are to be forgotten");
    }
    assert_eq!(Erasures::read(dir.path()).unwrap().all.len(), all.len());
}

#[test]
fn a_line_that_was_being_written_is_cut_off() {
    let (_place, dir, store) = directory();
    let ledger = Ledger::open(dir.path(), &store).unwrap();
    erase(&store, org(1), KEY);
    ledger.record(&store.erasures().unwrap()).unwrap();
    let path = dir.path().join(ERASURES);
    let whole = fs::read(&path).unwrap();
    fs::write(&path, [whole.as_slice(), b"1800000000000 memor"].concat()).unwrap();
    assert_eq!(Erasures::read(dir.path()).unwrap().all.len(), 1);
    let ledger = Ledger::open(dir.path(), &store).unwrap();
    erase(&store, org(2), KEY);
    ledger.record(&store.erasures().unwrap()).unwrap();
    let read = Erasures::read(dir.path()).unwrap();
    assert!(read.has("memories", &key(org(2), &[0, 0, 0, 7])), "{}", read.all.len());
}

#[test]
fn a_damaged_line_is_named_and_not_passed_over() {
    let (_place, dir, store) = directory();
    let ledger = Ledger::open(dir.path(), &store).unwrap();
    for number in 0..3 {
        erase(&store, org(1), number);
    }
    ledger.record(&store.erasures().unwrap()).unwrap();
    let path = dir.path().join(ERASURES);
    let whole = fs::read_to_string(&path).unwrap();
    for (at, byte) in whole.bytes().enumerate() {
        let mut damaged = whole.clone().into_bytes();
        damaged[at] = if byte == b'\n' { b'x' } else { byte ^ 1 };
        fs::write(&path, damaged).unwrap();
        // Only without its end the last line cannot be told from one that was being written.
        let is_last = at == whole.len() - 1;
        assert_eq!(Erasures::read(dir.path()).is_ok(), is_last, "byte {at}");
    }
    let huge = [whole.as_bytes(), &[0; 10_000], b"\n", whole.as_bytes()].concat();
    fs::write(&path, huge).unwrap();
    let said = Erasures::read(dir.path()).err().unwrap().0;
    assert!(said.contains("line 5 is damaged"), "{said}");
}

#[test]
fn expired_erasures_are_removed_and_the_ledger_says_since_when_it_is_complete() {
    let (_place, dir, store) = directory();
    let now = Clock::system().now();
    let day = |days: i64| now.minus_secs(days * 24 * 3600);
    let path = dir.path().join(ERASURES);
    let mut text = title_line(&installation_id(store.keys()), day(900));
    for days in [800, 500, 399, 1] {
        text += &with_checksum(&format!("{} memories 00", day(days).millis()));
    }
    fs::write(&path, text).unwrap();
    Ledger::open(dir.path(), &store).unwrap();
    let read = Erasures::read(dir.path()).unwrap();
    assert_eq!(read.all.len(), 2);
    assert!(read.since >= day(400) && read.since < day(399));
    Ledger::open(dir.path(), &store).unwrap();
    assert_eq!(Erasures::read(dir.path()).unwrap().since, read.since);
}

#[test]
fn a_ledger_that_cannot_be_used_is_kept_aside() {
    let (_place, dir, store) = directory();
    for unusable in ["", "something else\n", &title_line("another", Time::from_millis(0))] {
        fs::write(dir.path().join(ERASURES), unusable).unwrap();
        Ledger::open(dir.path(), &store).unwrap();
        assert_eq!(Erasures::read(dir.path()).unwrap().all.len(), 0);
    }
    let names = fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let aside = names.filter(|name| name.to_string_lossy().contains("unusable")).count();
    assert!(aside >= 1);
}

#[test]
fn a_ledger_that_was_begun_later_does_not_claim_what_it_lacks_when_old_lines_are_removed() {
    let (_place, dir, store) = directory();
    let now = Clock::system().now();
    let day = |days: i64| now.minus_secs(days * 24 * 3600);
    // As restored from a backup without its ledger.
    let old = Erasure::recorded(day(900), "memories".into(), vec![7]);
    fs::remove_file(dir.path().join(ERASURES)).unwrap();
    Erasures::new(installation_id(store.keys()), day(5), vec![old]).write(dir.path()).unwrap();
    Ledger::open(dir.path(), &store).unwrap();
    let read = Erasures::read(dir.path()).unwrap();
    assert_eq!((read.all.len(), read.since), (0, day(5)));
}
