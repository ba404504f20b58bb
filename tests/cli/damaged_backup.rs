//! Backups of a data directory in whose file bits have flipped (reference: backup, "Making one").

use std::fs;
use std::path::Path;
use std::process::Stdio;

use age::secrecy::ExposeSecret as _;
use serde_json::{Value, json};

use crate::backup::{file, names, private, stop};
use crate::client::eventually;
use crate::process::{Ended, Place, Serving};
use crate::repair::Tables;

/// What is said of a record whose bits have flipped.
const WRONG: &str = "has a wrong checksum";

/// Flips a bit of the last record of a table, in the database file.
fn flip(place: &Place, table: &'static str) {
    let (_, value) = Tables::of(place).rows(table).pop().unwrap();
    let path = place.file("roadstead.redb");
    let mut database = fs::read(&path).unwrap();
    let found = database.windows(value.len()).enumerate().filter(|(_, bytes)| *bytes == value);
    let found: Vec<_> = found.map(|(at, _)| at).collect();
    assert!(!found.is_empty());
    // Pages that are not in use any more may have it, too.
    found.iter().for_each(|at| database[at + value.len() / 2] ^= 1);
    fs::write(path, database).unwrap();
}

/// A directory with two agents, of which the record of the second cannot be read.
fn damaged() -> (Place, String) {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    let owner = serving.caller(&key);
    for name in ["ann", "bob"] {
        owner.post("/agents", json!({"stableKey": name, "name": name})).ok();
    }
    stop(&mut serving);
    drop(serving);
    flip(&place, "agents");
    (place, key)
}

/// Serves it; what finds the record may say so.
fn serve(place: &Place) -> Serving {
    let mut serving = Serving::start(place, &[]);
    serving.expect_errors(&[WRONG]);
    serving
}

/// Makes a backup to stdout, and stores what came there under this name.
fn through_pipe(place: &Place, name: &str, more: &[&str]) -> Ended {
    let mut command = place.command(&[&["backup", "-"][..], more].concat());
    let made = command.stdin(Stdio::null()).output().unwrap();
    fs::write(file(place, name), &made.stdout).unwrap();
    let stderr = String::from_utf8(made.stderr).unwrap();
    Ended { code: made.status.code(), stdout: String::new(), stderr }
}

fn restore(from: &Place, name: &str, more: &[&str]) -> (Place, Ended) {
    let (to, backup, key) = (Place::new(), file(from, name), from.file("secret.key"));
    let args = ["restore", &backup, "--json", "--without-erasures", "--secret-key-file"];
    let ended = to.run(&[&args[..], &[key.to_str().unwrap()], more].concat());
    (to, ended)
}

fn lists_one(value: &Value) {
    assert_eq!(value["leftOut"]["count"], 1, "{value}");
    let record = value["leftOut"]["records"][0].as_str().unwrap();
    assert!(record.starts_with("agents ") && record.ends_with(WRONG), "{value}");
}

/// A directory that serves, with the agent that could be read, and that a repair makes sound.
fn has_the_rest(place: &Place, key: &str) {
    let mut serving = Serving::start(place, &[]);
    let agents = serving.caller(key).get("/agents").items();
    assert_eq!(agents.len(), 1, "{agents:?}");
    stop(&mut serving);
    let repaired = eventually("the directory is free", || {
        let ended = place.run(&["repair", "--json"]);
        (!ended.stderr.contains("another process")).then_some(ended)
    });
    let repaired = repaired.succeeds();
    let sound = &repaired["repair"]["after"]["sound"];
    assert!(repaired["repair"].is_null() || *sound == json!(true), "{repaired}");
}

/// The two keys of a recipient; the one that decrypts is in a file.
fn recipient(place: &Place) -> (String, String) {
    let identity = age::x25519::Identity::generate();
    let file = private(place, "identity", identity.to_string().expose_secret());
    (identity.to_public().to_string(), file)
}

#[test]
fn a_record_that_cannot_be_read_makes_no_backup_without_a_word() {
    for is_served in [false, true] {
        let (place, _) = damaged();
        let serving = is_served.then(|| serve(&place));
        let (recipient, _) = recipient(&place);
        let before = names(place.data().parent().unwrap());
        let b = file(&place, "b");
        for more in [&[][..], &["--recipient", &recipient]] {
            let ended = place.run(&[&["backup", b.as_str()][..], more].concat());
            ended.fails(1, WRONG);
            ended.fails(1, "agents ");
            ended.fails(1, "roadstead repair");
            ended.fails(1, "--despite-damage");
            assert_eq!(names(place.data().parent().unwrap()), before, "nothing is left");
        }
        let ended = through_pipe(&place, "b", &[]);
        ended.fails(1, WRONG);
        place.run(&["backup", "--verify", &b]).fails(1, "the file has no end");
        restore(&place, "b", &[]).1.fails(1, "the file has no end");
        drop(serving);
    }
}

#[test]
fn with_despite_damage_the_rest_is_in_the_backup_and_what_is_not_is_listed() {
    for is_served in [false, true] {
        let (place, key) = damaged();
        let serving = is_served.then(|| serve(&place));
        let (recipient, identity) = recipient(&place);
        let (b, despite) = (file(&place, "b"), "--despite-damage");
        let made = place.run(&["backup", &b, despite, "--json"]).succeeds();
        lists_one(&made);
        assert_eq!(made["verified"], true);
        lists_one(&place.run(&["backup", "--verify", &b, "--json"]).succeeds());
        let shown = place.run(&["backup", &b, despite, "--replace"]);
        assert!(shown.stdout.contains("are not in it: 1\n  agents "), "{shown:?}");
        let shown = place.run(&["backup", "--verify", &b]);
        assert!(shown.stdout.contains("are not in it: 1\n  agents "), "{shown:?}");
        let piped = through_pipe(&place, "piped", &[despite]);
        assert_eq!(piped.code, Some(0), "{piped:?}");
        assert!(piped.stderr.contains("are not in it: 1\n  agents "), "{piped:?}");
        let sealed = file(&place, "sealed");
        let seal = ["backup", &sealed, despite, "--recipient", &recipient, "--json"];
        lists_one(&place.run(&seal).succeeds());
        drop(serving);
        let identity = ["--identity", &identity];
        for (name, more) in [("b", &[][..]), ("piped", &[]), ("sealed", &identity)] {
            let (to, ended) = restore(&place, name, more);
            lists_one(&ended.succeeds());
            has_the_rest(&to, &key);
        }
    }
}

/// The ends of audit logs are collected before the records.
#[test]
fn records_that_are_needed_for_the_ends_of_audit_logs_are_left_out_too() {
    for table in ["organizations", "audit_log.heads"] {
        let (place, key) = Place::founded();
        let mut serving = Serving::start(&place, &[]);
        let agent = json!({"stableKey": "ann", "name": "ann"});
        serving.caller(&key).post("/agents", agent).ok();
        eventually("an entry is chained", || {
            let taken = place.run(&["audit", "checkpoint", "--json"]).succeeds();
            (taken["checkpoints"][0]["sequence"].as_u64() >= Some(1)).then_some(())
        });
        stop(&mut serving);
        flip(&place, table);
        let b = file(&place, "b");
        place.run(&["backup", &b]).fails(1, &format!("{table} "));
        let made = place.run(&["backup", &b, "--despite-damage", "--json"]).succeeds();
        assert_eq!((&made["leftOut"]["count"], &made["auditCheckpoints"]), (&json!(1), &json!([])));
        assert_eq!(restore(&place, "b", &[]).1.succeeds()["leftOut"]["count"], 1);
    }
}

/// What is in the log alone is read with it, and that refuses what is damaged.
#[test]
fn a_directory_whose_log_is_damaged_is_not_backed_up() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    // The last record of a log could be one that was never completed.
    for (key_of_agent, name) in [("zoe", "zoe-of-the-log"), ("yan", "yan")] {
        let agent = json!({"stableKey": key_of_agent, "name": name});
        serving.caller(&key).post("/agents", agent).ok();
    }
    serving.signal("KILL");
    serving.ends();
    let flipped = ["roadstead.wal-1", "roadstead.wal-2"].map(|name| {
        let mut log = fs::read(place.file(name)).unwrap();
        let name_of_agent = b"zoe-of-the-log";
        let at = log.windows(name_of_agent.len()).position(|part| part == name_of_agent);
        at.inspect(|at| log[*at] ^= 1);
        fs::write(place.file(name), log).unwrap();
        at.is_some()
    });
    assert!(flipped.contains(&true), "the database has it already");
    let b = file(&place, "b");
    for more in [&[][..], &["--despite-damage"]] {
        let refused = eventually("the directory is free", || {
            let ended = place.run(&[&["backup", b.as_str()][..], more].concat());
            (!ended.stderr.contains("in use")).then_some(ended)
        });
        refused.fails(2, "roadstead repair");
    }
    assert!(!Path::new(&b).exists());
}

#[test]
fn a_directory_of_an_older_release_is_recommended_for_a_check_when_it_is_restored_too() {
    let (place, _) = Place::founded();
    fs::remove_file(place.file("written-by")).unwrap();
    place.run(&["backup", &file(&place, "b"), "--json"]).succeeds();
    let (to, ended) = restore(&place, "b", &[]);
    ended.succeeds();
    let log = |place: &Place| {
        let mut serving = Serving::start(place, &[]);
        serving.signal("TERM");
        serving.ends().2
    };
    let recommends = |log: &str| log.contains("roadstead check --data");
    let first = log(&to);
    assert!(recommends(&first), "{first}");
    assert!(!recommends(&log(&to)));
    // The program that has served it loses nothing.
    to.run(&["backup", &file(&to, "b"), "--json"]).succeeds();
    let (again, ended) = restore(&to, "b", &[]);
    ended.succeeds();
    assert!(!recommends(&log(&again)));
}
