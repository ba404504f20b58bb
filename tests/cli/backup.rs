//! `roadstead backup` and `restore`: of a running server, under load, killed, on a full disk, and
//! decrypted by the real age (reference: backup).

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

use crate::client::{Caller, eventually};
use crate::optional::{CANNOT_MOUNT, is_left_out, needs_root};
use crate::process::{Ended, Place, Serving, run};

/// The path of a backup beside the data directory.
pub fn file(place: &Place, name: &str) -> String {
    place.data().with_file_name(name).to_str().unwrap().into()
}

fn back_up(place: &Place, name: &str, more: &[&str]) -> Value {
    let file = file(place, name);
    place.run(&[&["backup", file.as_str(), "--json"][..], more].concat()).succeeds()
}

/// Restores a backup into a new place, with the key of the old one.
fn restore(from: &Place, name: &str, more: &[&str]) -> (Place, Ended) {
    let to = Place::new();
    let (file, key) = (file(from, name), from.file("secret.key"));
    let key = ["--secret-key-file", key.to_str().unwrap()];
    let ended = to.run(&[&["restore", file.as_str(), "--json"][..], &key, more].concat());
    (to, ended)
}

fn with_ledger(of: &Place) -> [String; 2] {
    ["--erasures".into(), of.data().to_str().unwrap().into()]
}

fn restored(from: &Place, name: &str) -> (Place, Value) {
    let ledger = with_ledger(from);
    let (to, ended) = restore(from, name, &[&ledger[0], &ledger[1]]);
    (to, ended.succeeds())
}

pub fn sound(place: &Place) {
    let checked = eventually("the directory is free", || {
        let ended = place.run(&["check", "--json"]);
        (!ended.stderr.contains("another process")).then_some(ended)
    });
    assert_eq!(checked.succeeds()["sound"], true, "{checked:?}");
}

pub fn stop(serving: &mut Serving) {
    serving.signal("TERM");
    serving.ends();
}

/// An agent in a team: the path of its memories.
fn memories(owner: &Caller) -> String {
    let team = owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    owner.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    let hired = json!({"stableKey": "ann", "role": "member"});
    let agent = owner.post(&format!("/teams/{team}/agents"), hired).id();
    format!("/teams/{team}/agents/{agent}/memories")
}

/// Text that compression does not make small.
fn noise(seed: u64, bytes: usize) -> String {
    let mut state = seed | 1;
    let next = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        format!("{state:016x}")
    });
    next.take(bytes / 16).collect()
}

/// Stores more than fits into the buffers between a server and a command that does not read on.
pub fn fill(owner: &Caller) {
    for nth in 0..16 {
        let config = json!({"text": noise(nth + 1, 400_000)});
        owner.post("/tools", json!({"name": "t", "type": "x", "providerConfig": config})).ok();
    }
}

/// A backup to a pipe that nobody reads on, so that it cannot end; its first bytes are there.
fn stalled(place: &Place) -> Child {
    let mut command = place.command(&["backup", "-"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut first = [0; 1024];
    child.stdout.as_mut().unwrap().read_exact(&mut first).unwrap();
    child
}

pub fn names(directory: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(directory).unwrap();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

// ── Making and restoring ─────────────────────────────────────────────────────

#[test]
fn a_backup_under_write_load_has_what_was_acknowledged_before_it() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let owner = serving.caller(&key);
    let team = owner.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    let tasks = format!("/teams/{team}/tasks");
    let acknowledged = Arc::new(Mutex::new(Vec::new()));
    let over = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..4)
        .map(|_| {
            let (owner, tasks) = (owner.clone(), tasks.clone());
            let (acknowledged, over) = (acknowledged.clone(), over.clone());
            thread::spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    let id = owner.post(&tasks, json!({"title": "t"})).id();
                    acknowledged.lock().unwrap().push(id);
                }
            })
        })
        .collect();
    let mut expected = Vec::new();
    for name in ["first", "second", "third"] {
        let so_far = acknowledged.lock().unwrap().len();
        eventually("more was written", || {
            (acknowledged.lock().unwrap().len() >= so_far + 40).then_some(())
        });
        let before = acknowledged.lock().unwrap().clone();
        let made = back_up(&place, name, &[]);
        assert_eq!((&made["verified"], &made["encrypted"]), (&json!(true), &json!(false)));
        expected.push((name, before));
    }
    over.store(true, Ordering::Relaxed);
    writers.into_iter().for_each(|writer| writer.join().unwrap());
    stop(&mut serving);
    for (name, before) in expected {
        let (to, done) = restored(&place, name);
        assert_eq!(done["erased"], 0);
        sound(&to);
        let again = Serving::start(&to, &["--rate-limit", "0"]);
        let caller = again.caller(&key);
        for id in before {
            caller.get(&format!("{tasks}/{id}")).ok();
        }
    }
}

#[test]
fn a_backup_is_made_of_a_directory_that_no_server_has_open_too() {
    let (place, _) = Place::founded();
    let made = back_up(&place, "b", &[]);
    let path = PathBuf::from(file(&place, "b"));
    assert_eq!(made["bytes"], path.metadata().unwrap().len());
    let verified = place.run(&["backup", "--verify", path.to_str().unwrap(), "--json"]).succeeds();
    for field in ["backupId", "takenAt", "records", "key", "auditCheckpoints"] {
        assert_eq!(made[field], verified[field], "{field}");
    }
    assert_eq!(names(path.parent().unwrap()), ["b", "data"].map(String::from).into());
    let (to, done) = restored(&place, "b");
    assert_eq!(done["keyInDirectory"], true);
    sound(&to);
    Place::new().run(&["backup", path.to_str().unwrap()]).fails(2, "not a data directory");
}

#[test]
fn a_restored_directory_continues_the_audit_checkpoints_of_its_backup() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    let owner = serving.caller(&key);
    let count = |place: &Place| {
        let taken = place.run(&["audit", "checkpoint", "--json"]).succeeds();
        taken["checkpoints"][0]["sequence"].as_u64().unwrap()
    };
    memories(&owner);
    eventually("the entries are chained", || (count(&place) >= 3).then_some(()));
    let made = back_up(&place, "b", &[]);
    let checkpoint = made["auditCheckpoints"][0].as_str().unwrap().to_string();
    owner.post("/teams", json!({"slug": "later", "name": "Later"})).ok();
    eventually("the entry is chained", || (count(&place) >= 4).then_some(()));
    let later = place.run(&["audit", "checkpoint"]).stdout;
    let later = later.split_whitespace().next().unwrap();
    stop(&mut serving);
    let (to, _) = restored(&place, "b");
    let against = |value: &str| to.run(&["audit", "checkpoint", "--against", value, "--json"]);
    assert_eq!(against(&checkpoint).succeeds()["continues"], true);
    assert_eq!(against(later).code, Some(1), "it shows that the state is older");
}

#[test]
fn memories_deleted_after_the_backup_do_not_come_back() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    let owner = serving.caller(&key);
    let path = memories(&owner);
    let remember = |text: &str| owner.post(&path, json!({"content": text})).id();
    let (kept, deleted, older) = (remember("kept"), remember("deleted"), remember("older"));
    back_up(&place, "b", &[]);
    owner.delete(&format!("{path}/{deleted}")).ok();
    owner.post(&path, json!({"content": "newer", "supersedes": older})).ok();
    // The database is lost at once, and the file beside it is not.
    serving.kill();
    fs::remove_file(place.file("roadstead.redb")).unwrap();
    let recall = |place: &Place| {
        let serving = Serving::start(place, &[]);
        let items = serving.caller(&key).get(&path).items();
        items.iter().map(|item| item["id"].as_str().unwrap().to_string()).collect::<Vec<_>>()
    };
    let (to, done) = restored(&place, "b");
    assert_eq!(done["erased"], 1);
    sound(&to);
    assert_eq!(recall(&to), [older.clone(), kept.clone()], "a superseded one is live as it was");
    // The restored directory has the ledger for the next time.
    let (again, done) = restore(&place, "b", &["--erasures", to.data().to_str().unwrap()]);
    assert_eq!(done.succeeds()["erased"], 1);
    assert_eq!(recall(&again).len(), 2);
    let (without, _) = restore(&place, "b", &["--without-erasures"]);
    assert_eq!(recall(&without), [older, deleted, kept]);
    restore(&place, "b", &[]).1.fails(2, "--without-erasures");
}

#[test]
fn the_memories_of_a_dismissed_agent_and_of_a_deleted_team_do_not_come_back() {
    for of_team in [false, true] {
        let (place, key) = Place::founded();
        let mut serving = Serving::start(&place, &[]);
        let owner = serving.caller(&key);
        let path = memories(&owner);
        for _ in 0..3 {
            owner.post(&path, json!({"content": "x"})).ok();
        }
        back_up(&place, "b", &[]);
        let agent = path.strip_suffix("/memories").unwrap();
        let team = agent.split("/agents").next().unwrap();
        owner.delete(if of_team { team } else { agent }).ok();
        serving.kill();
        let (to, done) = restored(&place, "b");
        assert_eq!(done["erased"], 3);
        sound(&to);
    }
}

// ── What goes wrong ──────────────────────────────────────────────────────────

#[test]
fn a_second_backup_at_the_same_time_is_refused_and_commands_go_on() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    fill(&serving.caller(&key));
    let mut first = stalled(&place);
    let other = file(&place, "other");
    place.run(&["backup", &other]).fails(1, "another backup of this server is being made");
    place.run(&["audit", "checkpoint", "--json"]).succeeds();
    assert_eq!(names(place.data().parent().unwrap()), ["data".to_string()].into());
    let mut rest = Vec::new();
    first.stdout.take().unwrap().read_to_end(&mut rest).unwrap();
    assert!(first.wait().unwrap().success());
    place.run(&["backup", &other, "--json"]).succeeds();
}

#[test]
fn a_killed_backup_does_not_hold_up_the_next_one() {
    let (place, key) = Place::founded();
    let serving = Serving::start(&place, &[]);
    fill(&serving.caller(&key));
    let mut killed = stalled(&place);
    killed.kill().unwrap();
    killed.wait().unwrap();
    let made = eventually("the server has noticed", || {
        let ended = place.run(&["backup", &file(&place, "b"), "--json"]);
        (ended.code == Some(0)).then_some(ended)
    });
    assert!(made.succeeds()["records"].as_u64().unwrap() > 16);
    // What a process left that was killed while it wrote a file is replaced.
    fs::write(file(&place, "c.unfinished"), "half").unwrap();
    back_up(&place, "c", &[]);
    assert!(!Path::new(&file(&place, "c.unfinished")).exists());
    drop(serving);
    sound(&place);
}

#[test]
fn a_backup_of_a_server_that_is_killed_fails_and_leaves_nothing() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    fill(&serving.caller(&key));
    let mut backup = stalled(&place);
    serving.kill();
    let mut stdout = Vec::new();
    backup.stdout.take().unwrap().read_to_end(&mut stdout).unwrap();
    let ended = backup.wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("the server ended before the backup did"), "{said}");
    sound(&place);
    let _serving = Serving::start(&place, &[]);
    back_up(&place, "b", &[]);
}

#[test]
fn a_backup_to_a_full_disk_fails_and_leaves_nothing() {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &[]);
    fill(&serving.caller(&key));
    stop(&mut serving);
    let full = "mount -t tmpfs -o size=1m tmpfs \"$1\" || exit 77
        \"$2\" backup \"$1/b\" --data \"$3\"; code=$?; ls -A \"$1\"; exit $code";
    let disk = tempfile::tempdir().unwrap();
    let mut command = Command::new("unshare");
    command.args(["-Urm", "sh", "-c", full, "sh"]).arg(disk.path());
    command.arg(env!("CARGO_BIN_EXE_roadstead")).arg(place.data());
    let ended = run(command, None);
    if !matches!(ended.code, Some(0..=2)) {
        needs_root("MOUNTS", "a backup to a full disk", Some(CANNOT_MOUNT));
        return;
    }
    ended.fails(1, "No space left on device");
}

#[test]
fn a_damaged_or_foreign_backup_is_refused_by_name() {
    let (place, _) = Place::founded();
    back_up(&place, "b", &[]);
    let whole = fs::read(file(&place, "b")).unwrap();
    for (bytes, code, why) in [
        (&whole[..whole.len() / 2], 1, "damaged: block"),
        (&whole[..whole.len() - 1], 1, "cut short"),
        (b"a thesis about something else", 2, "not a backup of Roadstead"),
    ] {
        fs::write(file(&place, "broken"), bytes).unwrap();
        let verified = place.run(&["backup", "--verify", &file(&place, "broken")]);
        verified.fails(code, why);
        verified.fails(code, "broken");
        let (to, ended) = restore(&place, "broken", &["--without-erasures"]);
        ended.fails(code, why);
        assert!(names(to.data().parent().unwrap()).is_empty());
    }
    place.run(&["backup", "--verify", &file(&place, "none")]).fails(2, "cannot be read");
    place.run(&["backup", &file(&place, "b")]).fails(2, "--replace");
    back_up(&place, "b", &["--replace"]);
    let inside = place.file("b");
    place.run(&["backup", inside.to_str().unwrap()]).fails(2, "is in the data directory");
}

#[test]
fn restoring_into_a_directory_that_is_not_empty_or_without_the_key_is_refused() {
    let (place, _) = Place::founded();
    back_up(&place, "b", &[]);
    let b = file(&place, "b");
    place.run(&["restore", &b, "--without-erasures"]).fails(2, "is not empty");
    let to = Place::new();
    let refused = to.run(&["restore", &b, "--without-erasures"]);
    refused.fails(2, "the key of this backup is not in it");
    assert!(!to.data().exists());
    let mut to = to;
    let key = fs::read_to_string(place.file("secret.key")).unwrap();
    to.set(&[("ROADSTEAD_SECRET_KEY", key.trim())]);
    let done = to.run(&["restore", &b, "--without-erasures", "--json"]).succeeds();
    assert_eq!(done["keyInDirectory"], false);
    assert!(!to.file("secret.key").exists());
    sound(&to);
}

// ── Streams and encryption ───────────────────────────────────────────────────

#[test]
fn a_backup_goes_through_pipes_and_says_nothing() {
    let (place, _) = Place::founded();
    let mut backup = place.command(&["backup", "-"]);
    let made = backup.output().unwrap();
    assert!(made.status.success() && made.stderr.is_empty(), "{made:?}");
    let to = Place::new();
    let key = place.file("secret.key");
    let mut restore = to.command(&["restore", "-", "--without-erasures"]);
    let mut child = restore
        .arg("--secret-key-file")
        .arg(key)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), &made.stdout).unwrap();
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success() && ended.stderr.is_empty(), "{ended:?}");
    sound(&to);
}

/// A private file beside the data directory.
pub fn private(place: &Place, name: &str, content: &str) -> String {
    use std::os::unix::fs::PermissionsExt as _;
    let path = file(place, name);
    fs::write(&path, content).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    path
}

#[test]
fn an_encrypted_backup_may_hold_the_key_and_needs_its_passphrase() {
    let (place, _) = Place::founded();
    let passphrase = private(&place, "passphrase", "a long passphrase\n");
    let wrong = private(&place, "wrong", "another passphrase\n");
    let encrypt = ["--passphrase-file", &passphrase, "--with-secret-key"];
    let made = back_up(&place, "b", &encrypt);
    assert_eq!((&made["encrypted"], &made["hasSecretKey"]), (&json!(true), &json!(true)));
    let b = file(&place, "b");
    let verify =
        |file: &str| place.run(&["backup", "--verify", &b, "--passphrase-file", file, "--json"]);
    assert_eq!(verify(&passphrase).succeeds()["verified"], true);
    verify(&wrong).fails(2, "the passphrase is wrong");
    place.run(&["backup", "--verify", &b]).fails(2, "--passphrase-file");
    let to = Place::new();
    let restore = ["restore", &b, "--without-erasures", "--passphrase-file", &passphrase];
    let done = to.run(&[&restore[..], &["--json"]].concat()).succeeds();
    assert_eq!(done["keyInDirectory"], true);
    sound(&to);
    place.run(&["backup", &file(&place, "c"), "--with-secret-key"]).fails(2, "needs encryption");
    fs::set_permissions(&passphrase, std::os::unix::fs::PermissionsExt::from_mode(0o644)).unwrap();
    verify(&passphrase).fails(2, "chmod 600");
}

#[test]
fn the_real_age_decrypts_a_backup_and_encrypts_one() {
    let has = |program: &str| Command::new(program).arg("--version").output().is_ok();
    let is_missing = !has("age") || !has("age-keygen");
    let missing = is_missing.then_some("it is not installed (apt-get install age)");
    if is_left_out("AGE", "age", missing) {
        return;
    }
    let (place, _) = Place::founded();
    let identity = file(&place, "identity");
    let made = Command::new("age-keygen").args(["-o", &identity]).output().unwrap();
    let said = String::from_utf8(made.stderr).unwrap();
    let recipient = said.split_whitespace().last().unwrap();
    back_up(&place, "b", &["--recipient", recipient]);
    let (b, plain) = (file(&place, "b"), file(&place, "plain"));
    let age = |args: &[&str]| assert!(Command::new("age").args(args).status().unwrap().success());
    age(&["--decrypt", "-i", &identity, "-o", &plain, &b]);
    let verified = |args: &[&str]| {
        place.run(&[&["backup", "--verify", "--json"][..], args].concat()).succeeds()["records"]
            .clone()
    };
    let records = verified(&[&plain]);
    assert_eq!(verified(&["--identity", &identity, &b]), records);
    // And the other way round.
    age(&["--recipient", recipient, "-o", &file(&place, "again"), &plain]);
    assert_eq!(verified(&["--identity", &identity, &file(&place, "again")]), records);
    place.run(&["backup", "--verify", &b]).fails(2, "--identity");
    let another = file(&place, "another");
    assert!(Command::new("age-keygen").args(["-o", &another]).output().unwrap().status.success());
    place.run(&["backup", "--verify", &b, "--identity", &another]).fails(2, "another recipient");
}
