//! The ledger of erasures that a backup is restored with.

use super::*;
use crate::app::erasures::LedgerNote;
use crate::store::{Clock, Erasure, Record as _};

fn erase(place: &Place, number: u32) {
    let org = place.store.read_now(Id::NIL, organizations::all).unwrap()[0];
    place.store.write_blocking(org, move |tx| tx.record_erasure("memories", &number)).unwrap();
    let ledger = crate::app::erasures::Ledger::open(place.dir.path(), &place.store).unwrap();
    place.store.set_ledger(std::sync::Arc::new(ledger));
}

/// A copy of the ledger as it is now.
fn copied(place: &Place, name: &str) -> std::path::PathBuf {
    let copy = place.place.path().join(name);
    fs::copy(place.dir.path().join("erasures"), &copy).unwrap();
    copy
}

fn restored_with(place: &Place, backup: &[u8], ledger: &Path) -> Result<Restored, BackupError> {
    let settings = RestoreSettings { erasures: Some(ledger.into()), ..place.settings() };
    let restored = place.restore(backup, &settings);
    let _ = fs::remove_dir_all(place.other().path());
    restored
}

#[test]
fn a_ledger_that_is_older_than_the_backup_is_refused_and_a_later_one_says_until_when_it_goes() {
    let place = founded();
    let empty = copied(&place, "empty");
    erase(&place, 1);
    let early = copied(&place, "early");
    erase(&place, 2);
    let backup = place.backup();
    let same = copied(&place, "same");
    for older in [&empty, &early] {
        let said = refused(restored_with(&place, &backup, older));
        assert!(said.contains("is older than the backup"), "{said}");
        assert!(place.beside_other().is_empty());
    }
    let until = Erasures::read(&same).unwrap().until();
    let used = restored_with(&place, &backup, &same).unwrap().ledger.unwrap();
    assert_eq!(used, LedgerUsed { until, is_compared: true });
    let taken_at = Backup::open(backup.as_slice()).unwrap().header.taken_at;
    while place.store.clock().now() <= taken_at {}
    erase(&place, 3);
    let later = restored_with(&place, &backup, place.dir.path()).unwrap().ledger.unwrap();
    assert!(later.until > until);
    // It went on from an older copy: what it has of later does not show what it lacks.
    let text = fs::read_to_string(place.dir.path().join("erasures")).unwrap();
    let noted = fs::read_to_string(&same).unwrap().lines().last().unwrap().to_string();
    let kept: Vec<_> = text.lines().filter(|line| *line != noted).collect();
    let other = place.place.path().join("branch");
    fs::write(&other, kept.join("\n") + "\n").unwrap();
    let said = refused(restored_with(&place, &backup, &other));
    assert!(said.contains("is older than the backup"), "{said}");
}

#[test]
fn a_backup_that_notes_nothing_of_the_ledger_is_restored_with_any() {
    let place = founded();
    erase(&place, 1);
    let early = copied(&place, "early");
    erase(&place, 2);
    let backup = super::rewritten(&place.backup(), |header| header.erasures = None);
    let used = restored_with(&place, &backup, &early).unwrap().ledger.unwrap();
    assert!(!used.is_compared && used.until.is_some());
}

#[test]
fn what_has_expired_since_the_backup_is_not_missed() {
    let now = Clock::system().now();
    let day = |days: i64| now.minus_secs(days * 24 * 3600);
    let erasure = |days: i64| Erasure::recorded(day(days), "memories".into(), vec![7]);
    let ledger = |since: i64, days: &[i64]| {
        Erasures::new("i".into(), day(since), days.iter().map(|days| erasure(*days)).collect())
    };
    let place = tempfile::tempdir().unwrap();
    ledger(900, &[500, 450]).write(place.path()).unwrap();
    let note = LedgerNote::of_directory(place.path()).unwrap();
    assert!(!ledger(400, &[]).is_older_than(&note));
    assert!(ledger(900, &[500]).is_older_than(&note));
    assert!(!ledger(900, &[500, 450]).is_older_than(&note));
    assert!(ledger(900, &[500, 1]).is_older_than(&note));
}

#[test]
fn the_erasures_in_a_backup_go_into_the_new_ledger_and_not_into_the_store() {
    // As of a store that is its own ledger: the server over a directory would never forget them.
    let place = founded();
    let org = place.store.read_now(Id::NIL, organizations::all).unwrap()[0];
    let erase = |tx: &mut Tx| (0..100_u32).try_for_each(|n| tx.record_erasure("memories", &n));
    place.store.write_blocking(org, erase).unwrap();
    let backup = place.backup();
    for ledger in [None, Some(place.dir.path().to_path_buf())] {
        let settings = RestoreSettings { erasures: ledger, ..place.settings() };
        place.restore(&backup, &settings).unwrap();
        let read = Erasures::read(place.other().path()).unwrap();
        assert_eq!(read.all.len(), 100);
        let store = place.other().open().unwrap();
        assert!(store.erasures().unwrap().is_empty());
        assert!(records(&store).keys().all(|(table, _)| *table != Erasure::TABLE));
        drop(store);
        fs::remove_dir_all(place.other().path()).unwrap();
    }
}
