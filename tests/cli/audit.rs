//! `roadstead audit` and what `roadstead check` says of audit logs (reference: audit-log).

use std::fs;
use std::path::Path;

use roadstead::api::audit::{ChainHead, ChainedEntry};
use roadstead::app::DataDir;
use roadstead::auth::Organization;
use roadstead::base::{Id, Result};
use roadstead::store::{ListSource, Tx};
use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::process::{Ended, Place, Serving};

const CHECKPOINT: [&str; 3] = ["audit", "checkpoint", "--json"];

fn make_teams(owner: &Caller, numbers: std::ops::Range<usize>) {
    for n in numbers {
        owner.post("/teams", json!({"slug": format!("t{n}"), "name": "T"})).ok();
    }
}

/// Runs a command once the process before it has released the directory.
fn run(place: &Place, args: &[&str]) -> Ended {
    eventually("the directory is free", || {
        let ended = place.run(args);
        (ended.code != Some(2) || !ended.stderr.contains("another process")).then_some(ended)
    })
}

/// The checkpoint of the only organization and its number of entries.
fn checkpoint(place: &Place) -> (String, u64) {
    let taken = run(place, &CHECKPOINT).succeeds();
    let end = &taken["checkpoints"][0];
    (end["value"].as_str().unwrap().into(), end["sequence"].as_u64().unwrap())
}

fn against(place: &Place, value: &str) -> Ended {
    run(place, &[&CHECKPOINT[..], &["--against", value]].concat())
}

/// Asserts that a comparison failed, and says so.
#[track_caller]
fn differs(compared: &Ended, finding: &str) {
    assert_eq!(compared.code, Some(1), "{compared:?}");
    assert!(compared.stderr.contains("does not continue its checkpoint"), "{compared:?}");
    assert!(compared.stdout.contains(finding), "{compared:?}");
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for file in fs::read_dir(from).unwrap().map(|file| file.unwrap()) {
        if file.file_type().unwrap().is_file() {
            fs::copy(file.path(), to.join(file.file_name())).unwrap();
        }
    }
}

fn stop(serving: &mut Serving) {
    serving.signal("TERM");
    serving.ends();
}

#[test]
fn a_checkpoint_is_taken_and_compared_while_the_server_runs_or_not() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    make_teams(&serving.caller(&key), 0..5);
    let (first, entries) = eventually("the entries are chained", || {
        let taken = checkpoint(&place);
        (taken.1 >= 5).then_some(taken)
    });
    make_teams(&serving.caller(&key), 5..8);
    assert_eq!(against(&place, &first).succeeds()["continues"], true);
    stop(&mut serving);
    let (second, after) = checkpoint(&place);
    assert_eq!(after, entries + 3, "a stopped server leaves no entry out of the chain");
    let file = place.file("kept.txt");
    fs::write(&file, place.run(&["audit", "checkpoint"]).stdout).unwrap();
    for value in [first.as_str(), second.as_str(), file.to_str().unwrap()] {
        assert_eq!(against(&place, value).succeeds()["continues"], true);
    }
    against(&place, &second[..second.len() - 1]).fails(2, "not a whole checkpoint");
    against(&place, "no-such-file").fails(2, "cannot be read");
    // Another installation never had the organization.
    let (other, _) = Place::founded();
    against(&other, &second).fails(1, "an organization that this installation does not have");
    let (other_value, _) = checkpoint(&other);
    let mut serving = Serving::start(&place, &[]);
    against(&place, &other_value).fails(1, "an organization that this installation does not have");
    stop(&mut serving);
}

#[test]
fn a_directory_restored_from_an_older_copy_does_not_continue_its_checkpoint() {
    let (place, key) = Place::founded();
    let older = Place::new();
    let mut serving = Serving::start(&place, &[]);
    make_teams(&serving.caller(&key), 0..3);
    stop(&mut serving);
    checkpoint(&place);
    copy(&place.data(), &older.data());
    let mut serving = Serving::start(&place, &[]);
    make_teams(&serving.caller(&key), 3..6);
    stop(&mut serving);
    let (kept, _) = checkpoint(&place);
    assert_eq!(run(&older, &["check", "--json"]).succeeds()["sound"], true);
    differs(&against(&older, &kept), "it is an older state, or was cut off");
    let mut serving = Serving::start(&older, &[]);
    make_teams(&serving.caller(&key), 3..9);
    stop(&mut serving);
    differs(&against(&older, &kept), "went on from an older state");
    assert_eq!(run(&older, &["check", "--json"]).succeeds()["sound"], true);
}

/// Changes the rows of a directory as somebody does who can write the file.
fn change(place: &Place, change: fn(&mut Tx, Vec<ChainedEntry>) -> Result<()>) {
    let store = eventually("the directory is free", || DataDir::at(place.data()).open().ok());
    let organizations = store.read_now(Id::NIL, |view| view.all(ListSource::TABLE, &()));
    let org = organizations.map(|all: Vec<Organization>| all[0].id).unwrap();
    let changed = store.write_blocking(org, move |tx| {
        let entries = tx.all(ListSource::TABLE, &())?;
        change(tx, entries)
    });
    changed.unwrap();
}

fn findings(place: &Place) -> Vec<String> {
    let checked = run(place, &["check", "--json"]);
    assert_eq!(checked.code, Some(1), "{checked:?}");
    let shown: Value = serde_json::from_str(&checked.stdout).unwrap();
    serde_json::from_value(shown["findings"].clone()).unwrap()
}

#[test]
fn the_check_says_where_the_log_was_changed_and_cut() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    make_teams(&serving.caller(&key), 0..8);
    stop(&mut serving);
    let (kept, last) = checkpoint(&place);
    change(&place, |tx, entries| {
        let mut new = entries[2].clone();
        new.entry.actor_name = "Eve".into();
        tx.replace(&entries[2], &new)?;
        tx.remove(&entries[entries.len() - 1])
    });
    let found = findings(&place);
    assert!(found[0].contains("entry 3 (") && found[0].ends_with("was changed"), "{found:?}");
    assert!(found[1].contains(&format!("entry {last} is missing")), "{found:?}");
    assert!(found[2].contains(&format!("cut off after entry {}", last - 1)), "{found:?}");
    differs(&against(&place, &kept), "was changed");
    change(&place, |tx, _| {
        let head: ChainHead = tx.fetch(&())?;
        tx.remove(&head)
    });
    assert!(findings(&place)[1].ends_with("the record of its end is missing"));
}

#[test]
fn the_log_is_exported_as_json_lines_while_the_server_runs_or_not() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    make_teams(&serving.caller(&key), 0..600);
    let export = ["audit", "export", "--org", "acme"];
    let lines = |text: &str| -> Vec<Value> {
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let running = eventually("the entries are chained", || {
        let exported = lines(&place.run(&export).stdout);
        (exported.iter().filter(|one| one["action"] == "team.create").count() == 600)
            .then_some(exported)
    });
    for (index, pair) in running.windows(2).enumerate() {
        assert_eq!(pair[0]["sequence"], json!(index + 1));
        assert_eq!(pair[1]["previousHash"], pair[0]["hash"]);
    }
    stop(&mut serving);
    assert_eq!(lines(&run(&place, &export).stdout), running);
    run(&place, &["audit", "export", "--org", "nobody"]).fails(1, "no such organization");
}

#[test]
fn a_killed_server_loses_no_entry_and_reorders_none() {
    let (place, key) = Place::founded();
    let mut made = 0;
    for round in 0..4 {
        let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
        make_teams(&serving.caller(&key), made..made + 40 + round);
        made += 40 + round;
        serving.kill();
    }
    let mut serving = Serving::start(&place, &[]);
    stop(&mut serving);
    assert_eq!(run(&place, &["check", "--json"]).succeeds()["sound"], true);
    let exported = run(&place, &["audit", "export"]).stdout;
    let entries = exported.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let teams: Vec<_> = entries.filter(|one| one["action"] == "team.create").collect();
    assert_eq!(teams.len(), made);
    let times: Vec<_> = teams.iter().map(|one| one["createdAt"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "entries of one caller are in the order of their requests");
}
