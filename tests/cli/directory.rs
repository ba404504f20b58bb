//! Which directories become data directories, and what is said of those that do not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;

use serde_json::json;

use crate::optional::needs_root;
use crate::process::{Ended, Place, Serving, run};

const SERVE: [&str; 3] = ["serve", "--listen", "127.0.0.1:0"];

/// A user without any rights, on every Linux.
const NOBODY: u32 = 65534;

#[test]
fn a_directory_with_foreign_files_is_refused() {
    let place = Place::new();
    fs::create_dir(place.data()).unwrap();
    fs::write(place.file("thesis.txt"), "mine").unwrap();
    place.run(&SERVE).fails(2, "thesis.txt");
    place.init(&[], None).fails(2, "thesis.txt");
    assert_eq!(fs::read_dir(place.data()).unwrap().count(), 1);
}

#[test]
fn a_database_whose_format_file_is_lost_is_not_replaced() {
    for rotated in [false, true] {
        let (place, _) = Place::founded();
        if rotated {
            place.run(&["secrets", "rotate", "--json"]).succeeds();
        }
        fs::remove_file(place.file("format")).unwrap();
        let names = || {
            let entries = fs::read_dir(place.data()).unwrap();
            entries.map(|entry| entry.unwrap().file_name()).collect::<BTreeSet<_>>()
        };
        let before = names();
        place.run(&SERVE).fails(2, "restore that from a backup");
        assert_eq!(names(), before);
    }
}

#[test]
fn the_database_of_a_running_server_is_not_replaced() {
    let (place, _) = Place::founded();
    let _running = Serving::start(&place, &[]);
    fs::remove_file(place.file("format")).unwrap();
    place.run(&SERVE).fails(2, "restore that from a backup");
    assert!(place.file("roadstead.redb").exists());
}

#[test]
fn must_exist_refuses_a_missing_directory() {
    let place = Place::new();
    place.run(&[&SERVE[..], &["--must-exist"]].concat()).fails(2, "not a data directory");
    assert!(!place.data().exists());
    fs::create_dir(place.data()).unwrap();
    place.run(&[&SERVE[..], &["--must-exist"]].concat()).fails(2, "not a data directory");
    let (place, _) = Place::founded();
    Serving::start(&place, &["--must-exist"]);
}

#[test]
fn serve_says_which_directory_it_serves_and_whether_it_was_made() {
    let place = Place::new();
    for created in [true, false] {
        let serving = Serving::start(&place, &[]);
        let path = fs::canonicalize(place.data()).unwrap();
        assert_eq!(serving.announced["dataDirectory"], json!(path));
        assert_eq!(serving.announced["created"], created);
    }
}

#[test]
fn a_file_in_place_of_the_directory_is_called_one() {
    let place = Place::new();
    fs::write(place.data(), "mine").unwrap();
    for args in [&SERVE[..], &["check"]] {
        place.run(args).fails(2, "is a file, not a directory");
    }
}

#[test]
fn check_of_a_missing_directory_names_the_flag() {
    Place::new().run(&["check"]).fails(2, "--data");
}

/// Runs a command as a user who may not do everything, as root may.
fn as_unprivileged(place: &Place, args: &[&str]) -> Ended {
    let mut command = place.command(args);
    if fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0) {
        command.uid(NOBODY).gid(NOBODY);
    }
    run(command, None)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_key_that_cannot_be_read_is_reported_with_its_owner() {
    let place = Place::new();
    place.init(&[], None);
    set_mode(place.data().parent().unwrap(), 0o755);
    set_mode(&place.data(), 0);
    as_unprivileged(&place, &SERVE).fails(2, "its directory belongs to the user");

    set_mode(&place.data(), 0o755);
    set_mode(&place.file("format"), 0o644);
    set_mode(&place.file("secret.key"), 0);
    let ended = as_unprivileged(&place, &SERVE);
    ended.fails(2, "secret.key cannot be read");
    ended.fails(2, "it belongs to the user");
    ended.fails(2, "(chown)");
}

#[test]
fn a_directory_that_cannot_be_read_is_not_taken_for_a_missing_one() {
    let place = Place::new();
    place.init(&[], None);
    set_mode(place.data().parent().unwrap(), 0o755);
    set_mode(&place.data(), 0);
    let commands: [&[&str]; 6] = [
        &["check"],
        &["doctor"],
        &["config", "show"],
        &["setup-link"],
        &["audit", "export"],
        &["serve", "--must-exist"],
    ];
    for command in commands {
        let ended = as_unprivileged(&place, command);
        assert_eq!(ended.code, Some(2), "{ended:?}");
        let said = [ended.stdout.as_str(), &ended.stderr].concat();
        assert!(said.contains("cannot be read: Permission denied"), "{ended:?}");
        assert!(said.contains("it belongs to the user"), "{ended:?}");
        assert!(!said.contains("not a data directory"), "{ended:?}");
    }
}

#[test]
fn a_directory_that_cannot_be_written_is_reported_with_its_owner() {
    let place = Place::new();
    fs::create_dir(place.data()).unwrap();
    set_mode(&place.data(), 0o555);
    set_mode(place.data().parent().unwrap(), 0o755);
    as_unprivileged(&place, &SERVE).fails(2, "exists but cannot be written");
    set_mode(&place.data(), 0o755);

    place.init(&[], None);
    for file in fs::read_dir(place.data()).unwrap() {
        set_mode(&file.unwrap().path(), 0o444);
    }
    // With its key from elsewhere: that of the directory must be its owner's alone.
    let key = fs::read_to_string(place.file("secret.key")).unwrap();
    let mut place = place;
    place.set(&[("ROADSTEAD_SECRET_KEY", key.trim())]);
    let mut command = place.command(&SERVE);
    command.uid(NOBODY).gid(NOBODY);
    let ended = run(command, None);
    ended.fails(2, "exists but cannot be written");
    assert!(ended.stderr.contains("belongs to the user"), "{ended:?}");
}

#[test]
fn what_a_command_of_root_creates_belongs_to_the_owner_of_the_directory() {
    let is_other = fs::metadata("/proc/self").is_ok_and(|own| own.uid() != 0);
    let missing = is_other.then_some("only root can give files to others");
    if needs_root("CHOWN", "a directory of another user", missing) {
        return;
    }
    let (place, _) = Place::founded();
    let entries = || fs::read_dir(place.data()).unwrap().map(|entry| entry.unwrap().path());
    for path in entries().chain([place.data(), place.data().parent().unwrap().into()]) {
        chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    // After a clean stop all is in the database: a log may be missing.
    for name in ["erasures", "reserve", "roadstead.wal-1", "roadstead.wal-2"] {
        fs::remove_file(place.file(name)).unwrap();
    }
    place.run(&["secrets", "rotate", "--json"]).succeeds();
    let backup = place.data().with_file_name("b");
    place.run(&["backup", backup.to_str().unwrap(), "--json"]).succeeds();
    for path in entries() {
        assert_eq!(path.metadata().unwrap().uid(), NOBODY, "{}", path.display());
    }
    let logs = ["roadstead.wal-1", "roadstead.wal-2"];
    for name in ["erasures", "reserve", "secret.key", "last-backup"].iter().chain(&logs) {
        assert!(place.file(name).exists(), "{name}");
    }
    as_unprivileged(&place, &["check", "--json"]).succeeds();
}

#[test]
fn one_that_is_in_use_names_the_process() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    let pid = serving.pid();
    let said = format!("roadstead.redb is in use by another process (pid {pid})");
    place.run(&["check"]).fails(2, &said);
}

#[test]
fn setup_link_says_where_it_looked() {
    let place = Place::new();
    let data = place.data().display().to_string();
    let none = place.run(&["setup-link"]);
    none.fails(1, &data);
    none.fails(1, "not a data directory");
    let (place, _) = Place::founded();
    let data = fs::canonicalize(place.data()).unwrap().display().to_string();
    place.run(&["setup-link"]).fails(1, &data);
}

#[test]
fn a_stopped_server_leaves_all_in_the_database_file_and_a_killed_one_needs_its_log() {
    for stops in [true, false] {
        let (place, key) = Place::founded();
        let mut serving = Serving::start(&place, &[]);
        let tool = serving.caller(&key).post("/tools", json!({"name": "t", "type": "x"})).id();
        if stops {
            serving.signal("TERM");
            serving.ends();
        } else {
            serving.kill();
            fs::remove_file(place.file("control.sock")).unwrap();
        }
        let copy = place.copy();
        for name in ["roadstead.wal-1", "roadstead.wal-2"] {
            fs::remove_file(copy.file(name)).unwrap();
        }
        if stops {
            copy.run(&["check", "--json"]).succeeds();
            let serving = Serving::start(&copy, &[]);
            serving.caller(&key).get(&format!("/tools/{tool}")).ok();
        } else {
            let refused = copy.run(&SERVE);
            refused.fails(2, "roadstead.wal-* is missing");
            let serving = Serving::start(&place, &[]);
            serving.caller(&key).get(&format!("/tools/{tool}")).ok();
        }
    }
}
