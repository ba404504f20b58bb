//! Directories that are restored into.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{founded, refused};
use crate::app::backup::restore::move_into_place;

/// A new disk is where one restores to, and what is mounted cannot be replaced by another directory.
#[test]
fn a_new_file_system_is_restored_into() {
    let place = founded();
    let (backup, other) = (place.backup(), place.other());
    fs::create_dir_all(other.path().join("lost+found")).unwrap();
    // What a restore left that was killed.
    fs::create_dir_all(other.path().join("unfinished")).unwrap();
    fs::write(other.path().join("unfinished").join("roadstead.redb"), "a part").unwrap();
    let cut = &backup[..backup.len() - 1];
    assert!(place.restore(cut, &place.settings()).is_err());
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1, "nothing is left");
    place.restore(&backup, &place.settings()).unwrap();
    assert_eq!(place.beside_other(), ["data"]);
    assert!(other.path().join("lost+found").exists() && !other.path().join("unfinished").exists());
    assert_eq!(fs::metadata(other.path()).unwrap().mode() & 0o777, 0o700);
    assert!(other.open().is_ok());
    assert!(refused(place.restore(&backup, &place.settings())).contains("is not empty"));
}

#[test]
fn what_was_being_moved_up_when_a_restore_was_killed_is_named() {
    let place = founded();
    let (backup, other) = (place.backup(), place.other());
    fs::create_dir_all(other.path().join("lost+found")).unwrap();
    fs::create_dir_all(other.path().join("unfinished")).unwrap();
    fs::write(other.path().join("roadstead.redb"), "moved").unwrap();
    fs::write(other.path().join("unfinished").join("format"), "not yet").unwrap();
    let why = refused(place.restore(&backup, &place.settings()));
    assert!(why.contains("has roadstead.redb,"), "{why}");
    assert!(why.contains("delete all of it, and unfinished"), "{why}");
    // Before that it is nothing but what is replaced.
    fs::remove_file(other.path().join("roadstead.redb")).unwrap();
    place.restore(&backup, &place.settings()).unwrap();
    assert!(other.open().is_ok());
}

#[test]
fn files_that_cannot_all_be_moved_up_are_moved_back() {
    let place = tempfile::tempdir().unwrap();
    let unfinished = place.path().join("unfinished");
    fs::create_dir(&unfinished).unwrap();
    for name in ["a", "format", "z"] {
        fs::write(unfinished.join(name), name).unwrap();
        // Nothing is moved over a directory.
        fs::create_dir(place.path().join("z")).ok();
    }
    assert!(move_into_place(&unfinished, place.path()).is_err());
    let left = |path: &Path| fs::read_dir(path).unwrap().count();
    assert_eq!((left(&unfinished), left(place.path())), (3, 2));
}

#[test]
fn only_an_empty_directory_is_restored_into() {
    let place = founded();
    let (backup, other) = (place.backup(), place.other());
    fs::create_dir_all(other.path()).unwrap();
    fs::write(other.path().join("mine"), "mine").unwrap();
    let why = refused(place.restore(&backup, &place.settings()));
    assert!(why.contains("is not empty: it has mine;"), "{why}");
    assert_eq!(fs::read_dir(other.path()).unwrap().count(), 1);
    fs::remove_file(other.path().join("mine")).unwrap();
    place.restore(&backup, &place.settings()).unwrap();
    assert!(refused(place.restore(&backup, &place.settings())).contains("is not empty"));
    assert!(other.open().is_ok());
}

/// Which program made the backup says nothing of the release that wrote the rows.
#[test]
fn a_directory_of_an_older_release_is_still_one_when_it_is_restored() {
    let place = founded();
    let written = |dir: &Path| fs::read_to_string(dir.join("written-by")).ok();
    for version in [Some("0.0.7\n"), None] {
        let file = place.dir.path().join("written-by");
        fs::remove_file(&file).unwrap();
        version.iter().for_each(|version| fs::write(&file, version).unwrap());
        place.restore(&place.backup(), &place.settings()).unwrap();
        assert_eq!(written(place.other().path()).as_deref(), version);
        fs::remove_dir_all(place.other().path()).unwrap();
    }
}

#[test]
fn what_a_killed_restore_left_is_replaced() {
    let place = founded();
    let left = place.place.path().join("other").join("data.restoring");
    fs::create_dir_all(&left).unwrap();
    fs::write(left.join("roadstead.redb"), "half").unwrap();
    place.restore(&place.backup(), &place.settings()).unwrap();
    assert_eq!(place.beside_other(), ["data"]);
    assert!(place.other().open().is_ok());
}
