//! `wakes --exec`: a command for each wake, over failures and restarts of the server.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};

use crate::client::{eventually, within};
use crate::desk::Desk;
use crate::process::Serving;

/// A process that is killed when dropped.
struct Loop(Child);

impl Loop {
    fn start(desk: &Desk, exec: &str, more: &[&str]) -> Self {
        let args = ["wakes", "--team", "shipping", "--agent", "scribe", "--exec", exec];
        let mut command = desk.command(&[&args, more].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Loop(command.spawn().unwrap())
    }

    fn signal(&self) {
        let sent = Command::new("kill").arg(self.0.id().to_string()).status().unwrap();
        assert!(sent.success());
    }

    fn code(&mut self) -> Option<i32> {
        within(std::time::Duration::from_secs(30), "its end", || self.0.try_wait().unwrap()).code()
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

#[test]
fn a_command_gets_each_wake_once_it_succeeds() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let got = desk.path("got");
    let exec = format!("cat >> {}; test $ROADSTEAD_TEAM = shipping", got.display());
    let mut running = Loop::start(&desk, &exec, &[]);
    for number in 1..=3 {
        desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
        let wakes = eventually("its wake", || Some(lines(&got)).filter(|w| w.len() == number));
        assert_eq!(wakes[number - 1]["reason"], "task_assigned");
    }
    let path = format!("/teams/{team}/agents/{scribe}/wakes?peek=true");
    eventually("acknowledgements", || desk.api().get(&path).items().is_empty().then_some(()));
    running.signal();
    assert_eq!(running.code(), Some(0));
    assert_eq!(lines(&got).len(), 3);
}

#[test]
fn a_wake_whose_command_fails_comes_back() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    let wakes = ["wakes", "--team", "shipping", "--agent", "scribe"];
    let got = desk.path("got");
    let exec = format!("cat > {}; exit 3", got.display());
    let once = [&wakes[..], &["--once", "--json", "--exec", &exec]].concat();
    let failed = desk.run(&once);
    assert_eq!(failed.code, Some(1), "{failed:?}");
    let counted: Value = serde_json::from_str(&failed.stdout).unwrap();
    assert_eq!(counted, json!({"done": 0, "failed": 1}));
    assert!(failed.stderr.contains("it comes back"), "{failed:?}");
    // It is leased, and comes back when the lease ends: nobody has acknowledged it.
    let nothing = [&wakes[..], &["--once", "--exec", "true"]].concat();
    assert_eq!(desk.json(&nothing)["done"], 0);
    let shown = desk.run(&wakes).stdout;
    assert!(shown.contains("waits again when its lease of 60 seconds ends"), "{shown}");
    let wake = lines(&got)[0]["id"].clone();
    let ack = format!("/teams/{team}/agents/{scribe}/wakes/ack");
    let acknowledged = desk.api().post(&ack, json!({"wakeIds": [wake]})).ok();
    assert_eq!(acknowledged["acknowledged"], 1);

    desk.json(&["message", "send", "Hello", "--to", "scribe", "--team", "shipping"]);
    assert_eq!(desk.json(&wakes)["items"][0]["reason"], "direct_message");
}

#[test]
fn sigterm_waits_for_the_running_command_and_acknowledges_it() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let (begun, go) = (desk.path("begun"), desk.path("go"));
    let exec =
        format!("touch {}; while ! test -e {}; do sleep 0.05; done", begun.display(), go.display());
    let mut running = Loop::start(&desk, &exec, &[]);
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    eventually("the command", || begun.exists().then_some(()));
    running.signal();
    assert_eq!(running.0.try_wait().unwrap(), None);
    fs::write(&go, "").unwrap();
    assert_eq!(running.code(), Some(0));
    let path = format!("/teams/{team}/agents/{scribe}/wakes?peek=true");
    assert!(desk.api().get(&path).items().is_empty());
}

#[test]
fn a_second_signal_ends_the_command() {
    let desk = Desk::new();
    desk.team();
    let begun = desk.path("begun");
    let exec = format!("touch {}; exec sleep 600", begun.display());
    let mut running = Loop::start(&desk, &exec, &[]);
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    eventually("the command", || begun.exists().then_some(()));
    // One that arrives while another is pending counts as one.
    eventually("its end", || {
        running.signal();
        running.0.try_wait().unwrap()
    });
    assert_eq!(running.code(), Some(0));
}

#[test]
fn the_loop_goes_on_after_the_server_was_restarted() {
    let mut desk = Desk::new();
    desk.team();
    let got = desk.path("got");
    let exec = format!("cat >> {}", got.display());
    let port = desk.serving.address.port();
    let mut running = Loop::start(&desk, &exec, &[]);
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    eventually("the first", || (lines(&got).len() == 1).then_some(()));
    desk.serving.signal("TERM");
    desk.serving.ends();
    let listen = format!("127.0.0.1:{port}");
    let again = desk.place.command(&["serve", "--listen", &listen, "--json"]);
    desk.serving = Serving::of(again);
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    within(std::time::Duration::from_secs(40), "the second", || {
        (lines(&got).len() == 2).then_some(())
    });
    running.signal();
    assert_eq!(running.code(), Some(0));
}

#[test]
fn a_revoked_key_ends_the_loop() {
    let desk = Desk::new();
    desk.team();
    let key = desk.key_with(&["team:read", "team:work"]);
    let args = ["wakes", "--team", "shipping", "--agent", "scribe", "--exec", "true"];
    let mut command = desk.command(&args);
    command.env("ROADSTEAD_API_KEY", &key).stderr(Stdio::piped());
    let mut running = Loop(command.spawn().unwrap());
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    let session = desk.session();
    let keys = session.get("/api-keys").items();
    let ci = keys.iter().find(|one| one["name"] == "CI").unwrap();
    eventually("its use", || {
        let keys = session.get("/api-keys").items();
        keys.iter().find(|one| one["id"] == ci["id"])?["lastUsedAt"].as_str().map(|_| ())
    });
    session.delete(&format!("/api-keys/{}", ci["id"].as_str().unwrap())).ok();
    assert_eq!(running.code(), Some(1));
}

#[test]
fn wakes_that_failed_are_shown_and_handed_out_again() {
    let desk = Desk::new();
    let (team, scribe) = desk.team();
    let agent = format!("/teams/{team}/agents/{scribe}");
    desk.api().patch(&agent, json!({"maxAttempts": 1})).ok();
    desk.json(&["task", "create", "Write", "--assign", "scribe", "--team", "shipping"]);
    let wakes = ["wakes", "--team", "shipping", "--agent", "scribe"];
    let failed = |more: &[&str]| desk.run(&[&wakes[..], &["--failed"], more].concat());
    assert_eq!(failed(&[]).stdout.trim(), "no failed wakes");
    let once = [&wakes[..], &["--once", "--exec", "exit 3"]].concat();
    assert_eq!(desk.run(&once).code, Some(1));
    within(std::time::Duration::from_secs(90), "it fails", || {
        let failed = desk.api().get(&format!("{agent}/wakes/failed")).items();
        (failed.len() == 1).then_some(())
    });
    assert!(failed(&[]).stdout.contains("task_assigned"));
    assert_eq!(failed(&["--retry"]).stdout.trim(), "1 wakes are handed out again");
    assert_eq!(failed(&[]).stdout.trim(), "no failed wakes");
    let once = [&wakes[..], &["--once", "--exec", "true"]].concat();
    assert_eq!(desk.run(&once).stdout.trim(), "1 wakes done, 0 failed");
}
