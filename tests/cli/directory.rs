//! Which directories become data directories, and what is said of those that do not.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;

use serde_json::json;

use crate::process::{Place, Serving, run};

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
fn a_directory_that_cannot_be_written_is_reported_with_its_owner() {
    let place = Place::new();
    let as_nobody = |args: &[&str]| {
        let mut command = place.command(args);
        // Root may write everywhere.
        if fs::metadata("/proc/self").is_ok_and(|own| {
            use std::os::unix::fs::MetadataExt as _;
            own.uid() == 0
        }) {
            command.uid(NOBODY).gid(NOBODY);
        }
        run(command, None)
    };
    fs::create_dir(place.data()).unwrap();
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o555)).unwrap();
    fs::set_permissions(place.data().parent().unwrap(), fs::Permissions::from_mode(0o755)).unwrap();
    as_nobody(&SERVE).fails(2, "exists but cannot be written");
    fs::set_permissions(place.data(), fs::Permissions::from_mode(0o755)).unwrap();

    place.init(&[], None);
    for file in fs::read_dir(place.data()).unwrap() {
        let mode = fs::Permissions::from_mode(0o444);
        fs::set_permissions(file.unwrap().path(), mode).unwrap();
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
fn one_that_is_in_use_names_the_process() {
    let (place, _) = Place::founded();
    let serving = Serving::start(&place, &[]);
    place.run(&["check"]).fails(2, &format!("(pid {})", serving.pid()));
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
