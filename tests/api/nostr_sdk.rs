//! The package `nostr-sdk` of PyPI signs requests and names a key at its domain; it accepts what our
//! domains serve. `ROADSTEAD_TEST_NOSTR=off` leaves it out.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::LazyLock;

use serde_json::{Value, json};

use crate::client::Connection;
use crate::exchange::{crew, verified};
use crate::fixture::{Running, config};
use crate::https;
use crate::optional::{Installed, installed, run};
use crate::python::{self, Packages};

static ENVIRONMENT: LazyLock<Installed<PathBuf>> = LazyLock::new(|| {
    python::environment(&Packages {
        folder: "nostr-1",
        what: "the Python package nostr-sdk (once, 20 MB)",
        wanted: &["nostr-sdk"],
        constraints: "tests/api/nostr_sdk.txt",
    })
});

/// A program that does what it reads, one JSON array a line: with a new key it serves its name at
/// its domain by HTTPS, signs and sends requests, and verifies documents.
const PROGRAM: &str = include_str!("nostr_sdk.py");

struct Program {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Program {
    fn start(place: &Path) -> Self {
        let mut child = Command::new(place.join("bin/python"))
            .args(["-c", PROGRAM])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let orders = child.stdin.take().unwrap();
        let answers = BufReader::new(child.stdout.take().unwrap());
        Program { child, orders, answers }
    }

    fn order(&mut self, order: Value) -> Value {
        writeln!(self.orders, "{order}").unwrap();
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap_or_else(|e| panic!("{order}: {e}: {line}"))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn events_of_nostr_sdk_are_accepted_and_the_handle_it_serves_is_confirmed() {
    let Some(place) = installed("NOSTR", "the package nostr-sdk", &ENVIRONMENT) else { return };
    let running = Running::start(config());
    let acme = running.fixture();
    let (team, path) = crew(&acme);
    let mut sdk = Program::start(place);
    let files = tempfile::tempdir().unwrap();
    let (certificate, key) = https::certificate_files("sdk.test", files.path());
    let served = sdk.order(json!(["serve", "scout@sdk.test", certificate, key]));
    let port = served["port"].as_u64().unwrap() as u16;
    https::SITES.lead("sdk.test", ([127, 0, 0, 1], port).into());

    let base = format!("http://{}/api{path}", running.address);
    let body = json!({"handle": "scout@sdk.test", "message": "Hello"});
    let mut post =
        |path: &str, body: &Value| sdk.order(json!(["POST", format!("{base}{path}"), body]));
    let wrong = json!({"handle": "other@sdk.test", "message": "Hello"});
    assert_eq!(post("/requests", &wrong)["status"], 403);
    let asked = post("/requests", &body);
    assert_eq!((&asked["status"], &asked["body"]["state"]), (&json!(200), &json!("pending")));
    let peers = acme.owner.get(&format!("/teams/{team}/exchange/peers")).items();
    assert_eq!(peers[0]["pubkey"], served["pubkey"]);
    let peer = format!("/teams/{team}/exchange/peers/{}", peers[0]["id"].as_str().unwrap());
    acme.owner.post(&format!("{peer}/accept"), json!({})).ok();
    assert_eq!(post("/messages", &json!({"body": "Grüße"}))["status"], 200);
    let thread = sdk.order(json!(["GET", format!("{base}/messages?limit=5"), null]));
    assert_eq!(thread["body"]["items"][0]["body"], "Grüße");
    assert_eq!(sdk.order(json!(["replay"]))["status"], 401);

    // A verification of ours reads what it serves.
    acme.owner.post("/agents", json!({"stableKey": "scout", "name": "Scout"})).ok();
    let listing = json!({"stableKey": "scout", "handle": "scout@sdk.test",
        "pubkey": served["pubkey"], "displayName": "Scout"});
    acme.owner.post("/agent-index/listings", listing).ok();
    let claimed = acme.owner.post("/organizations/domains", json!({"domain": "sdk.test"})).id();
    let verifications = format!("/organizations/domains/{claimed}/verifications");
    let found = acme.owner.post(&verifications, json!({})).ok();
    assert_eq!(found["state"], "verified", "{found}");

    // It reads what our domains serve.
    let (key, handle) = verified(&acme, "ours.test", "scribe");
    let mut connection = Connection::open(running.address).unwrap();
    let request = "GET /.well-known/nostr.json?name=scribe HTTP/1.1\r\nHost: ours.test\r\n\r\n";
    connection.write(request.as_bytes()).unwrap();
    let document = connection.reply(false).unwrap().text();
    let mut verify = |pubkey: &str| sdk.order(json!(["verify", pubkey, handle, document]));
    assert_eq!(verify(&key.pubkey()), true);
    assert_eq!(verify(served["pubkey"].as_str().unwrap()), false);
}

/// The client in Python of the reference, as it stands there but for addresses and key: an agent of
/// one installation asks a team of another.
#[test]
fn the_python_of_the_reference_writes_from_one_roadstead_to_another() {
    let Some(place) = installed("NOSTR", "the package nostr-sdk", &ENVIRONMENT) else { return };
    let (here, there) = (Running::start(config()), Running::start(config()));
    let (ours, theirs) = (here.fixture(), there.fixture());
    let (key, handle) = verified(&ours, "docs.test", "scout");
    let (team, path) = crew(&theirs);
    let reference = include_str!("../../docs/reference/exchange.md");
    let (_, code) = reference.split_once("```python\n").unwrap();
    let (code, _) = code.split_once("```").unwrap();
    let mut program = code.to_string();
    for (written, meant) in [
        ("<the agent's secret key>", key.secret()),
        (
            "https://there.example/api/exchange/acme/crew",
            format!("http://{}/api{path}", there.address),
        ),
        ("scout@here.example", handle.clone()),
    ] {
        assert!(program.contains(written), "{written}: {code}");
        program = program.replace(written, &meant);
    }
    program += "\nprint(json.dumps(asked))\n\
        print(json.dumps(send('GET', f\"{there}/requests/{asked['id']}\")))";
    let printed = run(Command::new(place.join("bin/python")).args(["-c", &program]));
    let answers: Vec<Value> =
        printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(answers[0]["state"], "pending");
    assert_eq!(answers[1], answers[0]);
    let peers = theirs.member.get(&format!("/teams/{team}/exchange/peers")).items();
    assert_eq!((&peers[0]["handle"], &peers[0]["pubkey"]), (&json!(handle), &json!(key.pubkey())));
    here.stop();
    there.stop();
}
