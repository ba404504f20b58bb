//! `backup`, `restore`, `import` and uploads killed (SIGKILL) at any moment: what remains is nothing or
//! all of it, the data is sound, and the same command again completes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{fs, thread};

use serde_json::{Value, json};

use crate::backup::{file, fill, names, sound};
use crate::client::Caller;
use crate::dice::Dice;
use crate::process::{PASSWORD, Place, Serving};

/// How often each is killed, at moments spread over the time that it takes.
const TIMES: u32 = 4;

fn quiet(mut command: Command) -> Command {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// How long a command takes that is not killed.
fn time_of(command: Command) -> Duration {
    let begin = Instant::now();
    assert!(quiet(command).status().unwrap().success());
    begin.elapsed()
}

/// Runs a command and kills it after this time; returns whether it had not ended yet.
fn kill_after(command: Command, time: Duration) -> bool {
    let mut child = quiet(command).spawn().unwrap();
    // Time decides only when it is killed.
    thread::sleep(time);
    let is_killed = child.try_wait().unwrap().is_none();
    child.kill().unwrap();
    child.wait().unwrap();
    is_killed
}

/// The `n`th of the moments at which something is killed that takes `whole`.
fn moment(whole: Duration, n: u32) -> Duration {
    whole * (2 * n + 1) / (2 * TIMES)
}

/// An installation with records of 6 MB, without a server.
fn filled() -> (Place, String) {
    let (place, key) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    fill(&serving.caller(&key));
    serving.signal("TERM");
    serving.ends();
    (place, key)
}

// ── Backups ──────────────────────────────────────────────────────────────────

#[test]
fn a_backup_killed_at_any_moment_is_not_there_or_whole() {
    let (place, _) = filled();
    let _serving = Serving::start(&place, &[]);
    let make = |name: &str| place.command(&["backup", &file(&place, name)]);
    let whole = time_of(make("first"));
    let mut unfinished = 0;
    for n in 0..TIMES {
        let name = format!("b{n}");
        kill_after(make(&name), moment(whole, n));
        let (path, left) = (file(&place, &name), file(&place, &format!("{name}.unfinished")));
        if Path::new(&left).exists() {
            unfinished += 1;
            assert!(!Path::new(&path).exists());
            let verified = place.run(&["backup", "--verify", &left]);
            assert!(matches!(verified.code, Some(0..=2)), "{verified:?}");
        }
        if Path::new(&path).exists() {
            place.run(&["backup", "--verify", &path, "--json"]).succeeds();
        }
        let again = crate::client::eventually("the server has noticed", || {
            let again = place.run(&["backup", &path, "--replace", "--json"]);
            (!again.stderr.contains("another backup")).then_some(again)
        });
        assert_eq!(again.succeeds()["verified"], true);
        assert!(!Path::new(&left).exists());
    }
    assert!(unfinished > 0, "none was killed while it was written");
}

#[test]
fn a_restore_killed_at_any_moment_is_not_there_or_whole() {
    let (place, _) = filled();
    let b = file(&place, "b");
    place.run(&["backup", &b, "--json"]).succeeds();
    let key = place.file("secret.key");
    let args = ["restore", &b, "--without-erasures", "--secret-key-file", key.to_str().unwrap()];
    let whole = time_of(Place::new().command(&args));
    let mut unfinished = 0;
    for n in 0..TIMES {
        let to = Place::new();
        let beside = to.data().parent().unwrap().to_path_buf();
        kill_after(to.command(&args), moment(whole, n));
        if to.data().exists() {
            sound(&to);
        } else {
            unfinished += names(&beside).len();
            to.run(&["serve", "--must-exist"]).fails(2, "not a data directory");
            to.run(&[&args[..], &["--json"]].concat()).succeeds();
            sound(&to);
        }
        assert_eq!(names(&beside), BTreeSet::from(["data".to_string()]));
    }
    assert!(unfinished > 0, "none was killed while it was written");
}

// ── Imports ──────────────────────────────────────────────────────────────────

/// The lines of the export of an organization, without the first and the last; none if it is not
/// there.
fn exported(place: &Place, slug: &str) -> Option<usize> {
    let ended = place.run(&["export", "--org", slug, "-"]);
    if ended.code == Some(1) {
        assert!(ended.stderr.contains("no such organization"), "{ended:?}");
        return None;
    }
    assert_eq!(ended.code, Some(0), "{ended:?}");
    Some(ended.stdout.lines().count() - 2)
}

/// The `import` lines of a report of `doctor`.
fn unfinished_imports(place: &Place) -> usize {
    let ended = place.run(&["doctor", "--json"]);
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    findings.iter().filter(|finding| finding["check"] == "import").count()
}

struct Arriving {
    file: String,
    lines: usize,
    _from: Place,
}

fn arriving() -> Arriving {
    let (from, _) = filled();
    let file = file(&from, "acme.jsonl");
    from.run(&["export", "--org", "acme", &file, "--json"]).succeeds();
    let lines = fs::read_to_string(&file).unwrap().lines().count() - 2;
    Arriving { file, lines, _from: from }
}

/// What was killed is completed by the same command, or had been complete.
fn complete(to: &Place, arriving: &Arriving) {
    let again = to.run(&["import", &arriving.file, "--as", "moved", "--json"]);
    if again.code != Some(0) {
        again.fails(1, "choose another slug with --as");
    }
    assert_eq!(exported(to, "moved"), Some(arriving.lines));
    assert_eq!(unfinished_imports(to), 0);
    assert!(!to.file("import-trial").exists());
}

#[test]
fn an_import_killed_at_any_moment_is_not_there_and_is_completed_or_removed() {
    let arriving = arriving();
    let (empty, _) = Place::founded();
    let args = ["import", &arriving.file, "--as", "moved"];
    for is_served in [false, true] {
        let whole = time_of(empty.copy().command(&args));
        let (mut begun, mut removed) = (0, 0);
        for n in 0..TIMES {
            let to = empty.copy();
            let serving = is_served.then(|| Serving::start(&to, &[]));
            kill_after(to.command(&args), moment(whole, n));
            let seen = exported(&to, "moved");
            assert!(seen.is_none_or(|lines| lines == arriving.lines), "{seen:?}");
            begun += unfinished_imports(&to);
            if seen.is_none() && n % 2 == 1 {
                let undone = to.run(&["import", "--undo", "--json"]);
                match undone.code {
                    Some(0) => removed += 1,
                    _ => undone.fails(1, "no import is unfinished"),
                }
                assert_eq!(exported(&to, "moved"), None);
            }
            complete(&to, &arriving);
            drop(serving);
            sound(&to);
        }
        println!("served: {is_served}; begun: {begun}, removed: {removed}");
        assert!(begun > 0, "none was killed while it was written");
    }
}

#[test]
fn an_import_whose_server_is_killed_is_completed_by_the_next() {
    let arriving = arriving();
    let (empty, _) = Place::founded();
    let args = ["import", &arriving.file, "--as", "moved"];
    let whole = time_of(empty.copy().command(&args));
    for n in 0..TIMES {
        let to = empty.copy();
        let mut serving = Serving::start(&to, &[]);
        let mut command = quiet(to.command(&args)).spawn().unwrap();
        thread::sleep(moment(whole, n));
        serving.kill();
        let code = command.wait().unwrap().code();
        assert!(matches!(code, Some(0 | 1)), "{code:?}");
        sound(&to);
        let serving = Serving::start(&to, &[]);
        complete(&to, &arriving);
        drop(serving);
        sound(&to);
    }
}

// ── Uploads ──────────────────────────────────────────────────────────────────

fn session(serving: &Serving) -> Caller {
    let anonymous = serving.caller("").with_fields(&[]);
    let body = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = anonymous.ask("POST", "/auth/sign-in").json(&body).send().ok();
    anonymous.with_bearer(session["token"].as_str().unwrap())
}

/// A text that is written in several transactions, with a word of its own.
fn text(name: &str) -> String {
    let line = |n: usize| format!("{name} common line{}\n", n % 500);
    (0..90_000).map(line).collect()
}

#[test]
fn an_upload_is_whole_or_not_there_after_the_server_was_killed() {
    let (place, _) = Place::founded();
    let mut serving = Serving::start(&place, &["--rate-limit", "0"]);
    let base = session(&serving).post("/knowledge-bases", json!({"name": "Handbook"})).id();
    let base = format!("/knowledge-bases/{base}");
    let upload = |caller: &Caller, name: &str| {
        let path = caller.in_org(&format!("{base}/documents/upload?name={name}"));
        caller.ask("POST", &path).with("Content-Type", "text/plain").bytes(text(name)).try_send()
    };
    let begin = Instant::now();
    let first = upload(&session(&serving), "first").unwrap().id();
    let whole = begin.elapsed();
    let acknowledged = Mutex::new(BTreeMap::from([(first, "first".to_string())]));
    let mut dice = Dice::new();
    for cycle in 0..TIMES {
        let owner = session(&serving);
        thread::scope(|scope| {
            for thread in 0..2 {
                let (owner, upload, acknowledged) = (owner.clone(), &upload, &acknowledged);
                scope.spawn(move || {
                    for n in 0.. {
                        let name = format!("c{cycle}t{thread}n{n}");
                        let Ok(reply) = upload(&owner, &name) else { return };
                        acknowledged.lock().unwrap().insert(reply.id(), name);
                    }
                });
            }
            thread::sleep(moment(whole * 2, dice.below(u64::from(TIMES)) as u32));
            serving.kill();
        });
        sound(&place);
        serving = Serving::start(&place, &["--rate-limit", "0"]);
        let owner = session(&serving);
        let listed = owner.walk(&format!("{base}/documents"), 50);
        let counted = owner.get(&base).ok()["documents"].clone();
        assert_eq!(counted, listed.len());
        for document in &listed {
            let (id, name) = (document["id"].as_str().unwrap(), document["name"].as_str().unwrap());
            let shown = owner.get(&format!("{base}/documents/{id}")).ok();
            assert!(shown["content"] == text(name), "{name} has another text");
            let found = owner.get(&format!("{base}/search?q={name}")).items();
            assert_eq!(found.len(), 1, "{name}");
        }
        let ids: BTreeSet<_> = listed.iter().map(|one| one["id"].as_str().unwrap()).collect();
        let acknowledged = acknowledged.lock().unwrap();
        assert!(acknowledged.keys().all(|id| ids.contains(id.as_str())));
    }
}
