//! The example agents do a task and read their mail, woken by a long poll and by posted wakes.

use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::client::{Connection, eventually, raw};
use crate::environment;
use crate::node;
use crate::optional::{Installed, installed};
use crate::server::{Acme, Team, free_port};

/// A running example. It is killed when dropped.
struct Example(Child);

impl Drop for Example {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(runtime: &Path, file: &str, acme: &Acme, team: &Team, port: Option<u16>) -> Example {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(file);
    let mut command = Command::new(runtime);
    command.arg(example).args(port.map(|port| port.to_string()));
    command.env("API", acme.api()).env("KEY", &acme.key).env("ORG", "acme");
    command.env("TEAM", &team.id).env("AGENT", &team.agent);
    command.env("WAKE_SECRET", team.wake_secret.as_str().unwrap_or_default());
    Example(
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap(),
    )
}

/// Waits until what is at a path is as expected.
fn becomes(acme: &Acme, path: &str, what: &str, is_expected: impl Fn(&Value) -> bool) {
    eventually(what, || {
        let reply = acme.watcher.get(path);
        // The test asks more often than it may.
        Some(()).filter(|()| reply.status != 429 && is_expected(&reply.ok()))
    });
}

/// Waits until a task is done and the people have been told so, once.
fn is_done(acme: &Acme, team: &Team, task: &str, title: &str) {
    becomes(acme, task, "its end", |task| task["status"] == "done");
    let inbox = format!("/teams/{}/messages?audience=human", team.id);
    becomes(acme, &inbox, "the message about it", |inbox| {
        let told = inbox["items"].as_array().unwrap();
        told.iter().filter(|mail| mail["subject"] == title).count() == 1
    });
    let wakes = format!("/teams/{}/agents/{}/wakes?peek=true", team.id, team.agent);
    becomes(acme, &wakes, "the acknowledgement", |wakes| wakes["items"] == json!([]));
}

fn works_by_long_poll(runtime: &Path, file: &str) {
    // So few requests that the example has to wait for its turn.
    let acme = Acme::start(&["--rate-limit", "5"]);
    let key = acme.serving.caller(&acme.key);
    let team = acme.team("shipping", None);
    let first = acme.assign(&team, "Write the notes");
    let _example = start(runtime, file, &acme, &team, None);
    is_done(&acme, &team, &first, "Write the notes");
    let mail = json!({"toAgentId": team.agent, "body": "Keep it short."});
    let mail = acme.owner.post(&format!("/teams/{}/messages", team.id), mail).id();
    let mail = format!("/teams/{}/messages/{mail}", team.id);
    becomes(&acme, &mail, "reading", |mail| !mail["readAt"].is_null());
    // Uses up the key's requests.
    while key.get("/teams").status == 200 {}
    let second = acme.assign(&team, "Write more");
    is_done(&acme, &team, &second, "Write more");
}

fn works_by_posted_wakes(runtime: &Path, file: &str) {
    let acme = Acme::start(&["--allow-private-network", "127.0.0.1"]);
    let port = free_port();
    let url = format!("http://127.0.0.1:{port}/wake");
    let team = acme.team("shipping", Some(&url));
    let _example = start(runtime, file, &acme, &team, Some(port));
    let address = ([127, 0, 0, 1], port).into();
    eventually("listening", || TcpStream::connect(address).ok());
    let task = acme.assign(&team, "Be posted");
    is_done(&acme, &team, &task, "Be posted");
    // Neither unsigned nor wrongly signed.
    let signed = "webhook-id: a\r\nwebhook-timestamp: 1\r\nwebhook-signature: v1,AAAA\r\n";
    for headers in ["", signed] {
        let head =
            format!("POST /wake HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: 2\r\n");
        assert_eq!(raw(address, format!("{head}\r\n{{}}").as_bytes()).status, 401);
    }
    drop(Connection::open(address));
}

/// Without its variables an example names each of them, one on a line.
fn names_missing_variables(runtime: &Path, file: &str) {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/examples").join(file);
    let always = ["API", "KEY", "ORG", "TEAM", "AGENT"];
    let posted = [&always[..], &["WAKE_SECRET"]].concat();
    for (port, expected) in [(None, &always[..]), (Some("1"), &posted[..])] {
        let mut command = Command::new(runtime);
        command.arg(&example).args(port).stdin(Stdio::null());
        for name in &posted {
            command.env_remove(name);
        }
        let ended = command.output().unwrap();
        assert_eq!(ended.status.code(), Some(2), "{ended:?}");
        let said = String::from_utf8(ended.stderr).unwrap();
        let names: Vec<_> =
            said.lines().filter_map(|line| line.strip_prefix("set ")?.split(':').next()).collect();
        assert_eq!(names, expected, "{said}");
    }
}

fn python() -> Option<PathBuf> {
    environment("AGENTS", "the example agents").map(|place| place.join("bin/python"))
}

static NODE: LazyLock<Installed<PathBuf>> = LazyLock::new(node::program);

fn node() -> Option<PathBuf> {
    installed("AGENTS", "the example agents", &NODE).cloned()
}

#[test]
fn the_agents_name_the_variables_that_are_missing() {
    let (Some(python), Some(node)) = (python(), node()) else { return };
    names_missing_variables(&python, "agent.py");
    names_missing_variables(&node, "agent.ts");
}

#[test]
fn the_python_agent_works_by_long_poll() {
    let Some(python) = python() else { return };
    works_by_long_poll(&python, "agent.py");
}

#[test]
fn the_python_agent_works_by_posted_wakes() {
    let Some(python) = python() else { return };
    works_by_posted_wakes(&python, "agent.py");
}

#[test]
fn the_typescript_agent_works_by_long_poll() {
    let Some(node) = node() else { return };
    works_by_long_poll(&node, "agent.ts");
}

#[test]
fn the_typescript_agent_works_by_posted_wakes() {
    let Some(node) = node() else { return };
    works_by_posted_wakes(&node, "agent.ts");
}
