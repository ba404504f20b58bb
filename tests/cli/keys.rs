//! The installation's key: its sources, and failures with a wrong or missing one.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use crate::process::{Ended, Place, Serving};

const KEY: &str = "5f0c1d2e3f4a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4";
const OTHER: &str = "a60c1d2e3f4a5b6c7d8e9fa0b1c2d3e4f5061728394a5b6c7d8e9fa0b1c2d3e4";
const VARIABLE: &str = "ROADSTEAD_SECRET_KEY";

/// Runs every command that opens the data directory.
fn all(place: &Place) -> Vec<Ended> {
    let serve = place.run(&["serve", "--listen", "127.0.0.1:0"]);
    vec![serve, place.run(&["check"]), place.init(&[], None)]
}

#[track_caller]
fn all_refuse(place: &Place, with: &str) {
    for ended in all(place) {
        ended.fails(2, with);
        for secret in [KEY, OTHER] {
            assert!(!ended.stderr.contains(secret), "{ended:?}");
        }
    }
}

/// Writes a key like a systemd credential.
fn credential(folder: &Path, key: &str) -> String {
    let file = folder.join("secret.key");
    fs::create_dir_all(folder).unwrap();
    let _ = fs::remove_file(&file);
    fs::write(&file, key).unwrap();
    fs::set_permissions(file, fs::Permissions::from_mode(0o440)).unwrap();
    folder.to_str().unwrap().into()
}

#[test]
fn a_key_in_the_variable_is_never_written() {
    let mut place = Place::new();
    place.set(&[(VARIABLE, KEY)]);
    let made = place.init(&["--json"], None).succeeds();
    let key = made["apiKey"]["key"].as_str().unwrap();
    let serving = Serving::start(&place, &[]);
    assert_eq!(serving.caller(key).get("/organizations/members").items().len(), 1);
    drop(serving);
    assert_eq!(place.run(&["check"]).code, Some(0));
    assert!(!place.file("secret.key").exists());
    for file in fs::read_dir(place.data()).unwrap().map(|file| file.unwrap()) {
        if !file.file_type().unwrap().is_file() {
            continue; // The socket of the server, which was killed.
        }
        let bytes = fs::read(file.path()).unwrap();
        assert!(!bytes.windows(KEY.len()).any(|window| window == KEY.as_bytes()));
    }
}

#[test]
fn wrong_missing_and_invalid_keys_are_refused_with_their_origin() {
    let mut place = Place::new();
    place.set(&[(VARIABLE, KEY)]);
    place.init(&["--json"], None).succeeds();

    place.set(&[(VARIABLE, OTHER)]);
    all_refuse(&place, "the variable ROADSTEAD_SECRET_KEY is not the key");
    for no_key in ["", &KEY[1..], "palaver"] {
        place.set(&[(VARIABLE, no_key)]);
        all_refuse(&place, "openssl rand -hex 32");
    }
    place.set(&[]);
    all_refuse(&place, "is missing");

    let credentials = place.file("../credentials");
    let name = credential(&credentials, OTHER);
    place.set(&[("CREDENTIALS_DIRECTORY", &name)]);
    all_refuse(&place, "credentials/secret.key is not the key");
    credential(&credentials, KEY);
    assert_eq!(place.run(&["check"]).code, Some(0));

    place.set(&[]);
    fs::write(place.file("secret.key"), OTHER).unwrap();
    all_refuse(&place, "chmod 600");
    let own = fs::Permissions::from_mode(0o600);
    fs::set_permissions(place.file("secret.key"), own).unwrap();
    all_refuse(&place, "data/secret.key is not the key");
    fs::write(place.file("secret.key"), KEY).unwrap();
    assert_eq!(place.run(&["check"]).code, Some(0));
}

#[test]
fn an_invalid_key_creates_no_directory() {
    let mut place = Place::new();
    place.set(&[(VARIABLE, "palaver")]);
    place.init(&[], None).fails(2, "openssl rand -hex 32");
    place.run(&["serve", "--listen", "127.0.0.1:0"]).fails(2, "openssl rand -hex 32");
    place.run(&["demo", "--listen", "127.0.0.1:0"]).fails(2, "openssl rand -hex 32");
    assert!(!place.data().exists());
}

#[test]
fn help_names_the_variable_without_its_value() {
    let mut place = Place::new();
    place.set(&[(VARIABLE, KEY)]);
    let help = place.run(&["--help"]);
    assert!(help.stdout.contains(VARIABLE), "{help:?}");
    let commands = ["serve", "init", "demo", "check", "routes", "openapi", "setup-link"];
    let commands =
        commands.map(|command| vec![command]).into_iter().chain([vec!["secrets", "rotate"]]);
    for command in commands {
        let help = place.run(&[&command[..], &["--help"]].concat());
        assert_eq!(help.code, Some(0), "{help:?}");
        assert!(!help.stdout.contains(KEY) && !help.stderr.contains(KEY), "{help:?}");
    }
}
