//! The systemd units in `packaging/`: systemd finds no fault in them, and nothing that the server does
//! takes a system call that they forbid.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::json;

use crate::client::{Caller, eventually};
use crate::optional::{is_left_out, program, run, works};
use crate::process::{PASSWORD, Place, Serving};

const ROADSTEAD: &str = env!("CARGO_BIN_EXE_roadstead");
const UNITS: [&str; 3] =
    ["roadstead.service", "roadstead-backup.service", "roadstead-backup.timer"];

fn unit(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packaging");
    fs::read_to_string(folder.join(name)).unwrap()
}

fn systemd() -> Option<PathBuf> {
    program("systemd-analyze", "systemd", "systemd")
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    let Some(systemd) = systemd() else { return };
    let place = tempfile::tempdir().unwrap();
    for name in UNITS {
        let text = unit(name).replace("/usr/local/bin/roadstead", ROADSTEAD);
        fs::write(place.path().join(name), text).unwrap();
    }
    let mut verify = Command::new(systemd);
    verify.args(["verify", "--man=no"]).args(UNITS.map(|name| place.path().join(name)));
    let ended = verify.output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    let faults: Vec<_> = said.lines().filter(|line| line.contains("roadstead")).collect();
    assert!(ended.status.success() && faults.is_empty(), "{said}");
}

/// The system calls of a group, and of the groups in it.
fn group(systemd: &Path, name: &str) -> BTreeSet<String> {
    if !name.starts_with('@') {
        return BTreeSet::from([name.to_string()]);
    }
    let text = run(Command::new(systemd).args(["syscall-filter", "--no-pager", name]));
    let lines = text.lines().filter(|line| line.starts_with(' ')).map(str::trim);
    lines.filter(|line| !line.starts_with('#')).flat_map(|line| group(systemd, line)).collect()
}

/// The system calls that the lines `SystemCallFilter=` of a unit permit.
fn permitted(systemd: &Path, unit: &str) -> BTreeSet<String> {
    let mut permitted = BTreeSet::new();
    for line in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        let names = line.strip_prefix('~').unwrap_or(line);
        let calls = names.split(' ').flat_map(|name| group(systemd, name));
        if line.starts_with('~') {
            calls.for_each(|call| _ = permitted.remove(&call));
        } else {
            permitted.extend(calls);
        }
    }
    permitted
}

/// Does what a server is for: mail and hooks fail, since nobody listens.
fn use_all(place: &Place, serving: &Serving) {
    let anonymous = Caller::anonymous(serving.address, "acme");
    let sign_in = json!({"email": "ada@acme.test", "password": PASSWORD});
    let session = anonymous.ask("POST", "/auth/sign-in").json(&sign_in).send().ok();
    let ada = anonymous.with_bearer(session["token"].as_str().unwrap());
    let base = ada.post("/knowledge-bases", json!({"name": "Handbook"})).id();
    let upload = ada.in_org(&format!("/knowledge-bases/{base}/documents/upload?name=f"));
    let pdf = include_bytes!("../api/files/reportlab.pdf");
    let upload = ada.ask("POST", &upload).with("Content-Type", "application/pdf");
    upload.bytes(pdf.as_slice()).send().ok();
    for (workflow, config) in [
        ("webhook", json!({"url": "http://localhost:1/hook"})),
        ("email", json!({"to": ["ada@acme.test"]})),
    ] {
        let body = json!({"name": "Ops", "workflow": workflow, "config": config});
        let channel = ada.post("/notifications/channels", body).id();
        ada.post(&format!("/notifications/channels/{channel}/test"), json!({})).ok();
    }
    let large = json!({"name": "t", "type": "x", "providerConfig": {"text": "a".repeat(900_000)}});
    ada.post("/tools", large).ok();
    let backup = place.data().with_file_name("b");
    place.run(&["backup", backup.to_str().unwrap(), "--json"]).succeeds();
    place.run(&["audit", "checkpoint", "--json"]).succeeds();
}

#[test]
fn the_server_makes_no_system_call_that_its_unit_forbids() {
    let (Some(systemd), Some(strace)) = (systemd(), program("strace", "strace", "strace")) else {
        return;
    };
    let cannot = (!works("strace", &["true"])).then_some("processes cannot be traced here");
    if is_left_out("STRACE", "strace", cannot) {
        return;
    }
    let (place, _) = Place::founded();
    let log = place.data().with_file_name("calls");
    let mut traced = Command::new(strace);
    // The tracer is not the parent, so that signals are for the server.
    traced.args(["-D", "-f", "-q", "-o"]).arg(&log);
    let flags = ["--smtp-url", "smtp://localhost:1?tls=none", "--mail-from", "r@acme.test"];
    let listen = ["serve", "--listen", "127.0.0.1:0", "--json"];
    let private = ["--allow-private-network", "127.0.0.1"];
    let serve = place.command(&[&listen[..], &flags, &private].concat());
    let mut serving = Serving::under(traced, &serve);
    use_all(&place, &serving);
    serving.signal("TERM");
    serving.ends();
    let main = serving.pid().to_string();
    // A process's id is padded to a column.
    let has_ended = |line: &str| {
        line.split_once(' ')
            .is_some_and(|(pid, rest)| pid == main && rest.trim_start().starts_with("+++ exited"))
    };
    let traced = eventually("all is traced", || {
        Some(fs::read_to_string(&log).unwrap()).filter(|text| text.lines().any(has_ended))
    });
    let call = |line: &str| {
        let (_, call) = line.split_once(' ')?;
        let (name, _) = call.trim_start().split_once('(')?;
        name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_').then(|| name.to_string())
    };
    let made: BTreeSet<String> = traced.lines().filter_map(call).collect();
    for expected in ["setpriority", "prlimit64", "execve", "fdatasync"] {
        assert!(made.contains(expected), "{expected} is not in {made:?}");
    }
    let forbidden: Vec<_> =
        made.difference(&permitted(&systemd, &unit("roadstead.service"))).cloned().collect();
    assert_eq!(forbidden, [""; 0]);
}
