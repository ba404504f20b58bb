//! A disk that is full: a real file system of 96 MiB, in a mount namespace of its own.

use std::io::{BufRead, BufReader, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};

use crate::client::{Caller, eventually, server_log};
use crate::optional::{CANNOT_MOUNT, needs_root};

/// Mounts a file system, serves a data directory in it, and does as it is told.
const SCRIPT: &str = r#"
mount -t tmpfs -o size=96m tmpfs "$1" || exit 77
serve() {
  "$2" serve --data "$1/data" --listen 127.0.0.1:0 --json 2>> "$1.stderr" &
  server=$!
}
serve "$1" "$2"
while read -r line; do
  case "$line" in
    fill) dd if=/dev/zero of="$1/filler" bs=64k 2> "$1.log"; echo '"filled"' ;;
    free) rm "$1/filler"; echo '"freed"' ;;
    restart) kill -9 "$server"; wait "$server" 2> "$1.log"; serve "$1" "$2" ;;
    reserve) echo "\"$(stat -c %s "$1/data/reserve" 2> "$1.log")\"" ;;
    check) kill "$server"; wait "$server"; "$2" check --data "$1/data" --json ;;
  esac
done
kill "$server" 2> "$1.log"
wait "$server"
"#;

/// What a server logs whose disk is full; anything else that it logs as an error fails the test.
const OF_A_FULL_DISK: &[&str] = &[
    "code=\"disk_full\"",
    "code=\"outcome_unknown\" detail=\"internal error; see the server's log (the log: No space left",
    "a commit failed; its outcome is unknown error=internal error; see the server's log (the log: No \
     space left",
    "a checkpoint failed; it will be tried again error=internal error; see the server's log (the \
     database: I/O error: No space left",
    " error=the server's disk is full",
];

/// The shell that runs [`SCRIPT`]; its server ends with it.
struct SmallDisk {
    shell: Child,
    orders: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
    first: Value,
    /// The server's log, on another file system.
    log: PathBuf,
}

impl SmallDisk {
    /// `None` where no file system can be mounted, which is said aloud.
    fn mount(at: &Path) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let mut command = Command::new("unshare");
        command.args(["-Urm", "sh", "-c", SCRIPT, "sh"]).arg(at);
        command.arg(env!("CARGO_BIN_EXE_roadstead"));
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut shell = command.spawn().ok()?;
        let orders = shell.stdin.take();
        let answers = BufReader::new(shell.stdout.take().unwrap());
        let log = at.with_extension("stderr");
        let mut disk = SmallDisk { shell, orders, answers, first: Value::Null, log };
        let Some(first) = disk.answer() else {
            needs_root("MOUNTS", "a full disk", Some(CANNOT_MOUNT));
            return None;
        };
        disk.first = first;
        Some(disk)
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        serde_json::from_str(&line).ok()
    }

    fn order(&mut self, order: &str) -> Value {
        writeln!(self.orders.as_mut().unwrap(), "{order}").unwrap();
        self.answer().expect("an answer")
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        drop(self.orders.take());
        let _ = self.shell.wait();
        // Where nothing can be mounted, there is none.
        let log = std::fs::read_to_string(&self.log).unwrap_or_default();
        server_log::assert_clean(&log, OF_A_FULL_DISK);
    }
}

/// The organization, before the disk is full.
struct Acme {
    /// Ada's session.
    ada: Caller,
    /// An API key, its secret and its id.
    key: Caller,
    secret: String,
    key_id: String,
    /// An API key that may only read.
    reader: Caller,
}

const PASSWORD: &str = "correct horse battery";

/// Calls the server that said this when it started.
fn anonymous(first: &Value) -> Caller {
    let url = first["listening"].as_str().unwrap();
    Caller::anonymous(url.strip_prefix("http://").unwrap().parse().unwrap(), "acme")
}

fn set_up(disk: &SmallDisk) -> Acme {
    let anonymous = anonymous(&disk.first);
    let link = disk.first["setupLink"].as_str().unwrap();
    let user = json!({"name": "Ada", "email": "ada@acme.test", "password": PASSWORD});
    let setup = json!({"token": link.split_once('#').unwrap().1, "user": user,
        "organization": {"slug": "acme", "name": "Acme"}});
    let session = anonymous.ask("POST", "/setup").json(&setup).send().ok();
    let ada = anonymous.with_bearer(session["token"].as_str().unwrap());
    let made = ada.post("/api-keys", json!({"name": "k"})).ok();
    let secret = made["key"].as_str().unwrap().to_string();
    let key = anonymous.with_key(&secret);
    let reader = ada.post("/api-keys", json!({"name": "r", "access": "read"})).ok();
    let reader = anonymous.with_key(reader["key"].as_str().unwrap());
    Acme { ada, key, secret, key_id: made["id"].as_str().unwrap().into(), reader }
}

fn large_tool() -> Value {
    json!({"name": "t", "type": "x", "providerConfig": {"a": "x".repeat(200_000)}})
}

/// Creates memories; returns their paths.
fn remember(key: &Caller, number: usize) -> Vec<String> {
    let team = key.post("/teams", json!({"slug": "crew", "name": "Crew"})).id();
    key.post("/agents", json!({"stableKey": "ann", "name": "Ann"})).ok();
    let hired = json!({"stableKey": "ann", "role": "member"});
    let agent = key.post(&format!("/teams/{team}/agents"), hired).id();
    let memories = format!("/teams/{team}/agents/{agent}/memories");
    let made = (0..number).map(|_| key.post(&memories, json!({"content": "m"})).id());
    made.map(|id| format!("{memories}/{id}")).collect()
}

#[test]
fn on_a_full_disk_records_can_be_deleted_and_access_revoked() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let Acme { ada, key, key_id, reader, .. } = set_up(&disk);
    let tools: Vec<_> = (0..20).map(|_| key.post("/tools", large_tool()).id()).collect();
    let memories = remember(&key, 70);
    let reserve = disk.order("reserve");
    assert_eq!(reserve, (48 * 1024 * 1024).to_string(), "it is held from the start");

    disk.order("fill");
    let full = eventually("the disk is full", || {
        let reply = key.post("/tools", large_tool());
        (reply.status == 503 && reply.json()["code"] == "disk_full").then_some(reply)
    });
    assert!(full.header("retry-after").is_some());
    assert!(full.json()["message"].as_str().unwrap().contains("deletions"));
    assert_eq!(key.get("/tools?limit=1").status, 200, "reads continue");

    let (begun, refusals) = (Instant::now(), 100);
    for _ in 0..refusals {
        reader.post("/tools", large_tool()).refused(403, "scope_missing");
    }
    let log = std::fs::read_to_string(&disk.log).unwrap();
    let lines = log.matches("the audit entry of a refusal could not be written").count();
    // One a second, and the first.
    let most = usize::try_from(begun.elapsed().as_secs()).unwrap() + 1;
    assert!((1..=most.min(refusals / 2)).contains(&lines), "{lines} lines: {log}");

    // More than the store keeps before it forgets those that are in the ledger of erasures.
    for memory in &memories {
        key.delete(memory).ok();
    }
    // One that frees less than what would be space again.
    key.delete(&format!("/tools/{}", tools[0])).ok();
    let new = json!({"currentPassword": PASSWORD, "newPassword": "another password"});
    ada.ask("POST", "/auth/password").json(&new).send().ok();
    let sign_in = json!({"email": "ada@acme.test", "password": "another password"});
    let session = ada.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
    let again = ada.with_bearer(session["token"].as_str().unwrap());
    ada.delete(&format!("/api-keys/{key_id}")).ok();
    key.get("/tools").refused(401, "unauthenticated");
    again.ask("POST", "/auth/sign-out").json(&json!({})).send().ok();
    again.get("/tools").refused(401, "unauthenticated");
    assert_eq!(disk.order("reserve"), "", "the reserve was released for it");
    ada.post("/tools", json!({"name": "small", "type": "x"})).refused(503, "disk_full");

    disk.order("free");
    // A write may be possible before, in what deletions have freed inside of the database file.
    eventually("there is space, and the reserve is held again", || {
        let reply = ada.post("/tools", large_tool());
        (reply.status == 200 && disk.order("reserve") == reserve).then_some(())
    });
    let found = disk.order("check");
    assert_eq!(found["findings"].as_array().map_or(0, Vec::len), 0, "{found}");
}

/// Erasures are kept in the store until there are 64, and are written to the ledger again at a start:
/// those of so many memories take more than a page of it.
const ERASED: usize = 60;

#[test]
fn a_server_that_is_killed_on_a_disk_without_a_free_byte_starts_again_and_deletes() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let Acme { key, secret, .. } = set_up(&disk);
    let memories = remember(&key, ERASED + 1);
    for memory in &memories[1..] {
        key.delete(memory).ok();
    }
    disk.order("fill");
    let first = disk.order("restart");
    let key = anonymous(&first).with_key(&secret);
    assert_eq!(disk.order("reserve"), "", "it is given up before anything else");
    assert_eq!(key.get("/agents").status, 200);
    key.post("/tools", large_tool()).refused(503, "disk_full");
    key.delete(&memories[0]).ok();
    disk.order("free");
    eventually("there is space", || (key.post("/tools", large_tool()).status == 200).then_some(()));
    let found = disk.order("check");
    assert_eq!(found["findings"].as_array().map_or(0, Vec::len), 0, "{found}");
}

#[test]
fn what_is_deleted_at_the_moment_the_disk_is_full_is_recorded_in_the_reserve() {
    let place = tempfile::tempdir().unwrap();
    let Some(mut disk) = SmallDisk::mount(&place.path().join("disk")) else { return };
    let Acme { key, .. } = set_up(&disk);
    let memories = remember(&key, ERASED);
    disk.order("fill");
    // The log has room, so nobody has noticed. The ledger has not.
    for memory in &memories {
        key.delete(memory).ok();
    }
    assert_eq!(disk.order("reserve"), "", "it was given up for the ledger");
    key.post("/tools", large_tool()).refused(503, "disk_full");
}

/// The tests above are to notice a fault of the server that answers hide.
#[test]
fn a_panic_beside_a_full_disk_fails_the_test() {
    let place = tempfile::tempdir().unwrap();
    let faults =
        ["ERROR panicked: no space", "ERROR a commit failed; its outcome is unknown error=x"];
    for (number, line) in faults.iter().enumerate() {
        let at = place.path().join(format!("disk-{number}"));
        let Some(disk) = SmallDisk::mount(&at) else { return };
        let mut log = std::fs::OpenOptions::new().append(true).open(&disk.log).unwrap();
        writeln!(log, "2026-01-01T00:00:00.000000Z {line}").unwrap();
        let dropped = catch_unwind(AssertUnwindSafe(|| drop(disk))).unwrap_err();
        let message = dropped.downcast_ref::<String>().unwrap();
        assert!(message.contains(line), "{message}");
    }
}
